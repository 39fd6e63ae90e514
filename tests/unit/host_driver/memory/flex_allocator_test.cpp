// SPDX-License-Identifier: Apache-2.0
#include "host_driver/memory/flex_allocator.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <thread>

#include "tests/bounds.hpp"
#include "tests/unit/host_driver/memory/fake_region_source.hpp"

namespace svp {
namespace {

using testing::FakeRegionSource;
using Reason = InvalidAllocation::Reason;

constexpr std::uint64_t kMiB2 = 2 * wire::kMiB;

FlexAllocatorOptions small_regions(std::vector<std::uint64_t> sizes = {kMiB2}) {
  FlexAllocatorOptions options;
  options.program_bytes = sizes;
  options.region_bytes = std::move(sizes);
  return options;
}

Reason reason_of(auto&& call) {
  try {
    call();
  } catch (const InvalidAllocation& error) {
    return error.reason();
  }
  ADD_FAILURE() << "expected InvalidAllocation";
  return Reason::Null;
}

TEST(FlexAllocator, ZeroBytesAreANullHandleThatChangesNothing) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, small_regions());
  EXPECT_EQ(allocator.allocate(0), AllocationIndex::Null);
  allocator.deallocate(AllocationIndex::Null);
  const auto statistics = allocator.statistics();
  EXPECT_EQ(statistics.count, Counter{});
  EXPECT_EQ(statistics.bytes, Counter{});
  EXPECT_TRUE(source.asked.empty());
  EXPECT_EQ(reason_of([&] { allocator.resolve(AllocationIndex::Null); }), Reason::Null);
}

TEST(FlexAllocator, SizesAreRoundedToSticks) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, small_regions());
  for (const auto& [asked, block] :
       {std::pair<std::uint64_t, std::uint64_t>{1, 128}, {127, 128}, {128, 128}, {129, 256}, {1000, 1024}}) {
    const auto found = allocator.resolve(allocator.allocate(asked));
    EXPECT_EQ(found.bytes, asked);
    EXPECT_EQ(found.block_bytes, block);
    EXPECT_EQ(found.address.offset % 128, 0U);
  }
}

TEST(FlexAllocator, RegionsAreAcquiredOnFirstUseAndTriedFromLargeToSmall) {
  FakeRegionSource source(14 * wire::kGiB);
  FlexAllocator allocator(source);
  EXPECT_TRUE(source.asked.empty());
  const auto first = allocator.allocate(1);
  EXPECT_EQ(source.asked, (std::vector<std::uint64_t>{12 * wire::kGiB}));
  EXPECT_THROW(allocator.allocate(12 * wire::kGiB), OutOfMemory);
  // Once: there is no memory-pressure callback, after which it would try again. 8 and 4 GiB could not hold the request.
  EXPECT_EQ(source.asked, (std::vector<std::uint64_t>{12 * wire::kGiB, 12 * wire::kGiB}));
  allocator.deallocate(first);
}

TEST(FlexAllocator, SmallerRegionsServeWhenLargeOnesAreRefused) {
  FakeRegionSource source(5 * wire::kGiB);
  FlexAllocator allocator(source);
  allocator.allocate(1);
  EXPECT_EQ(source.asked, (std::vector<std::uint64_t>{12 * wire::kGiB, 8 * wire::kGiB, 4 * wire::kGiB}));
  EXPECT_EQ(allocator.statistics().reserved_bytes.current, 4 * wire::kGiB);
}

TEST(FlexAllocator, WhenEveryListedSizeIsRefusedHalvesAreTriedDownToTheRequest) {
  FakeRegionSource source(3 * kMiB2);
  FlexAllocator allocator(source, small_regions({16 * kMiB2}));
  allocator.allocate(kMiB2 + 1);
  EXPECT_EQ(source.asked, (std::vector<std::uint64_t>{16 * kMiB2, 8 * kMiB2, 4 * kMiB2, 2 * kMiB2}));
  allocator.allocate(kMiB2);
  EXPECT_EQ(source.asked.back(), kMiB2) << "all that is left, though no listed size is as small";
}

