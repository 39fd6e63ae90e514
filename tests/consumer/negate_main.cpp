// SPDX-License-Identifier: Apache-2.0
// A program of somebody else: boots a card, runs its own kernel over four tiles, reads errors, recovers.
#include <array>
#include <cstddef>
#include <cstdio>
#include <span>
#include <spyre/spyre.hpp>
#include <string>
#include <vector>

namespace {

int failures = 0;

void check(bool holds, const char* what) {
  std::printf("%s %s\n", holds ? "ok    " : "FAILED", what);
  if (!holds) ++failures;
}

constexpr std::int64_t kRows = 256;
constexpr std::int64_t kColumns = 128;
constexpr std::int64_t kTileRows = 64;

// Numbers that DL16 holds exactly.
std::vector<float> numbers() {
  std::vector<float> values(kRows * kColumns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 257) - 128.0f;
  return values;
}

spyre::ExecutionPlan plan_of(std::shared_ptr<const spyre::Kernel> kernel, const spyre::DimensionExtents& extents) {
  spyre::ExecutionPlan plan;
  plan.add(spyre::Job(spyre::CompiledKernel(std::move(kernel), extents)));
  return plan;
}

void negate_on_card(spyre::Context& context, spyre::ExecutionPlan& plan) {
  const auto values = numbers();
  const auto shape = spyre::HostShape::contiguous(spyre::DataType::Float32, {kRows, kColumns});
  const auto a = context.to_device({shape, std::as_bytes(std::span(values))}, spyre::DeviceType::Dl16);
  const auto b = context.empty(spyre::DataType::Float32, {kRows, kColumns}, spyre::DeviceType::Dl16);
  context.load(plan);
  auto stream = context.default_stream();
  spyre::LaunchKernel(stream, plan, std::array{a, b});
  stream.Synchronize();

  std::vector<float> result(values.size());
  context.to_host(b, {shape, std::as_writable_bytes(std::span(result))});
  std::size_t equal = 0;
  for (std::size_t i = 0; i < values.size(); ++i) equal += result[i] == -values[i] ? 1 : 0;
  check(equal == values.size(), "every element is negated");
}

// Thrown in the library, caught here: by its own type, and by the type that every error has.
void errors(spyre::Context& context, const spyre::ExecutionPlan& plan) {
  auto stream = context.default_stream();
  try {
    spyre::LaunchKernel(stream, plan, {});
    check(false, "a launch without tensors is refused");
  } catch (const spyre::InvalidArgument& error) {
    check(!error.field().empty(), error.what());
  }
  try {
    (void)spyre::Kernel::load("no such file.img", "no such file.json");
    check(false, "a kernel that is not there is refused");
  } catch (const spyre::Error& error) {
    check(true, error.what());
  }
  try {
    const auto one = context.empty(spyre::DataType::Float32, {kTileRows}, spyre::DeviceType::Dl16);
    stream.Launch(plan.jobs()[0], std::array{one, one});
    check(false, "a tensor of another rank is refused");
  } catch (const spyre::TilingError& error) {
    check(error.reason() == spyre::TilingError::Reason::RankDiffers, error.what());
  }
}

// A kernel that never ends is stopped by its budget, and the context works again.
void recovery(spyre::Context& context) {
  auto plan = plan_of(context.kernel("spin"), {});
  context.load(plan);
  auto stream = context.stream();
  stream.Launch(plan.jobs()[0], {}, {.budget_slices = 20});
  try {
    stream.Synchronize();
    check(false, "the kernel is stopped");
  } catch (const spyre::StreamError& error) {
    check(error.failure().outcome == spyre::Outcome::Timeout && error.failure().job == "spin", error.what());
  }
  const spyre::RecoveryReport report = context.recover();
  check(!report.attempts.empty(), spyre::describe(report).c_str());
  stream.Synchronize();
  check(!stream.error(), "the stream works again");
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 3) {
    std::fprintf(stderr, "usage: %s negate.img negate.json\n", arguments[0]);
    return 2;
  }
  std::printf("libspyre %s\n", spyre::version().c_str());
  const auto context = spyre::Context::open();
  std::printf("%s\n", context->device_name().c_str());
  auto plan = plan_of(spyre::Kernel::load(arguments[1], arguments[2]), {{"M", kTileRows}, {"N", kColumns}});
  negate_on_card(*context, plan);
  errors(*context, plan);
  recovery(*context);
  negate_on_card(*context, plan);
  return failures == 0 ? 0 : 1;
} catch (const spyre::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
