// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "host_driver/memory/flex_allocator.hpp"
#include "tests/unit/host_driver/memory/fake_region_source.hpp"

namespace svp {
namespace {

using testing::FakeRegionSource;

constexpr std::uint64_t kRegionBytes = 2 * wire::kMiB;

constexpr AllocationPolicy bound_to(std::uint32_t regions) {
  return {.placement = Placement::Bind, .regions = regions};
}
constexpr AllocationPolicy preferring(std::uint32_t regions) {
  return {.placement = Placement::Preferred, .regions = regions};
}

struct PlacementTest : ::testing::Test {
  // Holds regions 0, 1 and 2, all free.
  void hold_three() {
    std::vector<AllocationIndex> all;
    all.reserve(3);
    for (int i = 0; i < 3; ++i) all.push_back(allocator.allocate(kRegionBytes));
    for (const auto index : all) allocator.deallocate(index);
    ASSERT_EQ(allocator.statistics().regions.size(), 3U);
  }
  std::uint32_t region_of(AllocationIndex index) const { return allocator.resolve(index).region_ordinal; }
  MemoryShortage shortage_of(std::uint64_t bytes, const AllocationPolicy& policy) {
    try {
      (void)allocator.allocate(bytes, policy);
    } catch (const OutOfMemory& error) {
      return error.shortage();
    }
    ADD_FAILURE() << "expected OutOfMemory";
    return {};
  }

