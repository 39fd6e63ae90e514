// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <thread>

#include "host_driver/memory/flex_allocator.hpp"
#include "tests/unit/host_driver/memory/fake_region_source.hpp"

namespace svp {
namespace {

using testing::FakeRegionSource;

constexpr std::uint64_t kRegion = 2 * wire::kMiB;

// The counters of a MemoryStats in one order.
std::array<Counter, 9> counters(const MemoryStats& stats) {
  return {stats.allocation,   stats.allocated_bytes, stats.active,
          stats.active_bytes, stats.inactive_split,  stats.inactive_split_bytes,
          stats.segment,      stats.reserved_bytes,  stats.requested_bytes};
}

// Every live block by its place. What the counters have to say follows from the blocks alone.
class Model {
 public:
  struct Block {
    AllocationIndex handle;
    ResolvedAllocation place;
    bool named = true;  // not released
    std::shared_ptr<AllocationUses> uses;
  };

  std::vector<Block> blocks;
  std::vector<std::uint32_t> regions;  // ordinals

  // Call after each operation: what changed counts once, in one direction.
  void settle() {
    const auto now = currents();
    for (std::size_t i = 0; i < now.size(); ++i) {
      Counter& counter = counters_[i];
      const std::uint64_t before = counter.current;
      counter.current = now[i];
      counter.peak = std::max(counter.peak, now[i]);
      const std::uint64_t up = now[i] > before ? now[i] - before : 0;
      counter.accumulated += up;
      counter.allocated += up;
      counter.freed += before > now[i] ? before - now[i] : 0;
    }
  }
  void reset_peaks() {
    for (Counter& counter : counters_) counter.peak = counter.current;
  }
  void reset_accumulated() {
    for (Counter& counter : counters_) counter.allocated = counter.freed = 0;
  }
  const std::array<Counter, 9>& counters() const { return counters_; }

  std::uint64_t largest_free() const {
    std::uint64_t largest = 0;
    for (const std::uint32_t region : regions) {
      for (const std::uint64_t hole : holes(region)) largest = std::max(largest, hole);
    }
    return largest;
  }

 private:
  std::vector<std::uint64_t> holes(std::uint32_t region) const {
    std::map<std::uint64_t, std::uint64_t> used;
    for (const Block& block : blocks) {
      if (block.place.region_ordinal == region) used[block.place.address.offset] = block.place.block_bytes;
    }
    std::vector<std::uint64_t> result;
    std::uint64_t at = 0;
    for (const auto& [offset, bytes] : used) {
      if (offset > at) result.push_back(offset - at);
      at = offset + bytes;
    }
    if (at < kRegion) result.push_back(kRegion - at);
    return result;
  }
  std::array<std::uint64_t, 9> currents() const {
    std::array<std::uint64_t, 9> now{};
    for (const Block& block : blocks) {
      now[0] += block.named;
      now[1] += block.named ? block.place.block_bytes : 0;
      now[8] += block.named ? block.place.bytes : 0;
      now[3] += block.place.block_bytes;
    }
    now[2] = blocks.size();
    for (const std::uint32_t region : regions) {
      const auto in_it = [&](const Block& block) { return block.place.region_ordinal == region; };
      if (std::ranges::none_of(blocks, in_it)) continue;
      for (const std::uint64_t hole : holes(region)) {
        ++now[4];
        now[5] += hole;
      }
    }
    now[6] = regions.size();
    now[7] = regions.size() * kRegion;
    return now;
  }
  std::array<Counter, 9> counters_{};
};

// One random operation on both.
class Player {
 public:
  Player(FakeRegionSource& source, FlexAllocator& allocator) : source_(source), allocator_(allocator) {}

