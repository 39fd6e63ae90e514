// SPDX-License-Identifier: Apache-2.0
// What FlexAllocator tells about itself.
#include <algorithm>

#include "host_driver/memory/flex_allocator.hpp"

namespace svp {

double FlexAllocator::fragmentation() const {
  std::uint64_t free = 0;
  std::uint64_t largest = 0;
  for (const auto& held : regions_) {
    if (!held) continue;
    free += held->heap.free_bytes();
    largest += held->heap.largest_free();
  }
  return free > 0 ? 1.0 - static_cast<double>(largest) / static_cast<double>(free) : 0;
}

AllocatorStatistics FlexAllocator::statistics() const {
  require_own_process();
  const std::scoped_lock lock(mutex_);
  const MemoryStats usage = usage_.stats();
  AllocatorStatistics result{.bytes = usage.active_bytes,
                             .count = usage.active,
                             .reserved_bytes = usage.reserved_bytes,
                             .out_of_memory = usage_.failures(),
                             .fragmentation = fragmentation(),
                             .regions = {}};
  for (const auto& held : regions_) {
    if (!held) continue;
    result.regions.push_back({.ordinal = held->grant.ordinal,
                              .type = held->grant.type,
                              .bytes = held->grant.bytes,
                              .free_bytes = held->heap.free_bytes(),
                              .largest_free = held->heap.largest_free(),
                              .used_blocks = held->heap.used_blocks(),
                              .free_blocks = held->heap.free_blocks()});
  }
  return result;
}

MemoryStats FlexAllocator::memory_stats() const {
  require_own_process();
  const std::scoped_lock lock(mutex_);
  MemoryStats result = usage_.stats();
  result.fragmentation = fragmentation();
  for (const auto& held : regions_) {
    if (!held || held->grant.type != RegionType::Tensor) continue;
    result.largest_free_block = std::max(result.largest_free_block, held->heap.largest_free());
  }
  return result;
}

void FlexAllocator::reset_peak_statistics() {
  require_own_process();
  const std::scoped_lock lock(mutex_);
  usage_.reset_peaks();
}

void FlexAllocator::reset_accumulated_statistics() {
  require_own_process();
  const std::scoped_lock lock(mutex_);
  usage_.reset_accumulated();
}

MemoryInfo FlexAllocator::memory_info() {
  require_own_process();
  MemoryInfo info = value_or_throw(source_.memory_info());
  if (info.free_bytes <= info.total_bytes) {
    const std::scoped_lock lock(mutex_);
    info.free_bytes = std::min({info.free_bytes, regions_left() * kMaxRegionBytes, room_in_limit()});
    return info;
  }
  throw Error({.layer = Layer::Firmware,
               .source = "memory of the function",
               .outcome = wire::Outcome::Fault,
               .recoverable = false,
               .next_step = "reset the function",
               .message = "the card says that " + std::to_string(info.free_bytes) + " of " +
                          std::to_string(info.total_bytes) + " bytes are free"});
}

}  // namespace svp