TEST(FlexAllocator, RegionsAreNoLargerThanWhatIsLeftOfTheShare) {
  FakeRegionSource source(96 * wire::kGiB);
  source.share = 6 * wire::kGiB;
  FlexAllocator allocator(source);
  allocator.allocate(1, {.type = RegionType::Program});
  allocator.allocate(1);
  EXPECT_EQ(source.asked, (std::vector<std::uint64_t>{256 * wire::kMiB, 6 * wire::kGiB - 256 * wire::kMiB}));
  // The share is used up: what nobody is guaranteed is asked for as usual.
  allocator.allocate(6 * wire::kGiB);
  EXPECT_EQ(source.asked.back(), 12 * wire::kGiB);
}

TEST(FlexAllocator, ASmallShareHasRoomForProgramsAndTensors) {
  for (const std::uint64_t share : {2 * kMiB2, 8 * kMiB2, 64 * kMiB2, std::uint64_t{8} << 30}) {
    FakeRegionSource source(share);
    source.share = share;
    FlexAllocator allocator(source);
    allocator.allocate(512 * wire::kKiB, {.type = RegionType::Program});
    EXPECT_EQ(source.asked.size(), 1u) << "the first size is granted";
    EXPECT_LE(source.asked[0], std::max(share / 16, kMiB2));
    allocator.allocate(1);
    EXPECT_EQ(source.asked.size(), 2u);
    EXPECT_EQ(source.asked[0] + source.asked[1], share) << "and the rest is for tensors";
  }
}

TEST(FlexAllocator, ARequestAboveEveryListedSizeGetsItsOwnRegion) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, small_regions());
  const auto found = allocator.resolve(allocator.allocate(3 * kMiB2 + 1));
  EXPECT_EQ(found.block_bytes, 3 * kMiB2 + 128);
  EXPECT_EQ(allocator.statistics().reserved_bytes.current, 4 * kMiB2);
}

TEST(FlexAllocator, ProgramsLiveInRegionSevenAndNowhereElse) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, small_regions());
  const auto program = allocator.resolve(allocator.allocate(100, {.type = RegionType::Program}));
  const auto tensor = allocator.resolve(allocator.allocate(100));
  EXPECT_EQ(program.region_ordinal, wire::kProgramRegion);
  EXPECT_EQ(program.type, RegionType::Program);
  EXPECT_NE(tensor.region_ordinal, wire::kProgramRegion);
  EXPECT_THROW(allocator.allocate(kMiB2, {.type = RegionType::Program}), OutOfMemory);
}

TEST(FlexAllocator, ResolveGivesTheGrantsRegionIdAndGeneration) {
  FakeRegionSource source(wire::kGiB);
  source.first_region_id = 0x1'0000'0000;  // as a PF sees it: a physical base used as a name
  FlexAllocator allocator(source, small_regions());
  const auto index = allocator.allocate(256);
  const auto second = allocator.allocate(256);
  const auto found = allocator.resolve(second);
  EXPECT_EQ(found.address, (VirtualAddress{.region_id = 0x1'0000'0000, .offset = 256}));
  EXPECT_EQ(found.region_generation, 1U);
  EXPECT_EQ(allocator.try_resolve(index)->address.offset, 0U);
}

TEST(FlexAllocator, TheHandleContainsNoAddress) {
  // Equal histories at different addresses give handles that differ only in the allocator's mark.
  FakeRegionSource source_a(wire::kGiB);
  FakeRegionSource source_b(wire::kGiB);
  source_b.first_region_id = 0x7'4000'0000;
  FlexAllocator a(source_a, small_regions({kMiB2}));
  FlexAllocator b(source_b, small_regions({4 * kMiB2}));
  const auto low_bits = (std::uint64_t{1} << 44) - 1;  // below the mark
  for (int i = 0; i < 10; ++i) {
    const auto from_a = static_cast<std::uint64_t>(a.allocate(1000));
    const auto from_b = static_cast<std::uint64_t>(b.allocate(50'000));
    EXPECT_EQ(from_a & low_bits, from_b & low_bits);
    EXPECT_GE(from_a, std::uint64_t{1} << 47) << "it could be an address";
  }
}

TEST(FlexAllocator, NoHandleOfAnEarlierIncarnationNamesABlock) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, small_regions());
  std::vector<AllocationIndex> old;
  for (int incarnation = 0; incarnation < 3000; ++incarnation) {
    old.push_back(allocator.allocate(128));
    allocator.forget_regions();
    source.forget();
  }
  FakeRegionSource other_source(wire::kGiB);
  FlexAllocator other(other_source, small_regions());
  const auto fresh = allocator.allocate(128);
  (void)other.allocate(128);
  for (const AllocationIndex index : old) {
    ASSERT_NE(index, fresh);
    const auto mine = allocator.try_resolve(index);
    ASSERT_FALSE(mine);
    EXPECT_EQ(mine.error().outcome, wire::Outcome::Lost);
    const auto theirs = other.try_resolve(index);
    ASSERT_FALSE(theirs);
    EXPECT_NE(theirs.error().message.find("not given out by this allocator"), std::string::npos);
    EXPECT_FALSE(other.try_deallocate(index));
    EXPECT_NO_THROW(allocator.deallocate(index));
  }
}

