// SPDX-License-Identifier: Apache-2.0
// Which ordinals the firmware gives, and regions that are acquired at open, on a function of a booted card.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "tests/conformance/function_under_test.hpp"

namespace svp {
namespace {

constexpr std::uint64_t kRegion = 4 * wire::kMiB;

constexpr AllocationPolicy bound_to(std::uint32_t regions) {
  return {.placement = Placement::Bind, .regions = regions};
}

std::unique_ptr<Context> open(FlexAllocatorOptions memory) {
  ContextOptions options;
  options.card.emplace();
  options.function = test::function_under_test();
  options.runtime.allocator = std::move(memory);
  options.runtime.allocator.region_bytes = {kRegion};
  return Context::open(std::move(options));
}

// torch-spyre binds its first allocation to region 0.
TEST(Bind, TheOrdinalThatTheFirmwareGivesNextIsAcquiredNoOther) {
  const auto context = open({});
  FlexAllocator& allocator = context->runtime().allocator();
  EXPECT_FALSE(allocator.try_allocate(128, bound_to(1U << 6)));
  std::vector<AllocationIndex> blocks;
  for (std::uint32_t ordinal = 0; ordinal < wire::kProgramRegion; ++ordinal) {
    blocks.push_back(allocator.allocate(kRegion, bound_to(1U << ordinal)));
    EXPECT_EQ(allocator.resolve(blocks.back()).region_ordinal, ordinal);
  }
  // Ordinals in the middle that went back are the next ones, the lowest first.
  for (const unsigned ordinal : {4U, 2U}) allocator.deallocate(blocks[ordinal]);
  ASSERT_EQ(allocator.release_unused_regions(), 2 * kRegion);
  EXPECT_FALSE(allocator.try_allocate(128, bound_to(1U << 4)));
  EXPECT_EQ(allocator.resolve(allocator.allocate(kRegion, bound_to(1U << 2))).region_ordinal, 2U);
  EXPECT_EQ(allocator.resolve(allocator.allocate(kRegion, bound_to(1U << 4))).region_ordinal, 4U);
}

TEST(AtOpen, RegionsAreHeldAtOpenAndAgainAfterAResetOfTheFunction) {
  FlexAllocatorOptions memory;
  memory.acquire_at_open = {2 * kRegion, kRegion};
  memory.max_regions = 2;
  const auto context = open(std::move(memory));
  FlexAllocator& allocator = context->runtime().allocator();
  for (int round = 0; round < 2; ++round) {
    const auto regions = allocator.statistics().regions;
    ASSERT_EQ(regions.size(), 3U) << round;
    EXPECT_EQ(regions[0].bytes, 2 * kRegion);
    EXPECT_EQ(regions[1].bytes, kRegion);
    EXPECT_EQ(allocator.resolve(allocator.allocate(kRegion, bound_to(1U << 1))).region_ordinal, 1U);
    if (round == 0) context->runtime().recover(ResetLevel::Function);
  }
}

}  // namespace
}  // namespace svp
