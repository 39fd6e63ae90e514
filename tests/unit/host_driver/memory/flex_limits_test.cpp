// SPDX-License-Identifier: Apache-2.0
// How much FlexAllocator may hold, and what it acquires before somebody needs it.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "host_driver/memory/flex_allocator.hpp"
#include "tests/unit/host_driver/memory/fake_region_source.hpp"

namespace svp {
namespace {

using testing::FakeRegionSource;

constexpr std::uint64_t kRegion = 2 * wire::kMiB;

constexpr AllocationPolicy bound_to(std::uint32_t regions) {
  return {.placement = Placement::Bind, .regions = regions};
}

std::uint64_t reserved(const FlexAllocator& allocator) { return allocator.memory_stats().reserved_bytes.current; }

MemoryShortage shortage_of(FlexAllocator& allocator, std::uint64_t bytes) {
  try {
    (void)allocator.allocate(bytes);
  } catch (const OutOfMemory& error) {
    return error.shortage();
  }
  ADD_FAILURE() << "expected OutOfMemory";
  return {};
}

bool failed_for_the_limit(const ErrorInfo& error) { return error.message.ends_with("bytes is the reason"); }

void expect_refused(const FlexAllocatorOptions& options, const char* field) {
  FakeRegionSource source(wire::kGiB);
  try {
    const FlexAllocator allocator(source, options);
    ADD_FAILURE() << field;
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.field(), field);
  }
  EXPECT_TRUE(source.asked.empty());
}

struct LimitTest : ::testing::Test {
  FakeRegionSource source{wire::kGiB};
  FlexAllocator allocator{source, testing::regions_of(kRegion)};
};

TEST_F(LimitTest, TheErrorSaysThatTheLimitIsTheReasonAndTheCardIsNotAsked) {
  allocator.set_memory_limit(2 * kRegion);
  EXPECT_EQ(allocator.memory_limit(), 2 * kRegion);
  (void)allocator.allocate(kRegion);
  (void)allocator.allocate(kRegion);
  const std::size_t asked = source.asked.size();
  const auto failed = allocator.try_allocate(1);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message,
            "out of memory: tensor memory, requested 128 bytes, free 0, largest block 0, total 4194304; the memory "
            "limit of 4194304 bytes is the reason");
  EXPECT_EQ(failed.error().next_step, "free tensors, or raise the memory limit");
  EXPECT_EQ(source.asked.size(), asked);
  EXPECT_EQ(allocator.memory_stats().num_ooms, 1U);
  EXPECT_EQ(shortage_of(allocator, 1).limit, 2 * kRegion);
}

TEST_F(LimitTest, ItIsRaisedRemovedAndLoweredAtRunTime) {
  allocator.set_memory_limit(kRegion);
  const auto first = allocator.allocate(kRegion);
  EXPECT_FALSE(allocator.try_allocate(kRegion));
  allocator.set_memory_limit(2 * kRegion);
  (void)allocator.allocate(kRegion);
  allocator.set_memory_limit(std::nullopt);
  EXPECT_EQ(allocator.memory_limit(), std::nullopt);
  (void)allocator.allocate(kRegion);
  allocator.set_memory_limit(kRegion);
  EXPECT_EQ(reserved(allocator), 3 * kRegion) << "what is held stays";
  EXPECT_EQ(shortage_of(allocator, 1).limit, kRegion);
  allocator.deallocate(first);
  (void)allocator.allocate(kRegion);  // in what is held
  EXPECT_EQ(reserved(allocator), 3 * kRegion);
}

TEST_F(LimitTest, RegionsOfProgramsCountAndAreSmallBelowALimit) {
  FlexAllocatorOptions options;
  options.limit_bytes = 64 * wire::kMiB;
  FlexAllocator limited(source, options);
  (void)limited.allocate(1, {.type = RegionType::Program});
  EXPECT_EQ(reserved(limited), 4 * wire::kMiB);
  (void)limited.allocate(1);
  EXPECT_EQ(reserved(limited), 64 * wire::kMiB) << "tensors have all the rest in one region";
}