  void step() {
    const int choice = *rc::gen::inRange(0, 20);
    const auto pick = *rc::gen::arbitrary<std::uint32_t>();
    if (choice < 9) return allocate(1 + pick % 700'000);
    if (choice == 18) return reset_of_the_function(pick);
    if (choice == 19) return reset_of_the_statistics(pick);
    if (choice == 17) {
      allocator_.release_unused_regions();
    } else if (!model.blocks.empty()) {
      change(model.blocks.begin() + static_cast<std::ptrdiff_t>(pick % model.blocks.size()), choice);
    }
    learn_regions();
  }

  Model model;
  std::uint64_t ooms = 0;

 private:
  using Place = std::vector<Model::Block>::iterator;

  void allocate(std::uint64_t bytes) {
    if (const auto index = allocator_.try_allocate(bytes)) {
      model.blocks.push_back({.handle = *index, .place = allocator_.resolve(*index), .uses = nullptr});
    } else {
      RC_ASSERT(model.largest_free() < bytes);
      ++ooms;
    }
    learn_regions();
  }
  void change(Place block, int choice) {
    if (choice < 14) {
      if (!block->named) return;
      allocator_.deallocate(block->handle);
      block->named = false;
    } else if (block->uses == nullptr && block->named) {
      block->uses = std::make_shared<AllocationUses>();
      RC_ASSERT(allocator_.try_use(block->handle, *block->uses).has_value());
    } else {
      block->uses.reset();
    }
    if (!block->named && block->uses == nullptr) model.blocks.erase(block);
  }
  void reset_of_the_function(std::uint32_t pick) {
    if (pick % 4 != 0) return;
    allocator_.forget_regions();
    source_.forget();
    model.blocks.clear();
    learn_regions();
  }
  void reset_of_the_statistics(std::uint32_t pick) {
    if (pick % 2 == 0) {
      allocator_.reset_peak_statistics();
      model.reset_peaks();
    } else {
      allocator_.reset_accumulated_statistics();
      model.reset_accumulated();
      ooms = 0;
    }
  }
  void learn_regions() {
    model.regions.clear();
    for (const auto& region : allocator_.statistics().regions) model.regions.push_back(region.ordinal);
    RC_ASSERT(static_cast<int>(model.regions.size()) == source_.held_count());
    model.settle();
  }

  FakeRegionSource& source_;
  FlexAllocator& allocator_;
};

RC_GTEST_PROP(MemoryStats, EveryCounterFollowsFromTheBlocks, ()) {
  FakeRegionSource source(kRegion * *rc::gen::inRange<std::uint64_t>(1, 6));
  const auto allocator = std::make_shared<FlexAllocator>(source, testing::regions_of(kRegion));
  Player player(source, *allocator);
  for (int i = *rc::gen::inRange(1, 120); i > 0; --i) {
    player.step();
    const MemoryStats stats = allocator->memory_stats();
    RC_ASSERT(counters(stats) == player.model.counters());
    RC_ASSERT(stats.largest_free_block == player.model.largest_free());
    RC_ASSERT(stats.num_ooms == player.ooms);
    RC_ASSERT(stats.num_alloc_retries == 0U);  // it has no callback
    RC_ASSERT(stats.fragmentation >= 0 && stats.fragmentation < 1);
  }
}

TEST(MemoryStats, ABlockThatWorkUnderWayUsesIsActiveAndNotAllocated) {
  FakeRegionSource source(wire::kGiB);
  const auto allocator = std::make_shared<FlexAllocator>(source, testing::regions_of(kRegion));
  const auto index = allocator->allocate(1000);
  AllocationUses uses;
  ASSERT_TRUE(allocator->try_use(index, uses));
  allocator->deallocate(index);
  EXPECT_EQ(allocator->memory_stats().allocation.current, 0U);
  EXPECT_EQ(allocator->memory_stats().allocated_bytes.current, 0U);
  EXPECT_EQ(allocator->memory_stats().active.current, 1U);
  EXPECT_EQ(allocator->memory_stats().active_bytes.current, 1024U);
  uses.let_go();
  EXPECT_EQ(allocator->memory_stats().active.current, 0U);
  EXPECT_EQ(allocator->memory_stats().allocated_bytes.peak, 1024U);
}

TEST(MemoryStats, WhatEmptyCacheCanNotGiveBackIsInactiveSplit) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, testing::regions_of(kRegion));
  const auto index = allocator.allocate(128);
  EXPECT_EQ(allocator.memory_stats().inactive_split_bytes.current, kRegion - 128);
  EXPECT_EQ(allocator.memory_stats().inactive_split.current, 1U);
  EXPECT_EQ(allocator.release_unused_regions(), 0U);
  allocator.deallocate(index);
  EXPECT_EQ(allocator.memory_stats().inactive_split_bytes.current, 0U) << "the region is free as a whole";
  EXPECT_EQ(allocator.memory_stats().largest_free_block, kRegion);
  EXPECT_EQ(allocator.release_unused_regions(), kRegion);
  EXPECT_EQ(allocator.memory_stats().segment, (Counter{.peak = 1, .accumulated = 1, .allocated = 1, .freed = 1}));
  EXPECT_EQ(allocator.memory_stats().largest_free_block, 0U);
}

TEST(MemoryStats, OnlyTensorMemoryCountsAsTheLargestFreeBlock) {
  FakeRegionSource source(wire::kGiB);
  FlexAllocator allocator(source, testing::regions_of(kRegion));
  (void)allocator.allocate(128, {.type = RegionType::Program});
  EXPECT_EQ(allocator.memory_stats().largest_free_block, 0U);
  EXPECT_EQ(allocator.memory_stats().segment.current, 1U);
}

TEST(MemoryInfo, IsWhatTheCardSays) {
  FakeRegionSource source(10 * kRegion);
  FlexAllocator allocator(source, testing::regions_of(kRegion));
  EXPECT_EQ(allocator.memory_info(), (MemoryInfo{.free_bytes = 10 * kRegion, .total_bytes = 10 * kRegion}));
  const auto index = allocator.allocate(128);
  EXPECT_EQ(allocator.memory_info().free_bytes, 9 * kRegion);
  allocator.deallocate(index);
  EXPECT_EQ(allocator.memory_info().free_bytes, 9 * kRegion) << "held regions are not free on the card";
  allocator.release_unused_regions();
  EXPECT_EQ(allocator.memory_info().free_bytes, 10 * kRegion);
  source.failure = FakeRegionSource::failed("the card is gone", wire::Outcome::Lost);
  EXPECT_THROW((void)allocator.memory_info(), Error);
}

TEST(MemoryInfo, MoreFreeThanThereIsIsAFaultOfTheCard) {
  struct Liar : FakeRegionSource {
    Liar() : FakeRegionSource(kRegion) {}
    Expected<MemoryInfo> memory_info() override { return MemoryInfo{.free_bytes = 2, .total_bytes = 1}; }
  } source;
  FlexAllocator allocator(source, testing::regions_of(kRegion));
  try {
    (void)allocator.memory_info();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.info().outcome, wire::Outcome::Fault);
    EXPECT_EQ(error.info().layer, Layer::Firmware);
  }
}

TEST(MemoryStats, ThreadsSeeCountersThatBelongTogether) {
  FakeRegionSource source(4 * kRegion);
  FlexAllocator allocator(source, testing::regions_of(kRegion));
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (unsigned seed = 0; seed < 3; ++seed) {
    threads.emplace_back([&allocator, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 1000; ++i) {
        const auto index = allocator.try_allocate(1 + random() % 100'000);
        const MemoryStats stats = allocator.memory_stats();
        EXPECT_LE(stats.allocated_bytes.current, stats.active_bytes.current);
        EXPECT_LE(stats.active_bytes.current + stats.inactive_split_bytes.current, stats.reserved_bytes.current);
        if (i % 100 == 0) allocator.reset_peak_statistics();
        if (index) allocator.deallocate(*index);
      }
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each allocates a number of times
  EXPECT_EQ(allocator.memory_stats().active.current, 0U);
  EXPECT_EQ(allocator.memory_stats().inactive_split.current, 0U);
}

}  // namespace
}  // namespace svp
