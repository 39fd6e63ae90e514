// SPDX-License-Identifier: Apache-2.0
// RecoveryPolicy::Recover: what is sent again, and what is not because it reads what was not written. Ranges first,
// then streams against the real firmware core on a thread.
#include "host_driver/runtime/lost_writes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/prepared_launches.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

using Clock = FlexStream::Clock;

Clock::time_point soon() { return Clock::now() + test_bounds::kWork; }

TEST(RangeSets, AreTheBytesThatTheyWereGiven) {
  std::mt19937 random(7);
  RangeSet ranges;
  std::set<std::pair<std::uint64_t, std::uint64_t>> bytes;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t space = random() % 3, begin = random() % 100, end = begin + random() % 20;
    if (random() % 2 == 0) {
      ranges.add({space, begin, end});
      for (std::uint64_t b = begin; b < end; ++b) bytes.emplace(space, b);
    } else {
      ranges.remove({space, begin, end});
      for (std::uint64_t b = begin; b < end; ++b) bytes.erase({space, b});
    }
    const std::uint64_t at = random() % 120;
    RangeSet one;
    one.add({space, at, at + 1});
    ASSERT_EQ(ranges.overlaps(one), bytes.contains({space, at})) << "step " << i;
  }
}

TEST(RangeSets, BeyondTheirMostAreOneRangePerSpace) {
  RangeSet ranges;
  for (std::uint64_t i = 0; i <= RangeSet::kMost; ++i) ranges.add({i % 2, 100 * i, 100 * i + 1});
  EXPECT_EQ(ranges.size(), 2u);
  RangeSet between;
  between.add({0, 150, 160});
  EXPECT_TRUE(ranges.overlaps(between)) << "more is lost than was said, never less";
}

class Recovered : public testing::Test {
 protected:
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB, 16 * wire::kMiB};
    options.recovery.policy = RecoveryPolicy::Recover;
    return options;
  }
  static constexpr std::uint64_t kBytes = 64 * 64 * 2;

  Recovered() {
    plan_.load(runtime_, a_);
    a_.Synchronize(soon());
    for (AllocationIndex& memory : memory_) {
      memory = runtime_.allocator().allocate(kBytes);
      fill(a_, memory, 1);
    }
    a_.Synchronize(soon());
  }
  // Fails: this card runs no kernels. Reads `a` and `b`, would write `c`.
  void product(FlexStream& on, AllocationIndex a, AllocationIndex b, AllocationIndex c) {
    const std::vector<Argument> arguments{{.allocation = a, .shape = {64, 64}},
                                          {.allocation = b, .shape = {64, 64}},
                                          {.allocation = c, .shape = {64, 64}}};
    on.Launch(plan_.jobs()[0], arguments);
  }
  void fill(FlexStream& on, AllocationIndex memory, std::uint64_t pattern) {
    on.Launch(Job::fill(memory, kBytes, pattern), {});
  }
  // Its first word as it came to the host; 0: it never came.
  struct Copy {
    std::vector<std::uint64_t> words = std::vector<std::uint64_t>(kBytes / 8, 0);
    std::uint64_t first() const { return words[0]; }
  };
  void read(FlexStream& on, AllocationIndex memory, Copy& into) {
    on.Launch(Job::from_device(into.words.data(), memory, kBytes), {});
  }
  void write(FlexStream& on, AllocationIndex memory, const Copy& from) {
    on.Launch(Job::to_device(from.words.data(), memory, kBytes), {});
  }
  static void recover(FlexStream& stream) {
    EXPECT_THROW(stream.Synchronize(soon()), StreamError);
    EXPECT_NO_THROW(stream.Synchronize(soon()));
  }

  // Both streams have failed before either is repaired.
  void await_failures() {
    const auto end = soon();
    while ((!a_.error() || !b_.error()) && Clock::now() < end) runtime_.device().poll();
    ASSERT_TRUE(a_.error() && b_.error());
  }

  test::NativeCard card_{{.window_bytes = 32 * wire::kMiB}};
  Runtime runtime_{card_.attach(1), options()};
  FlexStream& a_ = runtime_.default_stream();
  FlexStream& b_ = runtime_.next_stream(StreamPriority::Low);
  CompiledKernel compiled_{test::matmul_kernel(), {{"M", 64}, {"K", 64}, {"N", 64}}};
  ExecutionPlan plan_{{Job(compiled_)}};
  std::array<AllocationIndex, 6> memory_{};
};