TEST(FlexAllocator, MemoryOfWorkUnderWayIsNobodyElsesUntilItsUseEnds) {
  FakeRegionSource source(2 * kMiB2);
  FlexAllocatorOptions options = small_regions({kMiB2});
  options.timeout = std::chrono::nanoseconds(1);  // reached: its own thread keeps each use
  const auto allocator = std::make_shared<FlexAllocator>(source, options);
  const auto first = allocator->allocate(kMiB2);
  const auto second = allocator->allocate(kMiB2);
  AllocationUses one, two;
  const auto place = allocator->try_use(first, one);
  ASSERT_TRUE(place);
  ASSERT_TRUE(allocator->try_use(first, two));
  allocator->deallocate(first);
  EXPECT_FALSE(allocator->try_resolve(first));
  EXPECT_FALSE(allocator->try_use(first, two)) << "a released handle is released";
  EXPECT_THROW(allocator->deallocate(first), InvalidAllocation);
  EXPECT_THROW(allocator->allocate(kMiB2), OutOfMemory) << "given out beside its use";
  one.let_go();
  EXPECT_THROW(allocator->allocate(kMiB2), OutOfMemory) << "one use is left";
  two.let_go();
  EXPECT_EQ(allocator->resolve(allocator->allocate(kMiB2)).address, place->address);
  // A use does not keep the handle from living on, nor a reset from taking everything.
  ASSERT_TRUE(allocator->try_use(second, one));
  one.let_go();
  EXPECT_TRUE(allocator->try_resolve(second));
  ASSERT_TRUE(allocator->try_use(second, one));
  allocator->deallocate(second);
  allocator->forget_regions();
  source.forget();
  const auto after = allocator->allocate(kMiB2);
  one.let_go();
  EXPECT_TRUE(allocator->try_resolve(after)) << "a use of an earlier incarnation freed a block of this one";
}

TEST(FlexAllocator, AnAllocationWaitsForMemoryThatWorkUnderWayIsAboutToFree) {
  FakeRegionSource source(kMiB2);
  FlexAllocatorOptions options = small_regions({kMiB2});
  options.timeout = test_bounds::kThread;
  const auto allocator = std::make_shared<FlexAllocator>(source, options);
  for (int i = 0; i < 50; ++i) {
    const auto index = allocator->allocate(kMiB2);
    AllocationUses uses;
    ASSERT_TRUE(allocator->try_use(index, uses));
    allocator->deallocate(index);
    std::thread ends([&] { uses.let_go(); });
    EXPECT_NO_THROW(allocator->deallocate(allocator->allocate(kMiB2)));
    ends.join();  // bounded: it does not wait
  }
}

// While the card is asked for a region and refuses, work under way ends: the region that is held serves the request.
TEST(FlexAllocator, AnAllocationUsesWhatIsFreedWhileARegionIsRefused) {
  FakeRegionSource source(kMiB2);
  const auto allocator = std::make_shared<FlexAllocator>(source, testing::regions_of(kMiB2));
  const auto index = allocator->allocate(kMiB2);
  AllocationUses uses;
  ASSERT_TRUE(allocator->try_use(index, uses));
  allocator->deallocate(index);
  source.during_acquire = [&] { uses.let_go(); };
  EXPECT_NO_THROW(allocator->allocate(kMiB2));
  EXPECT_EQ(allocator->memory_stats().num_ooms, 0U);
}

TEST(FlexAllocator, MostFreeSpreadsAndLeastFreePacks) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, small_regions());
  const auto one = allocator.allocate(kMiB2);
  const auto two = allocator.allocate(kMiB2);
  allocator.deallocate(one);
  allocator.deallocate(two);
  const auto first = allocator.resolve(allocator.allocate(1024)).region_ordinal;
  EXPECT_NE(allocator.resolve(allocator.allocate(128)).region_ordinal, first);
  EXPECT_EQ(allocator.resolve(allocator.allocate(128, {.order = RegionOrder::LeastFree})).region_ordinal, first);
}

