// SPDX-License-Identifier: Apache-2.0
// Allocations of several chunks (Placement::Interleave): one block per region, linked in the order of their bytes. The
// handle names the first one, whose use count is that of all.
#include <algorithm>
#include <array>
#include <bit>

#include "host_driver/memory/flex_allocator.hpp"

namespace svp {
namespace {

constexpr std::size_t kOrdinals = wire::kRegionsPerFunction;
using SticksOfRegion = std::array<std::uint64_t, kOrdinals>;

template <typename F>
void for_each_ordinal(std::uint32_t regions, F&& f) {
  for (; regions != 0; regions &= regions - 1) f(static_cast<std::size_t>(std::countr_zero(regions)));
}

// How many sticks each region serves of `sticks`, at most what `room` holds: equal parts, which differ by one stick at
// most, but for regions whose room is smaller than such a part; they serve all of it. Nothing: the sum is too small.
std::optional<SticksOfRegion> spread(std::uint64_t sticks, std::uint32_t regions, const SticksOfRegion& room) {
  std::uint64_t sum = 0;
  for_each_ordinal(regions, [&](std::size_t i) { sum += room[i]; });
  if (sum < sticks) return std::nullopt;
  SticksOfRegion parts{};
  for (std::uint32_t open = 0; regions != open && regions != 0;) {  // each pass but the last closes one
    open = regions;
    const auto count = static_cast<std::uint64_t>(std::popcount(regions));
    const std::uint64_t part = (sticks + count - 1) / count;
    for_each_ordinal(open, [&](std::size_t i) {
      if (room[i] >= part) return;
      parts[i] = room[i];
      sticks -= room[i];
      regions &= ~(1U << i);
    });
  }
  auto left = static_cast<std::uint64_t>(std::popcount(regions));
  for_each_ordinal(regions, [&](std::size_t i) {
    parts[i] = (sticks + left - 1) / left;
    sticks -= parts[i];
    --left;
  });
  return parts;
}

}  // namespace

std::uint64_t FlexAllocator::free_in_chunks(const AllocationPolicy& policy) const {
  std::uint64_t bytes = 0;
  for_each_ordinal(held_ & eligible(policy), [&](std::size_t i) { bytes += regions_[i]->heap.largest_free(); });
  return bytes;
}

std::uint64_t FlexAllocator::region_needed(const AllocationPolicy& policy, std::uint64_t bytes) const {
  const std::uint64_t reserved = saturating_align_up(bytes, kBlockUnit);
  if (policy.placement != Placement::Interleave) return reserved;
  return std::min(reserved - std::min(reserved, free_in_chunks(policy)), kMaxRegionBytes);
}

std::optional<AllocationIndex> FlexAllocator::allocate_interleaved(std::uint64_t bytes,
                                                                   const AllocationPolicy& policy) {
  const std::uint64_t reserved = saturating_align_up(bytes, kBlockUnit);
  const std::uint32_t regions = held_ & eligible(policy);
  SticksOfRegion room{};
  for_each_ordinal(regions, [&](std::size_t i) { room[i] = regions_[i]->heap.largest_free() / kBlockUnit; });
  const auto parts = spread(reserved / kBlockUnit, regions, room);
  if (!parts) return std::nullopt;

  std::array<BlockId, kOrdinals> blocks;
  std::array<SplitBlocks, kOrdinals> before;
  std::size_t count = 0;
  const auto take_back = [&] {
    while (count != 0) regions_[nodes_[blocks[--count]].heap]->heap.release(blocks[count]);
  };
  try {
    std::uint64_t left = bytes;
    for (std::size_t i = 0; i < kOrdinals; ++i) {
      if ((*parts)[i] == 0) continue;
      BlockHeap& heap = regions_[i]->heap;
      before[count] = SplitBlocks::of(heap);
      const std::uint64_t here = std::min(left, (*parts)[i] * kBlockUnit);
      const auto id = heap.allocate(here, kBlockUnit, policy.fit);
      if (!id) {  // the slab is full
        take_back();
        return std::nullopt;
      }
      (void)touch(*regions_[i], *id, Untouched::Any);
      blocks[count++] = *id;
      left -= here;
    }
  } catch (...) {
    take_back();
    throw;
  }
  for (std::size_t i = 0; i < count; ++i) {
    BlockNode& node = nodes_[blocks[i]];
    usage_.block_allocated(node.size * kBlockUnit, node.slack);
    usage_.split_changed(before[i], SplitBlocks::of(regions_[node.heap]->heap));
  }
  if (count > 1) link_chunks({blocks.data(), count});
  return handle_of(blocks[0]);
}

void FlexAllocator::link_chunks(std::span<const BlockId> blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    BlockNode& node = nodes_[blocks[i]];
    node.chunked = 1;
    node.follows = i != 0 ? 1 : 0;
    node.next_chunk = i + 1 < blocks.size() ? blocks[i + 1] : kNoBlock;
  }
  chunked_.fetch_add(1, std::memory_order_relaxed);
}