TEST_F(Recovered, WhatReadsWhatAFailedLaunchWouldHaveWrittenIsNotSentAgain) {
  Copy result, other, operand;
  card_.pause();
  product(a_, memory_[0], memory_[1], memory_[2]);
  read(a_, memory_[2], result);
  read(a_, memory_[3], other);
  read(a_, memory_[0], operand);
  card_.resume();
  recover(a_);
  EXPECT_EQ(result.first(), 0u) << "it depends on the product";
  EXPECT_EQ(other.first(), 1u);
  EXPECT_EQ(operand.first(), 1u) << "an operand that is read is what it was";
}

// The segment table of a control block has eight rows.
TEST_F(Recovered, AnOperandBehindTheRowsOfABlockIsLostAsWell) {
  constexpr std::size_t kOperands = 12;
  ExecutionPlan plan({Job(CompiledKernel(test::kernel_of_many(kOperands), {{"N", 64}}))});
  plan.load(runtime_, a_);
  a_.Synchronize(soon());
  std::vector<Argument> arguments(kOperands, {.allocation = memory_[0], .shape = {64}});
  arguments[9].allocation = memory_[1];
  arguments.back().allocation = memory_[2];
  Copy result, operand;
  card_.pause();
  a_.Launch(plan.jobs()[0], arguments);
  read(a_, memory_[2], result);
  read(a_, memory_[1], operand);
  card_.resume();
  recover(a_);
  EXPECT_EQ(result.first(), 0u) << "it depends on the last operand";
  EXPECT_EQ(operand.first(), 1u) << "an operand that is read is what it was";
}

TEST_F(Recovered, AnOperandBehindTheRowsOfAPreparedBlockIsLostAsWell) {
  constexpr std::size_t kOperands = 12;
  ExecutionPlan plan({Job(CompiledKernel(test::kernel_of_many(kOperands), {{"N", 64}}))});
  plan.load(runtime_, a_);
  a_.Synchronize(soon());
  std::vector<Argument> arguments(kOperands, {.allocation = memory_[0], .shape = {64}});
  arguments.back().allocation = memory_[2];
  const LaunchRequest request{&plan.jobs()[0], arguments, {}};
  const auto prepared = a_.Prepare(std::span(&request, 1));
  Copy result, operand;
  card_.pause();
  a_.Launch(*prepared);
  read(a_, memory_[2], result);
  read(a_, memory_[1], operand);
  card_.resume();
  recover(a_);
  EXPECT_EQ(result.first(), 0u) << "it depends on the last operand";
  EXPECT_EQ(operand.first(), 1u);
}

TEST_F(Recovered, PreparedLaunchesAreWhatTheirBlocksReadAndWrite) {
  const PinnedBuffer of_product = runtime_.host_memory().allocate(kBytes),
                     of_other = runtime_.host_memory().allocate(kBytes);
  std::memset(of_product.data(), 0, kBytes);
  std::memset(of_other.data(), 0, kBytes);
  const std::vector<Argument> arguments{{.allocation = memory_[0], .shape = {64, 64}},
                                        {.allocation = memory_[1], .shape = {64, 64}},
                                        {.allocation = memory_[2], .shape = {64, 64}}};
  const std::array product_of{LaunchRequest{.job = &plan_.jobs()[0], .arguments = arguments}};
  const auto prepared = a_.Prepare(product_of);
  const Job read_product = Job::from_device(of_product.data(), memory_[2], kBytes);
  const Job read_other = Job::from_device(of_other.data(), memory_[3], kBytes);
  const std::array first{LaunchRequest{.job = &read_product}}, second{LaunchRequest{.job = &read_other}};
  const auto dependent = a_.Prepare(first), independent = a_.Prepare(second);
  card_.pause();
  a_.Launch(*prepared);
  a_.Launch(*dependent);
  a_.Launch(*independent);
  card_.resume();
  recover(a_);
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(of_product.data()), 0u) << "it depends on the product";
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(of_other.data()), 1u);
}