TEST_F(LimitTest, AnUnusedRegionMakesRoomForALargerOne) {
  allocator.set_memory_limit(3 * kRegion);
  allocator.deallocate(allocator.allocate(kRegion));
  const auto used = allocator.allocate(1);
  EXPECT_EQ(shortage_of(allocator, 3 * kRegion).limit, 3 * kRegion) << "it would still be too little";
  EXPECT_EQ(source.released, 0);
  allocator.deallocate(used);
  EXPECT_NO_THROW((void)allocator.allocate(3 * kRegion));
  EXPECT_EQ(source.released, 1);
  EXPECT_EQ(reserved(allocator), 3 * kRegion);
}

TEST_F(LimitTest, ALimitThatIsNotTheReasonIsNotNamed) {
  allocator.set_memory_limit(wire::kGiB);
  EXPECT_EQ(shortage_of(allocator, 17 * wire::kGiB).limit, 0U) << "no region is so large";
  FakeRegionSource small(kRegion);
  FlexAllocator short_of_card(small, testing::regions_of(kRegion));
  short_of_card.set_memory_limit(wire::kGiB);
  (void)short_of_card.allocate(kRegion);
  EXPECT_EQ(shortage_of(short_of_card, 1).limit, 0U) << "the card has no more";
  for (int i = 0; i < 7; ++i) (void)allocator.allocate(kRegion);
  allocator.set_memory_limit(kRegion);
  EXPECT_EQ(shortage_of(allocator, 1).limit, 0U) << "no further region may be held at all";
}

TEST_F(LimitTest, AFractionIsOneOfWhatTheCardHas) {
  allocator.set_memory_fraction(0.25);
  EXPECT_EQ(allocator.memory_limit(), wire::kGiB / 4);
  allocator.set_memory_fraction(1);
  EXPECT_EQ(allocator.memory_limit(), wire::kGiB);
  for (const double wrong : {0.0, -0.5, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(allocator.set_memory_fraction(wrong), InvalidArgument) << wrong;
  }
  EXPECT_THROW(allocator.set_memory_limit(0), InvalidArgument);
  source.failure = FakeRegionSource::failed("the card is gone", wire::Outcome::Lost);
  EXPECT_THROW(allocator.set_memory_fraction(0.5), Error);
  EXPECT_EQ(allocator.memory_limit(), wire::kGiB) << "unchanged";
}

TEST_F(LimitTest, AFractionThatIsRefusedStandsInTheErrorAsItWasGiven) {
  const auto refusal = [&](double fraction) -> std::string {
    try {
      allocator.set_memory_fraction(fraction);
    } catch (const InvalidArgument& error) {
      return error.info().message;
    }
    return "nothing";
  };
  EXPECT_EQ(refusal(-1e-12), "-1e-12 is not a part of the memory");
  EXPECT_EQ(refusal(1.0000001), "1.0000001 is not a part of the memory");
}

TEST(Limits, ImpossibleOptionsAreRefusedByName) {
  expect_refused({.max_regions = 0}, "max_regions");
  expect_refused({.max_regions = 8}, "max_regions");
  expect_refused({.limit_bytes = 0}, "limit_bytes");
  expect_refused({.limit_fraction = 2.0}, "limit_fraction");
  expect_refused({.limit_bytes = wire::kGiB, .limit_fraction = 0.5}, "limit_fraction");
  expect_refused({.acquire_at_open = {kRegion, 1}}, "acquire_at_open");
  expect_refused({.max_regions = 1, .acquire_at_open = {kRegion, kRegion}}, "acquire_at_open");
}

TEST(Limits, NoMoreTensorRegionsThanAllowedAreHeld) {
  for (std::uint32_t most = 1; most <= wire::kProgramRegion; ++most) {
    FakeRegionSource source(wire::kGiB);
    FlexAllocatorOptions options = testing::regions_of(kRegion);
    options.max_regions = most;
    FlexAllocator allocator(source, options);
    (void)allocator.allocate(1, {.type = RegionType::Program});
    for (std::uint32_t i = 0; i < most; ++i) (void)allocator.allocate(kRegion);
    const std::size_t asked = source.asked.size();
    EXPECT_EQ(shortage_of(allocator, 1).total_bytes, most * kRegion);
    EXPECT_FALSE(allocator.try_allocate(1, bound_to(1U << (most % wire::kProgramRegion))));
    EXPECT_EQ(source.asked.size(), asked);
    EXPECT_EQ(source.held_count(), static_cast<int>(most) + 1);
  }
}

// ---- regions at open ------------------------------------------------------------------------------------------------

FlexAllocatorOptions at_open(std::vector<std::uint64_t> sizes) {
  FlexAllocatorOptions options = testing::regions_of(kRegion);
  options.acquire_at_open = std::move(sizes);
  return options;
}

TEST(AtOpen, RegionsHaveTheirSizesInOrderAndABindFindsThem) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, at_open({2 * kRegion, kRegion, 3 * kRegion}));
  allocator.acquire_at_open();
  ASSERT_EQ(allocator.statistics().regions.size(), 3U);
  EXPECT_EQ(allocator.statistics().regions[0].bytes, 2 * kRegion);
  EXPECT_EQ(allocator.statistics().regions[2].bytes, 3 * kRegion);
  EXPECT_EQ(allocator.resolve(allocator.allocate(3 * kRegion, bound_to(1U << 2))).region_ordinal, 2U);
  const std::size_t asked = source.asked.size();
  allocator.acquire_at_open();
  EXPECT_EQ(source.asked.size(), asked) << "what is held is not acquired again";
  allocator.forget_regions();
  source.forget();
  allocator.acquire_at_open();
  EXPECT_EQ(allocator.statistics().regions.size(), 3U);
}