TEST(FlexAllocator, AFragmentedFirstChoiceFallsThroughToAnotherRegion) {
  FakeRegionSource source(2 * kMiB2);
  FlexAllocator allocator(source, small_regions());
  const auto half = kMiB2 / 2;
  std::vector<AllocationIndex> blocks;
  blocks.reserve(4);
  for (int i = 0; i < 4; ++i) blocks.push_back(allocator.allocate(half));
  // Region A keeps two separate free quarters (more free), region B one free block of three eighths (less free).
  const auto ordinal_of = [&](AllocationIndex index) { return allocator.resolve(index).region_ordinal; };
  std::ranges::sort(blocks, {}, ordinal_of);
  allocator.deallocate(blocks[0]);
  allocator.deallocate(blocks[1]);
  std::vector<AllocationIndex> quarters;
  quarters.reserve(4);
  for (int i = 0; i < 4; ++i) quarters.push_back(allocator.allocate(half / 2));
  allocator.deallocate(quarters[0]);
  allocator.deallocate(quarters[2]);
  allocator.deallocate(blocks[2]);
  const auto small = allocator.allocate(half / 4, {.order = RegionOrder::LeastFree, .fit = Fit::Best});
  const auto found = allocator.allocate(half * 3 / 4);
  EXPECT_EQ(ordinal_of(found), ordinal_of(blocks[3]));
  allocator.deallocate(small);
}

TEST(FlexAllocator, OutOfMemoryNamesRequestedFreeLargestAndTotal) {
  FakeRegionSource source(kMiB2);
  FlexAllocator allocator(source, small_regions());
  const auto a = allocator.allocate(kMiB2 / 4);
  const auto b = allocator.allocate(kMiB2 / 4);
  allocator.allocate(kMiB2 / 4);
  allocator.deallocate(a);
  (void)b;
  try {
    allocator.allocate(kMiB2 / 2 - 5);
    FAIL() << "allocated more than the largest block";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage(),
              (MemoryShortage{
                  .requested = kMiB2 / 2, .free_bytes = kMiB2 / 2, .largest_block = kMiB2 / 4, .total_bytes = kMiB2}));
    EXPECT_EQ(error.info().layer, Layer::Memory);
    EXPECT_NE(std::string(error.what()).find("fragmented"), std::string::npos);
  }
  EXPECT_EQ(allocator.statistics().out_of_memory, 1U);
}

TEST(FlexAllocator, ImpossibleSizesAreOutOfMemoryAndNeverWrap) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, small_regions());
  for (const std::uint64_t bytes :
       {kMaxRegionBytes + 1, std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{126}}) {
    EXPECT_THROW(allocator.allocate(bytes), OutOfMemory);
  }
  EXPECT_TRUE(source.asked.empty());
}

TEST(FlexAllocator, MemoryPressureIsAnnouncedOnceWithoutLocksAndThenRetried) {
  FakeRegionSource source(kMiB2);
  FlexAllocator allocator(source, small_regions());
  auto cached = allocator.allocate(kMiB2);
  int calls = 0;
  allocator.set_memory_pressure_callback([&](const MemoryShortage& missing) {
    ++calls;
    EXPECT_EQ(missing.requested, 128U);
    EXPECT_EQ(missing.total_bytes, kMiB2);
    // bounded: one call, which takes no lock that is held
    std::thread([&] { allocator.deallocate(cached); }).join();  // would dead-lock if any lock were held
  });
  EXPECT_NO_THROW(allocator.allocate(1));
  EXPECT_EQ(calls, 1);
}

TEST(FlexAllocator, MemoryPressureThatFreesNothingEndsInOneCallAndOutOfMemory) {
  FakeRegionSource source(kMiB2);
  FlexAllocator allocator(source, small_regions());
  allocator.allocate(kMiB2);
  int calls = 0;
  allocator.set_memory_pressure_callback([&](const MemoryShortage&) {
    ++calls;
    EXPECT_THROW(allocator.allocate(1), OutOfMemory);  // from inside: fails without calling again
  });
  EXPECT_THROW(allocator.allocate(1), OutOfMemory);
  EXPECT_EQ(calls, 1);
}