TEST_F(Recovered, WhatDependsOnWhatWasRemovedIsNotSentAgainEither) {
  Copy result, second, from, last;
  card_.pause();
  product(a_, memory_[0], memory_[1], memory_[2]);
  read(a_, memory_[2], from);    // not sent: writes nothing into `from`
  write(a_, memory_[3], from);   // reads that
  read(a_, memory_[3], result);  // and that
  product(a_, memory_[3], memory_[0], memory_[4]);
  read(a_, memory_[4], second);
  read(a_, memory_[5], last);
  card_.resume();
  recover(a_);
  for (const Copy* copy : {&from, &result, &second}) EXPECT_EQ(copy->first(), 0u);
  EXPECT_EQ(last.first(), 1u);
}

TEST_F(Recovered, WhatIsWrittenAgainBehindTheFailureIsNoLongerLost) {
  Copy before, after, again;
  card_.pause();
  product(a_, memory_[0], memory_[1], memory_[2]);
  read(a_, memory_[2], before);
  fill(a_, memory_[2], 7);
  read(a_, memory_[2], after);
  card_.resume();
  recover(a_);
  EXPECT_EQ(before.first(), 0u);
  EXPECT_EQ(after.first(), 7u) << "the fill is sent again, and before it";
  // And what was written well is forgotten: the next failure has nothing to do with it.
  card_.pause();
  product(a_, memory_[0], memory_[1], memory_[4]);
  read(a_, memory_[2], again);
  card_.resume();
  recover(a_);
  EXPECT_EQ(again.first(), 7u);
}

TEST_F(Recovered, APartThatIsWrittenAgainLeavesTheRestLost) {
  Copy all;
  std::vector<std::uint64_t> part(kBytes / 16, 0);
  card_.pause();
  product(a_, memory_[0], memory_[1], memory_[2]);
  a_.Launch(Job::fill(memory_[2], kBytes / 2, 7), {});
  read(a_, memory_[2], all);
  a_.Launch(Job::from_device(part.data(), memory_[2], kBytes / 2), {});
  card_.resume();
  recover(a_);
  EXPECT_EQ(all.first(), 0u);
  EXPECT_EQ(part[0], 7u);
}

TEST_F(Recovered, ADependencyOnAnotherStreamCounts) {
  Copy result, other;
  card_.pause();
  product(a_, memory_[0], memory_[1], memory_[2]);
  product(b_, memory_[0], memory_[1], memory_[3]);
  read(b_, memory_[2], result);
  read(b_, memory_[4], other);
  card_.resume();
  await_failures();
  recover(a_);
  recover(b_);
  EXPECT_EQ(result.first(), 0u) << "a launch of a would have written it";
  EXPECT_EQ(other.first(), 1u);
}

TEST_F(Recovered, WhatAnotherStreamWillSendAgainIsNotReadBefore) {
  Copy result;
  card_.pause();
  product(a_, memory_[0], memory_[1], memory_[3]);
  fill(a_, memory_[2], 9);  // kept until a is repaired
  product(b_, memory_[0], memory_[1], memory_[4]);
  read(b_, memory_[2], result);
  card_.resume();
  await_failures();
  recover(b_);
  EXPECT_EQ(result.first(), 0u);
  recover(a_);
  read(a_, memory_[2], result);
  a_.Synchronize(soon());
  EXPECT_EQ(result.first(), 9u);
}

TEST_F(Recovered, WhatTheOwnerHasResetIsOver) {
  Copy result;
  card_.pause();
  product(a_, memory_[0], memory_[1], memory_[2]);
  std::thread resumes([&] { card_.resume(); });
  a_.Reset();
  resumes.join();  // bounded: it resumes the card once
  fill(a_, memory_[2], 3);
  a_.Synchronize(soon());
  card_.pause();
  product(a_, memory_[0], memory_[1], memory_[4]);
  read(a_, memory_[2], result);
  card_.resume();
  recover(a_);
  EXPECT_EQ(result.first(), 3u);
}

}  // namespace
}  // namespace svp