TEST(AtOpen, ARefusalNamesTheRegionAndKeepsThoseBefore) {
  FakeRegionSource source(3 * kRegion);
  FlexAllocator allocator(source, at_open({kRegion, kRegion, 2 * kRegion}));
  try {
    allocator.acquire_at_open();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.info().outcome, wire::Outcome::Rejected);
    EXPECT_TRUE(error.info().message.starts_with("region 2 of acquire_at_open, 4194304 bytes, can not be held: "));
  }
  EXPECT_EQ(allocator.statistics().regions.size(), 2U);
}

TEST(AtOpen, TheLimitHolds) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocatorOptions options = at_open({kRegion, kRegion});
  options.limit_bytes = kRegion;
  FlexAllocator allocator(source, options);
  EXPECT_THROW(allocator.acquire_at_open(), Error);
  EXPECT_EQ(reserved(allocator), kRegion);
}

TEST(AtOpen, AFractionOfTheOptionsIsApplied) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocatorOptions options;
  options.limit_fraction = 0.5;
  FlexAllocator allocator(source, options);
  allocator.apply_limit_fraction();
  EXPECT_EQ(allocator.memory_limit(), wire::kGiB / 2);
}

// ---- properties -----------------------------------------------------------------------------------------------------

// Whatever is allocated, freed, given back and set: regions grow below the limit only, and an error that names the
// limit is one that a removed limit would not have been.
RC_GTEST_PROP(LimitProperty, RegionsGrowBelowTheLimitOnly, ()) {
  FakeRegionSource source(64 * kRegion);
  FlexAllocatorOptions options;
  options.region_bytes = {4 * kRegion, 2 * kRegion, kRegion};
  options.timeout = std::chrono::nanoseconds(1);  // reached: no work is under way
  options.max_regions = *rc::gen::inRange(1U, 8U);
  FlexAllocator allocator(source, options);
  std::vector<AllocationIndex> live;
  for (int i = *rc::gen::inRange(1, 80); i > 0; --i) {
    const std::uint64_t before = reserved(allocator);
    const auto pick = *rc::gen::arbitrary<std::uint32_t>();
    switch (*rc::gen::inRange(0, 8)) {
      case 0: allocator.set_memory_limit((1 + pick % 24) * wire::kMiB); break;
      case 1: allocator.set_memory_limit(std::nullopt); break;
      case 2: allocator.release_unused_regions(); break;
      case 3:
      case 4:
        if (live.empty()) break;
        std::swap(live[pick % live.size()], live.back());
        allocator.deallocate(live.back());
        live.pop_back();
        break;
      default: {
        const std::uint64_t bytes = 1 + pick % (5 * kRegion);
        if (const auto index = allocator.try_allocate(bytes)) {
          live.push_back(*index);
        } else if (failed_for_the_limit(index.error())) {
          const auto limit = allocator.memory_limit();
          allocator.set_memory_limit(std::nullopt);
          const auto free_of_it = allocator.try_allocate(bytes);
          RC_ASSERT(free_of_it.has_value());
          allocator.deallocate(*free_of_it);
          allocator.release_unused_regions();
          allocator.set_memory_limit(limit);
        }
      }
    }
    const std::uint64_t after = reserved(allocator);
    RC_ASSERT(after <= before || after <= allocator.memory_limit().value_or(~std::uint64_t{0}));
    RC_ASSERT(allocator.statistics().regions.size() <= options.max_regions);
  }
}