TEST(FlexAllocator, DoubleFreeIsATypedErrorAndChangesNothing) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, small_regions());
  const auto index = allocator.allocate(1);
  allocator.deallocate(index);
  const auto before = allocator.statistics();
  EXPECT_EQ(reason_of([&] { allocator.deallocate(index); }), Reason::Released);
  EXPECT_EQ(reason_of([&] { allocator.resolve(index); }), Reason::Released);
  EXPECT_EQ(allocator.statistics().bytes, before.bytes);
  const auto next = allocator.allocate(1);  // takes the same slot again
  EXPECT_NE(next, index);
  EXPECT_EQ(reason_of([&] { allocator.deallocate(index); }), Reason::Released);
  EXPECT_NO_THROW(allocator.deallocate(next));
}

TEST(FlexAllocator, AForeignHandleIsATypedError) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator mine(source, small_regions());
  FakeRegionSource other_source(wire::kGiB);
  FlexAllocator other(other_source, small_regions());
  mine.allocate(1);
  const auto foreign = other.allocate(1);
  EXPECT_EQ(reason_of([&] { mine.resolve(foreign); }), Reason::Foreign);
  EXPECT_EQ(reason_of([&] { mine.deallocate(std::bit_cast<AllocationIndex>(~std::uint64_t{0})); }), Reason::Foreign);
  EXPECT_EQ(mine.try_resolve(foreign).error().outcome, wire::Outcome::Rejected);
}

TEST(FlexAllocator, HandlesSayThatAResetTookTheirMemory) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, small_regions());
  const auto lost = allocator.allocate(1000);
  allocator.forget_regions();
  EXPECT_EQ(source.released, 0);
  EXPECT_EQ(allocator.statistics().reserved_bytes.current, 0U);
  EXPECT_EQ(allocator.statistics().bytes.current, 0U);
  EXPECT_EQ(reason_of([&] { allocator.resolve(lost); }), Reason::LostInReset);
  EXPECT_NO_THROW(allocator.deallocate(lost));
}

TEST(FlexAllocator, UnusedRegionsGoBackToTheCard) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, small_regions());
  const auto one = allocator.allocate(kMiB2);
  const auto two = allocator.allocate(kMiB2);
  EXPECT_EQ(allocator.release_unused_regions(), 0U);
  allocator.deallocate(one);
  EXPECT_EQ(allocator.release_unused_regions(), kMiB2);
  EXPECT_EQ(source.held_count(), 1);
  EXPECT_NO_THROW(allocator.resolve(two));
  EXPECT_EQ(reason_of([&] { allocator.resolve(one); }), Reason::Released);
}

TEST(FlexAllocator, AFailedReleaseIsReportedAndTheRegionIsNotUsedAgain) {
  FakeRegionSource source(2 * kMiB2);
  FlexAllocator allocator(source, small_regions());
  allocator.deallocate(allocator.allocate(1));
  source.release_failure = FakeRegionSource::failed("the card does not answer", wire::Outcome::Timeout);
  EXPECT_THROW(allocator.release_unused_regions(), Error);
  EXPECT_EQ(allocator.statistics().reserved_bytes.current, 0U);
  EXPECT_EQ(allocator.resolve(allocator.allocate(1)).region_ordinal, 1U);
}

TEST(FlexAllocator, TheDestructorGivesEveryRegionBack) {
  FakeRegionSource source(wire::kGiB);
  {
    FlexAllocator(source, small_regions()).allocate(1);
  }
  EXPECT_EQ(source.held_count(), 0);
}

TEST(FlexAllocator, ADeadCardIsReportedAsItIsAndNotAsOutOfMemory) {
  FakeRegionSource source(wire::kGiB);
  source.failure = FakeRegionSource::failed("the card is gone", wire::Outcome::Lost);
  FlexAllocator allocator(source);
  try {
    allocator.allocate(1);
    FAIL();
  } catch (const OutOfMemory&) {
    FAIL() << "typed as out of memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.info().outcome, wire::Outcome::Lost);
  }
  EXPECT_EQ(source.asked.size(), 1U);
}

