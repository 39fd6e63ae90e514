// SPDX-License-Identifier: Apache-2.0
#include "host_driver/memory/block_heap.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <vector>

namespace svp {
namespace {

constexpr std::uint64_t kUnit = kBlockUnit;

// The obvious implementation: a map of used blocks; free space is what lies between them.
class NaiveModel {
 public:
  explicit NaiveModel(std::uint64_t total) : total_(total) {}

  std::vector<BlockHeap::Block> blocks() const {
    std::vector<BlockHeap::Block> result;
    std::uint64_t at = 0;
    for (const auto& [offset, bytes] : used_) {
      if (offset > at) result.push_back({at, offset - at, false});
      result.push_back({offset, bytes, true});
      at = offset + bytes;
    }
    if (at < total_) result.push_back({at, total_ - at, false});
    return result;
  }
  std::uint64_t largest_free() const {
    std::uint64_t largest = 0;
    for (const auto& block : blocks()) largest = std::max(largest, block.used ? 0 : block.bytes);
    return largest;
  }
  std::uint64_t smallest_fit(std::uint64_t bytes) const {
    std::uint64_t smallest = ~std::uint64_t{0};
    for (const auto& block : blocks()) {
      if (!block.used && block.bytes >= bytes) smallest = std::min(smallest, block.bytes);
    }
    return smallest;
  }
  BlockHeap::Block free_block_at(std::uint64_t offset) const {
    for (const auto& block : blocks()) {
      if (!block.used && block.offset <= offset && offset < block.offset + block.bytes) return block;
    }
    return {};
  }
  void allocate(std::uint64_t offset, std::uint64_t bytes) { used_[offset] = bytes; }
  void release(std::uint64_t offset) { used_.erase(offset); }