TEST(LimitThreads, NobodyGrowsPastItWhileItChanges) {
  FakeRegionSource source(wire::kGiB);
  const auto allocator = std::make_shared<FlexAllocator>(source, testing::regions_of(kRegion));
  constexpr std::uint64_t kMost = 3 * kRegion;
  allocator->set_memory_limit(kMost);
  std::atomic<bool> above{false};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int k = 0; k < 3; ++k) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto index = allocator->try_allocate(kRegion * 2 / 3);
        if (reserved(*allocator) > kMost) above = true;
        if (index) allocator->deallocate(*index);
      }
    });
  }
  threads.emplace_back([&] {
    for (std::uint64_t i = 0; i < 200; ++i) {
      allocator->set_memory_limit((1 + i % 3) * kRegion);
      allocator->release_unused_regions();
    }
  });
  for (auto& thread : threads) thread.join();  // bounded: each does a number of things
  EXPECT_FALSE(above);
}

// ---- all of the card ------------------------------------------------------------------------------------------------

// Tensors of `bytes` until one is refused; returns the sum.
std::uint64_t allocate_all(FlexAllocator& allocator, std::uint64_t bytes) {
  std::uint64_t sum = 0;
  while (allocator.try_allocate(bytes)) sum += bytes;
  return sum;
}

TEST(WholeShare, RegionsAreLargeEnoughThatTheLastOneHoldsTheRest) {
  constexpr std::uint64_t kGiB = wire::kGiB;
  for (const std::uint64_t share : {4 * kGiB, 47 * kGiB, 84 * kGiB, 90 * kGiB, 96 * kGiB, 112 * kGiB}) {
    SCOPED_TRACE(share / kGiB);
    FakeRegionSource source(share);
    source.share = share;
    // reached: no work is under way
    FlexAllocator allocator(source, {.timeout = std::chrono::nanoseconds(1)});
    (void)allocator.allocate(1, {.type = RegionType::Program});
    const std::uint64_t tensors = share - reserved(allocator);
    EXPECT_EQ(allocator.memory_info().free_bytes, tensors);
    EXPECT_EQ(allocate_all(allocator, 64 * wire::kMiB), tensors);
    EXPECT_EQ(allocator.memory_info().free_bytes, 0u);
    for (const std::uint64_t asked : source.asked) EXPECT_LE(asked, kMaxRegionBytes);
  }
}

TEST(WholeShare, SevenTensorsOfTwelveGibibytesLeaveTheRestInPieces) {
  FakeRegionSource source(96 * wire::kGiB);
  source.share = 96 * wire::kGiB;
  // reached: no work is under way
  FlexAllocator allocator(source, {.timeout = std::chrono::nanoseconds(1)});
  (void)allocator.allocate(1, {.type = RegionType::Program});
  for (int i = 0; i < 7; ++i) (void)allocator.allocate(12 * wire::kGiB);
  const std::uint64_t left = 12 * wire::kGiB - 256 * wire::kMiB;
  EXPECT_EQ(allocator.memory_info().free_bytes, 0u) << "all of the card is in regions";
  EXPECT_TRUE(allocator.try_allocate(left, {.placement = Placement::Interleave}));
  EXPECT_FALSE(allocator.try_allocate(128));
}