TEST(FlexAllocator, AnImpossibleGrantIsRefused) {
  const std::vector<std::function<void(Region&)>> corruptions{
      [](Region& r) { r.ordinal = 8; }, [](Region& r) { r.ordinal = wire::kProgramRegion; },
      [](Region& r) { r.bytes -= kMiB2; }, [](Region& r) { r.type = RegionType::Program; },
      [](Region& r) { r.base.offset = 128; }};
  for (const auto& corrupt : corruptions) {
    FakeRegionSource source(wire::kGiB);
    source.corrupt_grant = corrupt;
    source.first_region_id = 0x1'0000'0000;  // as a PF sees it: the error must not tell
    FlexAllocator allocator(source, small_regions({2 * kMiB2}));
    try {
      allocator.allocate(1);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.info().outcome, wire::Outcome::Fault);
      EXPECT_EQ(error.info().layer, Layer::Firmware);
      EXPECT_FALSE(std::string_view(error.what()).contains("4294967296")) << error.what();
    }
  }
}

TEST(FlexAllocator, BadRegionSizesAreRefusedAtConstruction) {
  FakeRegionSource source(wire::kGiB);
  for (const std::uint64_t bytes : {std::uint64_t{0}, kMiB2 + 128, kMaxRegionBytes + kMiB2}) {
    EXPECT_THROW(FlexAllocator(source, small_regions({bytes})), InvalidArgument);
  }
}

TEST(FlexAllocator, CountersSeparatePeakAccumulatedAllocatedAndFreed) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, small_regions());
  const auto a = allocator.allocate(200);
  const auto b = allocator.allocate(100);
  allocator.deallocate(a);
  EXPECT_EQ(allocator.statistics().bytes,
            (Counter{.current = 128, .peak = 384, .accumulated = 384, .allocated = 384, .freed = 256}));
  EXPECT_EQ(allocator.statistics().count,
            (Counter{.current = 1, .peak = 2, .accumulated = 2, .allocated = 2, .freed = 1}));
  allocator.reset_accumulated_statistics();
  allocator.reset_peak_statistics();
  allocator.deallocate(b);
  EXPECT_EQ(allocator.statistics().bytes,
            (Counter{.current = 0, .peak = 128, .accumulated = 384, .allocated = 0, .freed = 128}));
}

TEST(FlexAllocator, FragmentationIsZeroForOneFreeBlockPerRegionAndGrowsWithHoles) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, small_regions());
  EXPECT_EQ(allocator.statistics().fragmentation, 0);
  std::vector<AllocationIndex> blocks;
  blocks.reserve(4);
  for (int i = 0; i < 4; ++i) blocks.push_back(allocator.allocate(kMiB2 / 4));
  EXPECT_EQ(allocator.statistics().fragmentation, 0);
  allocator.deallocate(blocks[0]);
  EXPECT_EQ(allocator.statistics().fragmentation, 0);
  allocator.deallocate(blocks[2]);
  EXPECT_DOUBLE_EQ(allocator.statistics().fragmentation, 0.5);
}

