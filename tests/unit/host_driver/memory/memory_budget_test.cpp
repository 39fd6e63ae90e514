// SPDX-License-Identifier: Apache-2.0
// The card's budget of populated memory: an allocation that would exceed it waits for memory that comes back.
#include <gtest/gtest.h>

#include <future>

#include "host_driver/memory/flex_allocator.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/memory/fake_region_source.hpp"

namespace svp {
namespace {

using wire::kMiB;

class MemoryBudget : public ::testing::Test {
 protected:
  MemoryBudget() {
    source_.budget = 4 * kMiB;
    source_.budget_asked = [this] { ++asked_; };
  }
  // Both regions of the budget have been given, and the first block was freed while two streams use it.
  AllocationUses freed_in_use(FlexAllocator& allocator) {
    const AllocationIndex first = allocator.allocate(2 * kMiB);
    AllocationUses uses;
    uses.order_by(stream_);
    EXPECT_TRUE(allocator.try_use(first, uses));
    (void)allocator.allocate(2 * kMiB);
    allocator.deallocate(first);
    return uses;
  }
  std::shared_ptr<FlexAllocator> allocator(std::chrono::nanoseconds timeout = test_bounds::kAnswer) {
    FlexAllocatorOptions options;
    options.region_bytes = {16 * kMiB};
    options.timeout = timeout;  // reached: where it is short the test keeps the use
    return std::make_shared<FlexAllocator>(source_, options);
  }
  static std::uint64_t place_of(FlexAllocator& allocator, AllocationIndex index) {
    return allocator.resolve(index).address.offset;
  }

  testing::FakeRegionSource source_{64 * kMiB};
  UseClock stream_;
  std::atomic<int> asked_ = 0;
};

TEST_F(MemoryBudget, AnAllocationWaitsForWhatComesBack) {
  const auto memory = allocator();
  AllocationUses uses = freed_in_use(*memory);
  std::promise<void> waits;
  source_.budget_asked = [&, first = true]() mutable {
    if (std::exchange(first, false)) waits.set_value();
  };
  std::future<AllocationIndex> given = std::async(std::launch::async, [&] { return memory->allocate(kMiB); });
  ASSERT_EQ(waits.get_future().wait_for(test_bounds::kThread), std::future_status::ready) << "it asked for no budget";
  uses.let_go();
  ASSERT_EQ(given.wait_for(test_bounds::kThread), std::future_status::ready);
  EXPECT_EQ(place_of(*memory, given.get()), 0u);  // bounded: it is ready
}

TEST_F(MemoryBudget, MemoryThatWasGivenOnceIsGivenWithoutAWait) {
  const auto memory = allocator();
  freed_in_use(*memory).let_go();
  EXPECT_EQ(place_of(*memory, memory->allocate(kMiB)), 0u);
  EXPECT_EQ(asked_, 0);
}

TEST_F(MemoryBudget, WithoutMemoryThatComesBackItIsExceededAtOnce) {
  const auto memory = allocator();
  (void)memory->allocate(4 * kMiB);
  EXPECT_EQ(place_of(*memory, memory->allocate(kMiB)), 4 * kMiB);
  EXPECT_EQ(asked_, 0);
}

// A prepared launch, for example, uses its operands for as long as it is kept.
TEST_F(MemoryBudget, WhatWasWaitedForInVainIsNotWaitedForAgain) {
  const auto memory = allocator(std::chrono::nanoseconds(1));
  AllocationUses kept = freed_in_use(*memory);
  EXPECT_EQ(place_of(*memory, memory->allocate(kMiB)), 4 * kMiB);
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(place_of(*memory, memory->allocate(kMiB)), 5 * kMiB);
  EXPECT_EQ(asked_, 1);
  AllocationUses others = freed_in_use(*memory);
  EXPECT_EQ(asked_, 1) << "both blocks came before anything else was freed";
  (void)memory->allocate(kMiB);
  EXPECT_EQ(asked_, 2) << "something else comes back";
  others.let_go();
  EXPECT_EQ(place_of(*memory, memory->allocate(kMiB)), 6 * kMiB);
  EXPECT_EQ(asked_, 2);
  kept.let_go();
  EXPECT_EQ(place_of(*memory, memory->allocate(2 * kMiB)), 0u);
}

// It may be what others wait for: they hold the stream meanwhile.
TEST_F(MemoryBudget, ALaunchDoesNotWaitForItsWorkspace) {
  const auto memory = allocator();
  const AllocationUses uses = freed_in_use(*memory);
  AllocationUses launch;
  launch.order_by(stream_);
  EXPECT_EQ(place_of(*memory, memory->allocate(kMiB, AllocationPolicy{}, launch)), 4 * kMiB);
  EXPECT_EQ(asked_, 0);
}

TEST_F(MemoryBudget, MemoryOfProgramsDoesNotWaitForTensors) {
  const auto memory = allocator();
  const AllocationUses uses = freed_in_use(*memory);
  (void)memory->allocate(kMiB, {.type = RegionType::Program});
  EXPECT_EQ(asked_, 0);
}

TEST_F(MemoryBudget, AResetForgetsWhatWasTouched) {
  const auto memory = allocator();
  AllocationUses uses = freed_in_use(*memory);
  memory->forget_regions();
  source_.forget();
  const AllocationUses again = freed_in_use(*memory);
  EXPECT_EQ(asked_, 0);
}

TEST_F(MemoryBudget, ACardWithoutABudgetIsNeverWaitedFor) {
  source_.budget = 0;
  const auto memory = allocator();
  const AllocationUses uses = freed_in_use(*memory);
  EXPECT_EQ(place_of(*memory, memory->allocate(kMiB)), 4 * kMiB);
}

}  // namespace
}  // namespace svp