TEST(WholeShare, FreeBytesAreWhatTheRegionsThatMayStillBeHeldCanGet) {
  FakeRegionSource source(96 * wire::kGiB);
  source.share = 96 * wire::kGiB;
  FlexAllocatorOptions options = testing::regions_of(kRegion);
  options.max_regions = 2;
  {
    FlexAllocator allocator(source, options);
    EXPECT_EQ(allocator.memory_info().free_bytes, 2 * kMaxRegionBytes);
    EXPECT_EQ(allocate_all(allocator, kMaxRegionBytes), 2 * kMaxRegionBytes) << "a larger tensor gets a larger region";
    EXPECT_EQ(allocator.memory_info().free_bytes, 0u);
    source.forget();
  }
  {
    FlexAllocator allocator(source, options);
    EXPECT_EQ(allocate_all(allocator, kRegion), 2 * kRegion) << "small tensors: regions of the sizes that are given";
    source.forget();
  }
  FlexAllocator allocator(source, options);
  (void)allocator.allocate(1);
  EXPECT_EQ(allocator.memory_info().free_bytes, kMaxRegionBytes);
  allocator.set_memory_limit(3 * kRegion);
  EXPECT_EQ(allocator.memory_info().free_bytes, 2 * kRegion);
  (void)allocator.allocate(2 * kRegion);
  EXPECT_EQ(allocator.memory_info().free_bytes, 0u);
  allocator.set_memory_limit(std::nullopt);
  EXPECT_EQ(allocator.memory_info().free_bytes, 0u) << "no third region";
  const auto refused = allocator.try_allocate(kRegion);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().next_step.find("MemoryOptions::region_bytes"), std::string::npos)
      << refused.error().next_step;
}

// free_bytes is what tensors can really get in further regions, whatever the sizes of the regions, the limit, the share
// and the regions that are held: each tensor here is the largest that one region can hold.
RC_GTEST_PROP(WholeShare, AllOfFreeBytesCanBeAllocatedInTensorsAsLargeAsARegion, ()) {
  constexpr std::uint64_t kGranules = 8192;  // of 2 MiB: 16 GiB, the largest region
  const auto size = [] { return *rc::gen::inRange<std::uint64_t>(1, kGranules + 1) * kRegion; };
  FakeRegionSource source(*rc::gen::inRange<std::uint64_t>(1, 8 * kGranules) * kRegion);
  if (*rc::gen::arbitrary<bool>()) source.share = *rc::gen::inRange<std::uint64_t>(1, 8 * kGranules) * kRegion;
  FlexAllocatorOptions options{.timeout = std::chrono::nanoseconds(1)};  // reached: no work is under way
  for (int listed = *rc::gen::inRange(0, 3); listed > 0; --listed) options.region_bytes.push_back(size());
  options.max_regions = *rc::gen::inRange(1u, 8u);
  if (*rc::gen::arbitrary<bool>()) options.limit_bytes = *rc::gen::inRange<std::uint64_t>(1, 80 * wire::kGiB);
  FlexAllocator allocator(source, options);
  for (int before = *rc::gen::inRange(0, 4); before > 0; --before) (void)allocator.try_allocate(size());
  while (const std::uint64_t free = allocator.memory_info().free_bytes) {
    const std::uint64_t tensor = std::min(free, kMaxRegionBytes);
    while (allocator.memory_stats().largest_free_block >= tensor) {
      RC_ASSERT(allocator.try_allocate(allocator.memory_stats().largest_free_block).has_value());
    }
    const std::uint64_t held = reserved(allocator);
    RC_ASSERT(allocator.try_allocate(tensor).has_value());
    RC_ASSERT(reserved(allocator) == held + tensor);
    RC_ASSERT(allocator.memory_info().free_bytes == free - tensor);
  }
}

}  // namespace
}  // namespace svp