  FakeRegionSource source{wire::kGiB};
  FlexAllocator allocator{source, testing::regions_of(kRegionBytes)};
};

TEST_F(PlacementTest, ABoundAllocationLiesInItsRegionOrFails) {
  hold_three();
  EXPECT_EQ(region_of(allocator.allocate(kRegionBytes, bound_to(1U << 2))), 2U);
  const std::size_t asked = source.asked.size();
  EXPECT_EQ(shortage_of(128, bound_to(1U << 2)),
            (MemoryShortage{.requested = 128, .free_bytes = 0, .largest_block = 0, .total_bytes = kRegionBytes}));
  EXPECT_EQ(source.asked.size(), asked) << "a region was acquired for it";
  EXPECT_EQ(region_of(allocator.allocate(128, bound_to(1U << 1 | 1U << 2))), 1U);
}

TEST_F(PlacementTest, APreferredRegionServesFirstAndOthersAfterIt) {
  hold_three();
  EXPECT_EQ(region_of(allocator.allocate(kRegionBytes, preferring(1U << 1))), 1U);
  EXPECT_NE(region_of(allocator.allocate(kRegionBytes, preferring(1U << 1))), 1U);
  EXPECT_NE(region_of(allocator.allocate(kRegionBytes, preferring(1U << 1))), 1U);
  EXPECT_EQ(region_of(allocator.allocate(kRegionBytes, preferring(1U << 1))), 3U) << "a new region";
  EXPECT_EQ(region_of(allocator.allocate(kRegionBytes, preferring(1U << 6))), 4U) << "which is not held";
}

TEST_F(PlacementTest, BoundToARegionThatIsNotHeldSaysSo) {
  hold_three();
  int calls = 0;
  allocator.set_memory_pressure_callback([&](const MemoryShortage&) { ++calls; });
  const std::size_t asked = source.asked.size();
  const auto failed = allocator.try_allocate(128, bound_to(1U << 4 | 1U << 5));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().source, "region 4, 5");
  EXPECT_EQ(failed.error().message,
            "an allocation is bound to regions that are not held, and the card gives region 3 next");
  EXPECT_EQ(source.asked.size(), asked);
  EXPECT_EQ(failed.error().outcome, wire::Outcome::Rejected);
  EXPECT_EQ(calls, 0) << "no memory is short";
  EXPECT_EQ(allocator.memory_stats().num_ooms, 0U);
}

// torch-spyre's first allocation is bound to region 0.
TEST_F(PlacementTest, TheFirstAllocationMayBeBoundToTheRegionThatTheCardGivesNext) {
  EXPECT_FALSE(allocator.try_allocate(128, bound_to(1U << 1)));
  EXPECT_TRUE(source.asked.empty());
  EXPECT_EQ(region_of(allocator.allocate(kRegionBytes, bound_to(1U << 0))), 0U);
  EXPECT_EQ(shortage_of(128, bound_to(1U << 0)).total_bytes, kRegionBytes) << "region 1 is next, and not named";
  EXPECT_EQ(region_of(allocator.allocate(128, bound_to(1U << 0 | 1U << 1))), 1U);
}

TEST_F(PlacementTest, ACardThatGivesAnotherOrdinalThanTheBoundOneIsNoticed) {
  source.corrupt_grant = [](Region& region) { region.ordinal = 5; };
  const auto failed = allocator.try_allocate(128, bound_to(1U << 0));
  ASSERT_FALSE(failed);
  EXPECT_EQ(allocator.statistics().regions.at(0).ordinal, 5U) << "it is a region like others";
  EXPECT_EQ(region_of(allocator.allocate(128, bound_to(1U << 5))), 5U);
}

TEST_F(PlacementTest, ABoundAllocationThatTheCardHasNoMemoryForIsOutOfMemory) {
  FakeRegionSource none(kRegionBytes / 2);
  FlexAllocator poor(none, testing::regions_of(kRegionBytes));
  EXPECT_THROW((void)poor.allocate(128, bound_to(1U << 0)), OutOfMemory);
}

TEST_F(PlacementTest, BadPlacementsAreRefusedByNameAndChangeNothing) {
  for (const AllocationPolicy& bad :
       {bound_to(0), preferring(0), bound_to(1U << 7), preferring(1U << 8), bound_to(~0U),
        AllocationPolicy{.regions = 1},
        AllocationPolicy{.placement = std::bit_cast<Placement>(std::uint8_t{9}), .regions = 1},
        AllocationPolicy{.type = RegionType::Program, .placement = Placement::Bind, .regions = 1}}) {
    EXPECT_THROW((void)allocator.allocate(128, bad), InvalidArgument);
    EXPECT_THROW((void)allocator.allocate(0, bad), InvalidArgument);
    EXPECT_FALSE(allocator.try_allocate(128, bad));
  }
  EXPECT_TRUE(source.asked.empty());
  EXPECT_EQ(allocator.memory_stats().num_ooms, 0U);
}

TEST_F(PlacementTest, ProgramsMayBeBoundToTheirRegion) {
  const AllocationPolicy seven{.type = RegionType::Program, .placement = Placement::Bind, .regions = 1U << 7};
  EXPECT_EQ(region_of(allocator.allocate(128, seven)), wire::kProgramRegion);
}

TEST_F(PlacementTest, BoundSizesBeyondEveryRegionFail) {
  hold_three();
  for (const std::uint64_t bytes :
       {std::uint64_t{1} << 31, std::uint64_t{1} << 35, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    EXPECT_THROW((void)allocator.allocate(bytes, bound_to(7)), OutOfMemory);
  }
}

// Against the free blocks that the statistics list: a placement decides where a block lies and, for Bind, whether.
RC_GTEST_PROP(PlacementProperty, NamedRegionsServeExactlyWhenTheyCan, ()) {
  FakeRegionSource source(kRegionBytes * *rc::gen::inRange<std::uint64_t>(1, 6));
  FlexAllocator allocator(source, testing::regions_of(kRegionBytes));
  std::vector<AllocationIndex> live;
  for (int i = *rc::gen::inRange(1, 100); i > 0; --i) {
    const auto pick = *rc::gen::arbitrary<std::uint32_t>();
    if (pick % 3 == 0 && !live.empty()) {
      std::swap(live[pick % live.size()], live.back());
      allocator.deallocate(live.back());
      live.pop_back();
      continue;
    }
    const auto bytes = 1 + pick % 900'000;
    const AllocationPolicy policy{.order = *rc::gen::element(RegionOrder::MostFree, RegionOrder::LeastFree),
                                  .fit = *rc::gen::element(Fit::Best, Fit::First),
                                  .placement = *rc::gen::element(Placement::Bind, Placement::Preferred),
                                  .regions = *rc::gen::inRange<std::uint32_t>(1, 128)};
    const auto named = [&](std::uint32_t ordinal) { return (policy.regions >> ordinal & 1U) != 0; };
    const auto before = allocator.statistics();
    const auto can = [&](const RegionStatistics& region) { return region.largest_free >= bytes; };
    const bool named_can =
        std::ranges::any_of(before.regions, [&](const auto& r) { return named(r.ordinal) && can(r); });
    const bool any_can = std::ranges::any_of(before.regions, can);
    std::uint32_t next = 0;  // what the card gives
    while (std::ranges::any_of(before.regions, [&](const auto& r) { return r.ordinal == next; })) ++next;
    const std::size_t asked = source.asked.size();
    const auto index = allocator.try_allocate(bytes, policy);
    if (index) live.push_back(*index);
    if (policy.placement == Placement::Bind) {
      const bool may_ask = !named_can && next < wire::kProgramRegion && named(next);
      RC_ASSERT((source.asked.size() > asked) == may_ask);
      if (!may_ask) RC_ASSERT(index.has_value() == named_can);
    } else if (any_can) {
      RC_ASSERT(index.has_value());
    } else if (!index) {
      RC_ASSERT(source.asked.size() > asked);
    }
    if (index && (named_can || policy.placement == Placement::Bind))
      RC_ASSERT(named(allocator.resolve(*index).region_ordinal));
  }
}

}  // namespace
}  // namespace svp
