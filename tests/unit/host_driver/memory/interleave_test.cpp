// SPDX-License-Identifier: Apache-2.0
// Allocations of several chunks: where they lie, what they count, who may use them.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "host_driver/memory/flex_allocator.hpp"
#include "tests/unit/host_driver/memory/fake_region_source.hpp"

namespace svp {
namespace {

using testing::FakeRegionSource;
using Reason = InvalidAllocation::Reason;

constexpr std::uint64_t kRegionBytes = 2 * wire::kMiB;

constexpr AllocationPolicy interleaved(std::uint32_t regions = 0) {
  return {.placement = Placement::Interleave, .regions = regions};
}
constexpr AllocationPolicy bound_to(std::uint32_t regions) {
  return {.placement = Placement::Bind, .regions = regions};
}

std::vector<std::uint64_t> bytes_of(const ResolvedChunks& memory) {
  std::vector<std::uint64_t> bytes;
  for (const ResolvedChunk& chunk : memory.chunks()) bytes.push_back(chunk.bytes);
  return bytes;
}
std::vector<std::uint32_t> regions_of(const ResolvedChunks& memory) {
  std::vector<std::uint32_t> regions;
  for (const ResolvedChunk& chunk : memory.chunks()) regions.push_back(chunk.region_ordinal);
  return regions;
}

struct InterleaveTest : ::testing::Test {
  void hold(int count) {
    std::vector<AllocationIndex> all;
    all.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) all.push_back(allocator->allocate(kRegionBytes));
    for (const auto index : all) allocator->deallocate(index);
    ASSERT_EQ(allocator->statistics().regions.size(), static_cast<std::size_t>(count));
  }
  ResolvedChunks chunks(AllocationIndex index) const { return allocator->resolve_chunks(index); }
  template <typename F>
  Reason refusal(F&& f) {
    try {
      f();
    } catch (const InvalidAllocation& error) {
      EXPECT_FALSE(error.info().next_step.empty());
      return error.reason();
    }
    ADD_FAILURE() << "nothing was refused";
    return Reason::Null;
  }