void FlexAllocator::release_chunks(BlockId first) {
  std::uint64_t bytes = 0;
  for (BlockId id = first; id != kNoBlock; id = nodes_[id].next_chunk) {
    usage_.handle_released(nodes_[id].size * kBlockUnit, nodes_[id].slack);
    bytes += nodes_[id].size * kBlockUnit;
  }
  if (nodes_[first].uses == 0) {
    free_chunks(first);
  } else {
    nodes_[first].doomed = 1;
    doomed_bytes_ += bytes;
  }
}

std::uint64_t FlexAllocator::free_chunks(BlockId id) {
  chunked_.fetch_sub(1, std::memory_order_relaxed);
  std::uint64_t bytes = 0;
  while (id != kNoBlock) {
    BlockNode& node = nodes_[id];
    const BlockId next = node.next_chunk;
    node.chunked = 0;
    node.follows = 0;
    bytes += node.size * kBlockUnit;
    free_block(id);
    id = next;
  }
  return bytes;
}

// ---- resolving ------------------------------------------------------------------------------------------------------

ResolvedChunks FlexAllocator::chunks_at(BlockId id) const {
  ResolvedChunks result;
  const bool several = nodes_[id].chunked != 0;
  do {
    const ResolvedAllocation block = resolved(id);
    result.list[result.count++] = {.address = block.address,
                                   .bytes = block.block_bytes,
                                   .region_generation = block.region_generation,
                                   .region_ordinal = block.region_ordinal};
    result.bytes += block.bytes;
    result.block_bytes += block.block_bytes;
    result.type = block.type;
    id = several ? nodes_[id].next_chunk : kNoBlock;
  } while (id != kNoBlock && result.count < kMaxChunks);
  return result;
}

ResolvedChunks FlexAllocator::resolve_chunks(AllocationIndex index) const {
  require_own_process();
  const std::scoped_lock lock(mutex_);
  const auto id = find(index);
  if (!id) throw invalid(id.error(), index);
  return chunks_at(*id);
}

Expected<ResolvedChunks> FlexAllocator::try_resolve_chunks(AllocationIndex index) const try {
  return resolve_chunks(index);
} catch (const Error& error) {
  return std::unexpected(error.info());
}

Expected<ResolvedChunks> FlexAllocator::try_use_chunks(AllocationIndex index, AllocationUses& uses) {
  if (!process_.is_this()) return std::unexpected(made_by_the_parent("device memory"));
  const std::scoped_lock lock(mutex_);
  const auto id = find(index);
  if (!id) return std::unexpected(invalid(id.error(), index).info());
  if (uses.allocator_ == nullptr) uses.allocator_ = shared_from_this();
  note_use(*id, uses);
  uses.add(index);
  ++nodes_[*id].uses;
  return chunks_at(*id);
}

}  // namespace svp