// Random work against plain bookkeeping: no overlap in any region, statistics add up, out-of-memory is exact; a block
// that was released while something uses it counts as live until that use has ended.
RC_GTEST_PROP(FlexAllocator, LiveAllocationsNeverOverlapAndOutOfMemoryIsExact, ()) {
  const std::uint64_t capacity = kMiB2 * *rc::gen::inRange<std::uint64_t>(1, 10);
  FakeRegionSource source(capacity);
  FlexAllocatorOptions options = small_regions();
  options.max_generation = *rc::gen::element<std::uint32_t>(2, BlockNodes::kMaxGeneration);
  options.timeout = std::chrono::nanoseconds(1);  // reached: its own thread keeps each use
  const auto shared = std::make_shared<FlexAllocator>(source, options);
  FlexAllocator& allocator = *shared;
  struct Use {
    AllocationUses uses;
    AllocationIndex of;
    ResolvedAllocation place;
    bool released = false;
  };
  std::vector<Use> used;
  std::size_t doomed = 0;
  std::vector<std::pair<AllocationIndex, std::uint64_t>> live;
  std::uint64_t live_bytes = 0;
  for (int i = *rc::gen::inRange(1, 150); i > 0; --i) {
    const auto pick = *rc::gen::arbitrary<std::uint32_t>();
    if (pick % 3 == 0 && !live.empty()) {
      const auto victim = live.begin() + static_cast<std::ptrdiff_t>(pick % live.size());
      allocator.deallocate(victim->first);
      const auto use = std::ranges::find(used, victim->first, &Use::of);
      if (use == used.end()) {
        live_bytes -= wire::align_up(victim->second, 128U);
      } else {
        use->released = true;
        ++doomed;
      }
      live.erase(victim);
    } else if (pick % 7 == 1 && !live.empty()) {
      const AllocationIndex chosen = live[pick % live.size()].first;
      if (std::ranges::find(used, chosen, &Use::of) == used.end()) {
        Use use{.uses = {}, .of = chosen, .place = {}};
        use.place = *allocator.try_use(chosen, use.uses);
        used.push_back(std::move(use));
      }
    } else if (pick % 7 == 3 && !used.empty()) {
      const auto ends = used.begin() + static_cast<std::ptrdiff_t>(pick % used.size());
      if (ends->released) {
        live_bytes -= ends->place.block_bytes;
        --doomed;
      }
      used.erase(ends);
    } else {
      const auto bytes = *rc::gen::element<std::uint64_t>(1, 128, 1000, 70'000, 300'000, 1'000'000) + pick % 999;
      const AllocationPolicy policy{.order = *rc::gen::element(RegionOrder::MostFree, RegionOrder::LeastFree),
                                    .fit = *rc::gen::element(Fit::Best, Fit::First)};
      try {
        live.emplace_back(allocator.allocate(bytes, policy), bytes);
        live_bytes += wire::align_up(bytes, std::uint64_t{128});
      } catch (const OutOfMemory& error) {
        RC_ASSERT(error.largest_block() < error.requested());
        RC_ASSERT(error.total_bytes() == std::min(capacity, 7 * kMiB2));
        RC_ASSERT(error.free_bytes() == error.total_bytes() - live_bytes);
      }
    }
    std::vector<ResolvedAllocation> blocks;
    for (const auto& [index, bytes] : live) {
      blocks.push_back(allocator.resolve(index));
      RC_ASSERT(blocks.back().bytes == bytes);
    }
    for (const Use& use : used) {
      if (use.released) blocks.push_back(use.place);
    }
    std::ranges::sort(blocks, {}, [](const auto& b) { return std::pair(b.region_ordinal, b.address.offset); });
    for (std::size_t k = 0; k + 1 < blocks.size(); ++k) {
      RC_ASSERT(blocks[k].region_ordinal != blocks[k + 1].region_ordinal ||
                blocks[k].address.offset + blocks[k].block_bytes <= blocks[k + 1].address.offset);
    }
    const auto statistics = allocator.statistics();
    RC_ASSERT(statistics.bytes.current == live_bytes);
    RC_ASSERT(statistics.count.current == live.size() + doomed);
    RC_ASSERT(statistics.bytes.allocated - statistics.bytes.freed == live_bytes);
  }
}

TEST(FlexAllocator, ThreadsShareOneAllocatorWithoutLosingABlock) {
  FakeRegionSource source(7 * kMiB2);
  FlexAllocator allocator(source, small_regions());
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&allocator, seed] {
      std::mt19937 random(seed);
      std::vector<AllocationIndex> mine;
      for (int i = 0; i < 2000; ++i) {
        if (random() % 2 == 0 && !mine.empty()) {
          std::swap(mine[random() % mine.size()], mine.back());
          allocator.deallocate(mine.back());
          mine.pop_back();
        } else {
          if (const auto made = allocator.try_allocate(1 + random() % 100'000)) {
            mine.push_back(*made);
            EXPECT_GT(allocator.resolve(mine.back()).block_bytes, 0U);
          }
        }
        if (i % 500 == 0) allocator.release_unused_regions();
      }
      for (const auto index : mine) allocator.deallocate(index);
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each allocates a number of times
  const auto statistics = allocator.statistics();
  EXPECT_EQ(statistics.bytes.current, 0U);
  EXPECT_EQ(statistics.fragmentation, 0);
  allocator.release_unused_regions();
  EXPECT_EQ(source.held_count(), 0);
}

TEST(FlexAllocator, TheNumberOfTensorsIsNotBoundedByTheNumberOfRegions) {
  testing::FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, testing::regions_of(64 * wire::kMiB));
  constexpr std::size_t kTensors = 200'000;
  for (std::size_t i = 0; i < kTensors; ++i) (void)allocator.allocate(128);
  EXPECT_EQ(allocator.statistics().count.current, kTensors);
  EXPECT_EQ(allocator.statistics().regions.size(), 1u);
}

}  // namespace
}  // namespace svp
