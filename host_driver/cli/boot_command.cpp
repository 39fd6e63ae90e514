// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>

#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/timeline.hpp"
#include "host_driver/frontend/context.hpp"
#include "host_driver/tensor/golden/golden.hpp"
#include "host_driver/tensor/stickify.hpp"

namespace cli {

namespace {

using Clock = std::chrono::steady_clock;
using svp::Context;

// A step of the self-test: throws when what it looks at is not as it must be.
struct SelfTestStep {
  const char* name;
  std::function<std::string(Context&)> run;
};

[[noreturn]] void fail_step(const std::string& what) {
  throw svp::Error({.layer = svp::Layer::Firmware,
                    .source = "self-test",
                    .outcome = wire::Outcome::Fault,
                    .recoverable = false,
                    .next_step = "report it with the card's console: the card does what it must not",
                    .message = what});
}

void require(bool condition, const std::string& what) {
  if (!condition) fail_step(what);
}

std::string transfer_round_trip(Context& context) {
  constexpr std::size_t kBytes = 8 * wire::kMiB + 3 * wire::kStickBytes;
  std::vector<std::byte> out(kBytes), back(kBytes);
  std::mt19937_64 random(1);
  std::generate(out.begin(), out.end(), [&] { return static_cast<std::byte>(random()); });
  const auto storage = context.allocator().allocate(kBytes);
  auto& stream = context.default_stream().flex_stream();
  const auto start = Clock::now();
  stream.Launch(svp::Job::to_device(out.data(), storage->allocation_index(), kBytes), {});
  stream.Launch(svp::Job::from_device(back.data(), storage->allocation_index(), kBytes), {});
  stream.Synchronize();
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  require(out == back, "bytes changed on the way to the card and back");
  return fmt::format("{} of pageable memory there and back in {}", format_bytes(kBytes), format_time_us(us));
}

std::string add_kernel(Context& context) {
  constexpr std::int64_t kRows = 128, kColumns = 256;
  std::vector<float> a(kRows * kColumns), b(a.size()), c(a.size());
  std::mt19937 random(2);
  std::uniform_real_distribution<float> uniform(-8, 8);
  for (auto* values : {&a, &b}) std::generate(values->begin(), values->end(), [&] { return uniform(random); });
  const auto shape = svp::HostShape::contiguous(svp::DataType::Float32, {kRows, kColumns});
  const auto half = svp::HostShape::contiguous(svp::DataType::Float16, {kRows, kColumns});
  std::vector<std::uint16_t> a16(a.size()), b16(a.size()), golden(a.size());
  std::transform(a.begin(), a.end(), a16.begin(),
                 [](float x) { return std::bit_cast<std::uint16_t>(static_cast<_Float16>(x)); });
  std::transform(b.begin(), b.end(), b16.begin(),
                 [](float x) { return std::bit_cast<std::uint16_t>(static_cast<_Float16>(x)); });
  const auto da = context.to_device({half, std::as_bytes(std::span(a16))});
  const auto db = context.to_device({half, std::as_bytes(std::span(b16))});
  const auto dc = context.empty(svp::DataType::Float16, {kRows, kColumns});
  const auto kernel = context.kernel("add");
  svp::DimensionExtents extents;
  const auto& dimensions = kernel->metadata().dimensions;
  for (std::size_t d = 0; d < dimensions.size(); ++d) extents[dimensions[d]] = d == 0 ? kRows : kColumns;
  svp::ExecutionPlan plan;
  plan.add(svp::Job(svp::CompiledKernel(kernel, extents)));
  context.load(plan);
  auto stream = context.default_stream();
  const svp::SpyreTensor tensors[] = {da, db, dc};
  svp::LaunchKernel(stream, plan, tensors);
  context.to_host(dc, {shape, std::as_writable_bytes(std::span(c))});
  std::vector<std::uint16_t> a_dl16(a.size()), b_dl16(a.size());
  svp::convert_to_device(svp::DataType::Float16, svp::DeviceType::Dl16, a16.data(), a_dl16.data(), a.size());
  svp::convert_to_device(svp::DataType::Float16, svp::DeviceType::Dl16, b16.data(), b_dl16.data(), b.size());
  svp::golden::add_dl16(a_dl16, b_dl16, golden);
  std::vector<float> expected(c.size());
  svp::convert_to_host(svp::DeviceType::Dl16, svp::DataType::Float32, golden.data(), expected.data(), c.size());
  require(c == expected, "the add kernel's result is not the golden model's");
  return fmt::format("{} elements bit-equal to the golden model", c.size());
}

std::string endless_kernel_is_stopped(Context& context) {
  svp::ExecutionPlan plan;
  plan.add(svp::Job(svp::CompiledKernel(context.kernel("spin"), {})));
  context.load(plan);
  auto stream = context.stream();
  svp::LaunchOptions options;
  options.budget_slices = 10;
  stream.flex_stream().Launch(plan.jobs().front(), {}, options);
  try {
    stream.Synchronize();
  } catch (const svp::StreamError& error) {
    require(error.failure().outcome == wire::Outcome::Timeout, error.what());
    stream.Reset();
    context.default_stream().Synchronize();
    return fmt::format("stopped after {} slices of 1 ms; its stream works again after a reset", error.failure().slices);
  }
  fail_step("an endless kernel ended by itself");
}

std::string allocator_refuses(Context& context) {
  try {
    context.allocator().allocate(200 * wire::kGiB);
  } catch (const svp::OutOfMemory& error) {
    return fmt::format("200 GiB refused: {} free of {}", format_bytes(static_cast<double>(error.free_bytes())),
                       format_bytes(static_cast<double>(error.total_bytes())));
  }
  fail_step("the allocator promised more memory than there is");
}

const SelfTestStep kSteps[] = {
    {"transfers", transfer_round_trip},
    {"kernel", add_kernel},
    {"watchdog", endless_kernel_is_stopped},
    {"out of memory", allocator_refuses},
};

bool run_self_test(const std::shared_ptr<svp::Card>& card, unsigned function) {
  bool good = true;
  svp::ContextOptions options;
  options.function = function;
  const auto context = Context::open(card, std::move(options));
  fmt::print("\nSelf-test on {}\n", function == 0 ? std::string("PF") : fmt::format("VF {}", function));
  for (const SelfTestStep& step : kSteps) {
    try {
      fmt::print("  ok    {:<14} {}\n", step.name, step.run(*context));
    } catch (const std::exception& error) {
      fmt::print("  FAIL  {:<14} {}\n", step.name, error.what());
      good = false;
    }
  }
  return good;
}

}  // namespace

int boot(const BootOptions& options) {
  // An embedded card has one owner for good: spares would only cost time.
  CardShape shape = options.shape;
  shape.spare_slots = 0;
  const auto start = Clock::now();
  auto booted = svp::Card::boot(card_options(shape, 1));
  if (!booted) throw svp::Error(std::move(booted.error()));
  const std::shared_ptr<svp::Card> card = std::move(*booted);
  // Attached: the card is ready for work, not just started.
  {
    const auto context = Context::open(card);
  }
  const double ready_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  fmt::print("Boot of the card\n{}", draw_boot(parse_post_lines(card->machine().console()), ready_ms, stdout_style()));
  bool good = true;
  if (options.self_test) {
    good &= run_self_test(card, 0);
    if (shape.virtual_functions != 0) good &= run_self_test(card, 1);
    fmt::print("\n  {}\n", good ? "PASSED" : "FAILED");
  }
  return good ? 0 : 1;
}

}  // namespace cli
