// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compat/flex/2026-08-21/memory_map.hpp"

#include <iterator>

namespace flex::detail {

Allocation::Allocation(std::shared_ptr<MemoryMap> map, std::shared_ptr<svp::FlexAllocator> allocator,
                       svp::AllocationIndex index)
    : map_(std::move(map)),
      allocator_(std::move(allocator)),
      index_(index),
      memory_(allocator_->resolve_chunks(index)) {
  if (memory_.type == svp::RegionType::Program) program_ = std::make_unique<ProgramMemory>(memory_.block_bytes);
}

Allocation::~Allocation() {
  if (!process_.is_this()) return;  // the map's lock may be held by a thread that is not here
  map_->remove(*this);
  program_.reset();
  (void)allocator_->try_deallocate(index_);
}

void MemoryMap::add(const std::shared_ptr<Allocation>& allocation) {
  const std::lock_guard lock(mutex_);
  std::uint64_t base = 0;
  for (const svp::ResolvedChunk& chunk : allocation->memory().chunks()) {
    chunks_.insert_or_assign({chunk.region_ordinal, chunk.address.offset}, ChunkOf{chunk.bytes, base, allocation});
    base += chunk.bytes;
  }
}

void MemoryMap::remove(const Allocation& allocation) noexcept {
  const std::lock_guard lock(mutex_);
  for (const svp::ResolvedChunk& chunk : allocation.memory().chunks()) {
    chunks_.erase({chunk.region_ordinal, chunk.address.offset});
  }
}

Place MemoryMap::find(std::uint64_t segment, std::uint64_t offset, std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto next = chunks_.upper_bound({segment, offset});
  if (next == chunks_.begin()) return {};
  const auto& [at, chunk] = *std::prev(next);
  if (at.first != segment || !wire::range_inside(offset - at.second, bytes, chunk.bytes)) return {};
  return {chunk.allocation.lock(), chunk.base + (offset - at.second), bytes};
}

}  // namespace flex::detail