  FakeRegionSource source{wire::kGiB};
  std::shared_ptr<FlexAllocator> allocator = std::make_shared<FlexAllocator>(source, testing::regions_of(kRegionBytes));
};

TEST_F(InterleaveTest, PartsAreEvenStandInOrderAndDifferByAStickAtMost) {
  hold(3);
  const auto index = allocator->allocate(1000, interleaved());
  const ResolvedChunks memory = chunks(index);
  EXPECT_EQ(bytes_of(memory), (std::vector<std::uint64_t>{384, 384, 256}));
  EXPECT_EQ(regions_of(memory), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(memory.bytes, 1000U);
  EXPECT_EQ(memory.block_bytes, 1024U);
  for (const ResolvedChunk& chunk : memory.chunks()) {
    EXPECT_EQ(chunk.address.region_id, source.first_region_id + chunk.region_ordinal);
    EXPECT_EQ(chunk.region_generation, chunk.region_ordinal + 1);
  }
}

TEST_F(InterleaveTest, ANamedRegionServesAndNoOther) {
  hold(3);
  EXPECT_EQ(regions_of(chunks(allocator->allocate(4096, interleaved(0b101)))), (std::vector<std::uint32_t>{0, 2}));
  const std::size_t asked = source.asked.size();
  EXPECT_THROW((void)allocator->allocate(2 * kRegionBytes, interleaved(0b101)), OutOfMemory);
  EXPECT_EQ(source.asked.size(), asked) << "a region was acquired for it";
}

TEST_F(InterleaveTest, OneStickAndOneRegionAreOrdinaryAllocations) {
  const auto first = allocator->allocate(kRegionBytes / 2, interleaved());
  EXPECT_EQ(allocator->resolve(first).bytes, kRegionBytes / 2) << "only one region is held";
  allocator->deallocate(first);
  hold(2);
  EXPECT_EQ(allocator->resolve(allocator->allocate(100, interleaved())).bytes, 100U);
  EXPECT_EQ(allocator->allocate(0, interleaved()), AllocationIndex::Null);
  EXPECT_FALSE(allocator->has_chunked());
}

TEST_F(InterleaveTest, AFullRegionGivesWhatItHasAndTheOthersTheRest) {
  hold(3);
  (void)allocator->allocate(kRegionBytes - 1024, bound_to(1U << 1));
  const auto memory = chunks(allocator->allocate(10 * 1024, interleaved(0b111)));
  EXPECT_EQ(bytes_of(memory), (std::vector<std::uint64_t>{4608, 1024, 4608}));
}

TEST_F(InterleaveTest, TheSumServesWhatNoRegionCan) {
  hold(3);
  const auto index = allocator->allocate(3 * kRegionBytes, interleaved(0b111));
  EXPECT_EQ(allocator->statistics().free_bytes(), 0U);
  allocator->deallocate(index);
  EXPECT_EQ(allocator->statistics().free_bytes(), 3 * kRegionBytes);
}

TEST_F(InterleaveTest, RegionsAreAcquiredForWhatIsMissing) {
  hold(1);
  const auto memory = chunks(allocator->allocate(3 * kRegionBytes, interleaved()));
  EXPECT_EQ(memory.block_bytes, 3 * kRegionBytes);
  EXPECT_EQ(source.asked.back(), 2 * kRegionBytes) << "what one region had was taken from it";
}

TEST_F(InterleaveTest, MoreThanARegionCanHoldTakesSeveralNewOnes) {
  FakeRegionSource large(40 * wire::kGiB);
  FlexAllocator other(large, testing::regions_of(12 * wire::kGiB));
  const auto memory = other.resolve_chunks(other.allocate(36 * wire::kGiB, interleaved()));
  EXPECT_EQ(memory.block_bytes, 36 * wire::kGiB);
  EXPECT_EQ(memory.count, 3U);
  EXPECT_THROW((void)other.allocate(36 * wire::kGiB, interleaved()), OutOfMemory);
}

TEST_F(InterleaveTest, AMemoryLimitThatForbidsTheMissingRegionIsTheReason) {
  hold(2);
  allocator->set_memory_limit(2 * kRegionBytes);
  const auto limit_of_failure = [&](std::uint64_t bytes) -> std::uint64_t {
    try {
      (void)allocator->allocate(bytes, interleaved());
    } catch (const OutOfMemory& error) {
      return error.shortage().limit;
    }
    return 0;
  };
  EXPECT_EQ(limit_of_failure(3 * kRegionBytes), 2 * kRegionBytes);
  allocator->set_memory_limit(3 * kRegionBytes);
  // What is missing is within the limit, though the whole is not: nothing is refused.
  EXPECT_EQ(limit_of_failure(3 * kRegionBytes), 0U);
}

TEST_F(InterleaveTest, AFailureSaysWhatIsFreeTogetherAndChangesNothing) {
  hold(2);
  (void)allocator->allocate(kRegionBytes / 2, bound_to(1));
  const auto before = allocator->memory_stats();
  std::optional<MemoryShortage> shortage;
  try {
    (void)allocator->allocate(2 * kRegionBytes, interleaved(0b11));
  } catch (const OutOfMemory& error) {
    shortage = error.shortage();
  }
  EXPECT_EQ(shortage, (MemoryShortage{.requested = 2 * kRegionBytes,
                                      .free_bytes = kRegionBytes * 3 / 2,
                                      .largest_block = kRegionBytes * 3 / 2,
                                      .total_bytes = 2 * kRegionBytes}));
  const auto after = allocator->memory_stats();
  EXPECT_EQ(after.active, before.active);
  EXPECT_EQ(after.allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(after.inactive_split_bytes, before.inactive_split_bytes);
  EXPECT_EQ(chunks(allocator->allocate(kRegionBytes * 3 / 2, interleaved(0b11))).block_bytes, kRegionBytes * 3 / 2)
      << "exactly what the error said";
  const auto impossible = allocator->try_allocate(~std::uint64_t{0}, interleaved());
  EXPECT_FALSE(impossible);
}

TEST_F(InterleaveTest, BadRegionsAreRefusedByName) {
  hold(1);
  EXPECT_THROW((void)allocator->allocate(128, interleaved(1U << 7)), InvalidArgument);
  const auto not_held = allocator->try_allocate(128, interleaved(1U << 4));
  ASSERT_FALSE(not_held);
  EXPECT_EQ(not_held.error().source, "region 4");
}

TEST_F(InterleaveTest, OneAddressOfSeveralChunksIsRefusedAndNothingIsUsed) {
  hold(2);
  const auto index = allocator->allocate(4096, interleaved());
  EXPECT_TRUE(allocator->has_chunked());
  EXPECT_EQ(refusal([&] { (void)allocator->resolve(index); }), Reason::SeveralChunks);
  AllocationUses uses;
  EXPECT_FALSE(allocator->try_use(index, uses));
  EXPECT_TRUE(uses.empty());
  EXPECT_FALSE(allocator->try_resolve(index));
}

TEST_F(InterleaveTest, AHandleOfALaterChunkIsForeign) {
  hold(2);
  const auto index = allocator->allocate(4096, interleaved());
  const auto value = static_cast<std::uint64_t>(index);
  constexpr std::uint64_t kSlots = (std::uint64_t{1} << 24) - 1;
  int valid = 0;
  for (std::uint64_t slot = 1; slot < 64; ++slot) {
    for (std::uint64_t generation = 0; generation < 4; ++generation) {
      const std::uint64_t mark = value >> 44;
      const AllocationIndex forged{mark << 44 | generation << 24 | (slot & kSlots)};
      if (allocator->try_resolve_chunks(forged)) ++valid;
      if (forged != index) EXPECT_FALSE(allocator->try_deallocate(forged));
    }
  }
  EXPECT_EQ(valid, 1);
  allocator->deallocate(index);
  EXPECT_EQ(refusal([&] { allocator->deallocate(index); }), Reason::Released);
  EXPECT_FALSE(allocator->has_chunked());
}

TEST_F(InterleaveTest, UsesKeepAllChunksUntilTheyLetGo) {
  hold(2);
  const auto index = allocator->allocate(2 * kRegionBytes, interleaved(0b11));
  AllocationUses uses;
  ASSERT_TRUE(allocator->try_use_chunks(index, uses));
  allocator->deallocate(index);
  EXPECT_EQ(refusal([&] { (void)allocator->resolve_chunks(index); }), Reason::Released);
  EXPECT_EQ(allocator->memory_stats().allocated_bytes.current, 0U);
  EXPECT_EQ(allocator->memory_stats().active_bytes.current, 2 * kRegionBytes);
  EXPECT_FALSE(allocator->try_allocate(128, bound_to(0b11)));
  EXPECT_EQ(allocator->release_unused_regions(), 0U);
  uses.let_go();
  EXPECT_EQ(allocator->memory_stats().active_bytes.current, 0U);
  EXPECT_EQ(allocator->release_unused_regions(), 2 * kRegionBytes);
}

TEST_F(InterleaveTest, AResetForgetsAllChunks) {
  hold(2);
  const auto index = allocator->allocate(4096, interleaved());
  AllocationUses uses;
  ASSERT_TRUE(allocator->try_use_chunks(index, uses));
  allocator->forget_regions();
  source.forget();
  EXPECT_FALSE(allocator->has_chunked());
  EXPECT_EQ(refusal([&] { (void)allocator->resolve_chunks(index); }), Reason::LostInReset);
  uses.let_go();
  allocator->deallocate(index);
  hold(2);
  const auto again = allocator->allocate(4096, interleaved());
  EXPECT_EQ(chunks(again).count, 2U);
  allocator->deallocate(again);
  const auto stats = allocator->memory_stats();
  EXPECT_EQ(stats.active.current, 0U);
  EXPECT_EQ(stats.active_bytes.current, 0U);
}

// ---- a model --------------------------------------------------------------------------------------------------------

struct Live {
  AllocationIndex index;
  std::uint64_t bytes;
  ResolvedChunks memory;
};

// No byte belongs to two allocations, and the statistics are the sums of what is allocated.
void check_all(const FlexAllocator& allocator, const std::vector<Live>& live) {
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> used(wire::kRegionsPerFunction);
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  for (const Live& one : live) {
    const ResolvedChunks now = allocator.resolve_chunks(one.index);
    RC_ASSERT(now.bytes == one.bytes);
    RC_ASSERT(bytes_of(now) == bytes_of(one.memory));
    for (std::size_t i = 0; i < now.count; ++i) {
      RC_ASSERT(now.list[i].address == one.memory.list[i].address);
      RC_ASSERT(now.list[i].bytes % 128 == 0U);
      used[now.list[i].region_ordinal].emplace_back(now.list[i].address.offset, now.list[i].bytes);
    }
    bytes += now.block_bytes;
    blocks += now.count;
  }
  for (auto& region : used) {
    std::ranges::sort(region);
    for (std::size_t i = 1; i < region.size(); ++i) {
      RC_ASSERT(region[i - 1].first + region[i - 1].second <= region[i].first);
    }
  }
  const auto stats = allocator.memory_stats();
  RC_ASSERT(stats.allocated_bytes.current == bytes);
  RC_ASSERT(stats.active_bytes.current == bytes);
  RC_ASSERT(stats.allocation.current == blocks);
  RC_ASSERT(allocator.statistics().free_bytes() == stats.reserved_bytes.current - bytes);
  std::uint64_t of_regions = 0;
  for (const auto& region : allocator.statistics().regions) {
    RC_ASSERT(used[region.ordinal].size() == region.used_blocks);
    of_regions += region.used_blocks;
  }
  RC_ASSERT(of_regions == blocks);
}

void check_even(const ResolvedChunks& memory, const AllocatorStatistics& before, std::uint32_t regions) {
  std::uint64_t largest = 0;
  for (const ResolvedChunk& chunk : memory.chunks()) largest = std::max(largest, chunk.bytes);
  for (const auto& region : before.regions) {
    if ((regions >> region.ordinal & 1U) == 0) continue;
    const auto served = std::ranges::find(memory.chunks(), region.ordinal, &ResolvedChunk::region_ordinal);
    const std::uint64_t bytes = served != memory.chunks().end() ? served->bytes : 0;
    RC_ASSERT(bytes + 128 >= largest || bytes == region.largest_free);
  }
}

RC_GTEST_PROP(InterleaveProperty, AnyMixOfRequestsKeepsEveryByteToOneOwner, ()) {
  FakeRegionSource source(kRegionBytes * *rc::gen::inRange<std::uint64_t>(1, 8));
  FlexAllocator allocator(source, testing::regions_of(kRegionBytes));
  std::vector<Live> live;
  for (int i = *rc::gen::inRange(1, 80); i > 0; --i) {
    const auto pick = *rc::gen::arbitrary<std::uint32_t>();
    if (pick % 3 == 0 && !live.empty()) {
      std::swap(live[pick % live.size()], live.back());
      allocator.deallocate(live.back().index);
      live.pop_back();
    } else {
      const std::uint64_t bytes = 1 + pick % *rc::gen::element(1'000U, 500'000U, 7'000'000U);
      const AllocationPolicy policy{
          .fit = *rc::gen::element(Fit::Best, Fit::First),
          .placement = *rc::gen::element(Placement::Anywhere, Placement::Interleave, Placement::Interleave)};
      const std::uint32_t named =
          policy.placement == Placement::Interleave ? *rc::gen::inRange<std::uint32_t>(0, 128) : 0;
      AllocationPolicy effective = policy;
      effective.regions = named;
      const auto before = allocator.statistics();
      const auto usage = allocator.memory_stats();
      const auto index = allocator.try_allocate(bytes, effective);
      std::uint64_t room = 0;
      for (const auto& region : before.regions) {
        if (named == 0 || (named >> region.ordinal & 1U) != 0) room += region.largest_free;
      }
      const std::uint64_t reserved = wire::align_up(bytes, std::uint64_t{128});
      if (effective.placement == Placement::Interleave) {
        const auto next = static_cast<std::uint32_t>(before.regions.size());  // the card's next ordinal
        if (named != 0 && (named >> next & 1U) == 0) RC_ASSERT(index.has_value() == (room >= reserved));
        if (room >= reserved) RC_ASSERT(index.has_value());
        if (room < reserved && index) RC_ASSERT(allocator.statistics().regions.size() > before.regions.size());
      }
      if (index) {
        live.push_back({*index, bytes, allocator.resolve_chunks(*index)});
        if (effective.placement == Placement::Interleave && room >= reserved) {
          check_even(live.back().memory, before, named == 0 ? ~0U : named);
        }
      } else {
        RC_ASSERT(allocator.memory_stats().active == usage.active);
        RC_ASSERT(allocator.memory_stats().active_bytes == usage.active_bytes);
        RC_ASSERT(allocator.memory_stats().allocation == usage.allocation);
      }
    }
    check_all(allocator, live);
  }
  for (const Live& one : live) allocator.deallocate(one.index);
  check_all(allocator, {});
  RC_ASSERT(allocator.release_unused_regions() == allocator.memory_stats().reserved_bytes.accumulated);
}

}  // namespace
}  // namespace svp
