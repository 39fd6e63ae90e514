// SPDX-License-Identifier: Apache-2.0
// More kernel images than the card keeps ready (wire::kExecutionAreas): each launch computes with its own image.
#include <array>
#include <random>

#include "tests/device/runtime/shared_context.hpp"

namespace svp {
namespace {

constexpr std::size_t kImages = 40;
constexpr std::int64_t kRows = 4;
constexpr std::uint64_t kBytes = kRows * wire::kStickBytes;
static_assert(kImages > 2 * wire::kExecutionAreas);

class ManyImages : public test::OneCard {
 protected:
  struct Launch {
    const Job* job;
    std::array<AllocationIndex, 3> memory;  // the last one is written
    std::vector<std::byte> expected;
  };

  // Every other one is "copy", the rest are "add"; each has a place of its own.
  void SetUp() override {
    for (std::size_t i = 0; i < kImages; ++i) {
      const auto kernel = context().kernel(i % 2 == 0 ? "copy" : "add");
      plan_.add(Job(CompiledKernel(kernel, {{"M", kRows}, {"N", 64}})));
    }
    context().load(plan_);
  }
  void TearDown() override {
    plan_.unload();
    for (const Launch& launch : launches_) {
      for (const AllocationIndex memory : launch.memory) free(memory);
    }
    OneCard::TearDown();
  }

  static AllocationIndex holding(const std::vector<std::uint16_t>& values) {
    const AllocationIndex memory = allocate(kBytes);
    stream().Launch(Job::to_device(values.data(), memory, kBytes), {});
    stream().Synchronize(test::soon());
    return memory;
  }
  // With operands and an output of its own.
  void prepare(std::size_t image) {
    std::vector<std::uint16_t> a(kBytes / 2), b(kBytes / 2), c(kBytes / 2);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = wire::dl16_from_fp32(static_cast<float>(launches_.size() + i % 16));
      b[i] = wire::dl16_from_fp32(static_cast<float>(image));
      c[i] = image % 2 == 0 ? a[i] : wire::dl16_from_fp32(static_cast<float>(launches_.size() + i % 16 + image));
    }
    const auto bytes = std::as_bytes(std::span(c));
    launches_.push_back({.job = &plan_.jobs()[image],
                         .memory = {holding(a), holding(b), allocate(kBytes)},
                         .expected = {bytes.begin(), bytes.end()}});
  }
  static void launch(FlexStream& on, const Launch& launch) {
    const bool copies = launch.job->binary()->metadata().operands.size() == 2;
    std::vector<Argument> arguments;
    for (std::size_t i = 0; i < 3; ++i) {
      if (i != 1 || !copies) arguments.push_back({.allocation = launch.memory[i], .shape = {kRows, 64}});
    }
    on.Launch(*launch.job, arguments);
  }
  void expect_results() {
    for (const Launch& launch : launches_) {
      std::vector<std::byte> result(kBytes);
      stream().Launch(Job::from_device(result.data(), launch.memory[2], kBytes), {});
      stream().Synchronize(test::soon());
      EXPECT_TRUE(result == launch.expected) << launch.job->binary()->name();
    }
  }

  ExecutionPlan plan_;
  std::vector<Launch> launches_;
};

TEST_F(ManyImages, InTurnEachComputesItsOwnResult) {
  for (std::size_t i = 0; i < 2 * kImages; ++i) prepare(i % kImages);
  for (const Launch& each : launches_) launch(stream(), each);
  expect_results();
}

TEST_F(ManyImages, MixedOnTwoStreamsEachComputesItsOwnResult) {
  FlexStream& other = context().runtime().next_stream(StreamPriority::Low);
  std::mt19937 random(13);
  for (std::size_t i = 0; i < 4 * kImages; ++i) prepare(random() % kImages);
  for (std::size_t i = 0; i < launches_.size(); ++i) launch(i % 2 == 0 ? stream() : other, launches_[i]);
  other.Synchronize(test::soon());
  expect_results();
}

}  // namespace
}  // namespace svp