 private:
  std::uint64_t total_;
  std::map<std::uint64_t, std::uint64_t> used_;
};

bool same(const BlockHeap::Block& a, const BlockHeap::Block& b) {
  return a.offset == b.offset && a.bytes == b.bytes && a.used == b.used;
}

// The heap's blocks equal the model's: tiling, no overlap, merged neighbours, statistics.
void check_against(const BlockHeap& heap, const NaiveModel& model) {
  std::vector<BlockHeap::Block> actual;
  heap.for_each([&](const BlockHeap::Block& block) { actual.push_back(block); });
  const auto expected = model.blocks();
  RC_ASSERT(std::ranges::equal(actual, expected, same));
  std::uint64_t free = 0;
  for (const auto& block : expected) free += block.used ? 0 : block.bytes;
  RC_ASSERT(heap.free_bytes() == free);
  RC_ASSERT(heap.largest_free() == model.largest_free());
  const auto used = static_cast<std::uint64_t>(std::ranges::count_if(expected, &BlockHeap::Block::used));
  RC_ASSERT(heap.used_blocks() == used);
  RC_ASSERT(heap.free_blocks() == expected.size() - used);
}

struct Step {
  bool release;
  std::uint64_t bytes;
  std::uint64_t alignment;
  Fit fit;
  BlockEnd end;
  std::uint32_t pick;
};

// Sizes cluster so that equal sizes (rings) and sizes of one class (tries) both occur often.
Step any_step(std::uint64_t total) {
  const auto small = *rc::gen::inRange<std::uint64_t>(1, 40 * kUnit);
  const auto large = *rc::gen::inRange<std::uint64_t>(1, total / 3);
  const auto clustered = 1024 * kUnit + *rc::gen::inRange<std::uint64_t>(0, 40) * kUnit;
  return {.release = *rc::gen::inRange(0, 5) < 2,
          .bytes = *rc::gen::element(small, large, clustered, clustered),
          .alignment = *rc::gen::element(kUnit, kUnit, kUnit, std::uint64_t{4096}),
          .fit = *rc::gen::element(Fit::Best, Fit::Best, Fit::First),
          .end = *rc::gen::element(BlockEnd::Low, BlockEnd::High),
          .pick = *rc::gen::arbitrary<std::uint32_t>()};
}

RC_GTEST_PROP(BlockHeap, AgreesWithTheNaiveModelOnAnySequence, (std::uint32_t max_generation)) {
  const std::uint64_t total = kUnit * *rc::gen::element<std::uint64_t>(1, 63, 64, 5000, 70'001, 1U << 20);
  BlockNodes nodes(max_generation % 4 == 0 ? 3 : BlockNodes::kMaxGeneration);
  BlockHeap heap(nodes, 5, total);
  NaiveModel model(total);
  std::vector<BlockId> live;
  const int steps = *rc::gen::inRange(1, 200);
  for (int i = 0; i < steps; ++i) {
    const Step step = any_step(std::max<std::uint64_t>(total, 4 * kUnit));
    if (step.release && !live.empty()) {
      const std::size_t victim = step.pick % live.size();
      const std::uint64_t offset = nodes[live[victim]].offset * kUnit;
      heap.release(live[victim]);
      model.release(offset);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    } else if (const auto id = heap.allocate(step.bytes, step.alignment, step.fit, step.end)) {
      const BlockNode& node = nodes[*id];
      const std::uint64_t rounded = wire::align_up(step.bytes, kUnit);
      RC_ASSERT(node.size * kUnit == rounded);
      RC_ASSERT(rounded - node.slack == step.bytes);
      RC_ASSERT(node.heap == 5U);
      RC_ASSERT(node.offset * kUnit % step.alignment == 0U);
      const BlockHeap::Block from = model.free_block_at(node.offset * kUnit);
      if (step.alignment == kUnit && step.fit == Fit::Best) RC_ASSERT(from.bytes == model.smallest_fit(rounded));
      const std::uint64_t passed_by = step.end == BlockEnd::Low
                                          ? node.offset * kUnit - from.offset
                                          : from.offset + from.bytes - (node.offset * kUnit + rounded);
      RC_ASSERT(passed_by < step.alignment);
      model.allocate(node.offset * kUnit, rounded);
      live.push_back(*id);
    } else {
      RC_ASSERT(model.largest_free() < wire::align_up(step.bytes, kUnit) + step.alignment - kUnit);
    }
    check_against(heap, model);
  }
  while (!live.empty()) {
    model.release(nodes[live.back()].offset * kUnit);
    heap.release(live.back());
    live.pop_back();
    check_against(heap, model);
  }
  RC_ASSERT(heap.unused());
  RC_ASSERT(heap.free_blocks() == 1U);
}

// How far the free blocks of a heap are from the heads of their classes: what a search or a removal walks at most.
struct Walks {
  std::uint64_t free = 0;
  std::uint64_t steps = 0;
  std::uint64_t longest = 0;
  std::uint64_t longest_small = 0;  // of the blocks below 64 units
};

Walks walks(const BlockNodes& nodes, BlockId any) {
  while (nodes[any].previous != kNoBlock) any = nodes[any].previous;
  Walks result;
  for (BlockId id = any; id != kNoBlock; id = nodes[id].next) {
    if (nodes[id].used || !nodes[id].in_tree) continue;
    std::uint64_t steps = 0;
    for (BlockId up = nodes[id].parent; up != kNoBlock; up = nodes[up].parent) ++steps;
    ++result.free;
    result.steps += steps;
    result.longest = std::max(result.longest, steps);
    if (nodes[id].size < 64) result.longest_small = std::max(result.longest_small, steps);
  }
  return result;
}

Walks walks_after_random_pairs(std::size_t live, std::uint64_t largest) {
  BlockNodes nodes;
  BlockHeap heap(nodes, 0, 16 * wire::kGiB);
  std::mt19937_64 random(live);
  const auto size = [&] { return 1 + random() % (std::uint64_t{1} << (random() % std::bit_width(largest))); };
  std::vector<BlockId> ids;
  while (ids.size() < live) ids.push_back(heap.allocate(size()).value());
  for (std::size_t i = 0; i < live; ++i) {
    BlockId& victim = ids[random() % live];
    heap.release(victim);
    victim = heap.allocate(size()).value();
  }
  return walks(nodes, ids[0]);
}

TEST(BlockHeap, FreeBlocksStayAFewStepsFromTheHeadsOfTheirClasses) {
  for (const std::size_t live : {std::size_t{100}, std::size_t{10'000}, std::size_t{100'000}}) {
    const Walks small = walks_after_random_pairs(live, 4096);
    EXPECT_EQ(small.longest_small, 0U) << "blocks below 64 units are found without a walk";
    const Walks any = walks_after_random_pairs(live, wire::kMiB / 4);
    EXPECT_EQ(any.longest_small, 0U);
    EXPECT_LE(any.longest, 22U);
    EXPECT_LE(any.steps, 4 * any.free) << live << " live blocks: " << any.steps << " steps to " << any.free;
  }
}

TEST(BlockHeap, TwoBlocksFillACacheLineAndNoneLiesOnTwo) {
  BlockNodes nodes;
  BlockHeap heap(nodes, 0, wire::kMiB);
  for (int i = 0; i < 1000; ++i) {
    const BlockId id = heap.allocate(1).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&nodes[id]) / 64,
              (reinterpret_cast<std::uintptr_t>(&nodes[id] + 1) - 1) / 64);
  }
}

TEST(BlockHeap, AdjacentFreeBlocksAlwaysMerge) {
  for (const auto& order : {std::array{0, 1, 2}, std::array{0, 2, 1}, std::array{1, 0, 2}, std::array{1, 2, 0},
                            std::array{2, 0, 1}, std::array{2, 1, 0}}) {
    BlockNodes nodes;
    BlockHeap heap(nodes, 0, 3 * kUnit);
    std::array<BlockId, 3> ids{};
    for (BlockId& id : ids) id = heap.allocate(kUnit).value();
    EXPECT_EQ(heap.free_blocks(), 0U);
    for (const int i : order) heap.release(ids[static_cast<std::size_t>(i)]);
    EXPECT_EQ(heap.free_blocks(), 1U);
    EXPECT_EQ(heap.largest_free(), 3 * kUnit);
  }
}

TEST(BlockHeap, EveryFreeBlockCanBeUsedInFull) {
  BlockNodes nodes;
  BlockHeap heap(nodes, 0, 16 * wire::kGiB);
  EXPECT_TRUE(heap.allocate(16 * wire::kGiB));
  EXPECT_FALSE(heap.allocate(1));
}

TEST(BlockHeap, TooLargeRequestsNeverWrap) {
  BlockNodes nodes;
  BlockHeap heap(nodes, 0, 64 * kUnit);
  EXPECT_FALSE(heap.allocate(64 * kUnit + 1));
  EXPECT_FALSE(heap.allocate(~std::uint64_t{0}));
  EXPECT_FALSE(heap.allocate(kUnit, std::uint64_t{1} << 40));
  EXPECT_EQ(heap.free_blocks(), 1U);
}

TEST(BlockHeap, AnAlignedBlockThatJustFitsIsFound) {
  BlockNodes nodes;
  BlockHeap heap(nodes, 0, 4 * 4096);
  ASSERT_TRUE(heap.allocate(4 * 4096, 4096));
  BlockHeap shifted(nodes, 1, 3 * 4096);
  ASSERT_TRUE(shifted.allocate(kUnit));
  const auto id = shifted.allocate(4096, 4096);
  ASSERT_TRUE(id);
  EXPECT_EQ(nodes[*id].offset * kUnit, 4096U);
}

TEST(BlockNodes, AnIdWithItsGenerationsUsedUpNeverComesBack) {
  BlockNodes nodes(2);
  BlockHeap heap(nodes, 0, kUnit);
  std::map<std::pair<BlockId, std::uint32_t>, int> seen;
  for (int i = 0; i < 100; ++i) {
    const BlockId id = heap.allocate(kUnit).value();
    EXPECT_EQ(++seen[std::pair(id, std::uint32_t{nodes[id].generation})], 1);
    heap.release(id);
  }
}

TEST(BlockHeap, ClearMakesEveryIdStale) {
  BlockNodes nodes;
  BlockHeap heap(nodes, 0, 10 * kUnit);
  const BlockId id = heap.allocate(kUnit).value();
  const std::uint32_t generation = nodes[id].generation;
  heap.clear();
  EXPECT_EQ(heap.total_bytes(), 0U);
  EXPECT_FALSE(heap.allocate(1));
  EXPECT_FALSE(nodes[id].used);
  EXPECT_GT(nodes[id].generation, generation);
}

}  // namespace
}  // namespace svp
