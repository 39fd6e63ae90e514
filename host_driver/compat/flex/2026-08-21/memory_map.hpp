// SPDX-License-Identifier: Apache-2.0
// Which allocation an address lies in. A program makes addresses of parts of an allocation by itself (views); a launch
// needs the handle behind them, so that the memory stays until the work on it has ended.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "host_driver/base/process.hpp"
#include "host_driver/compat/flex/2026-08-21/program_memory.hpp"
#include "host_driver/memory/flex_allocator.hpp"

namespace flex::detail {

class MemoryMap;

// One allocation, freed when the last owner is gone; work under way that uses it keeps the memory until it has ended.
class Allocation {
 public:
  // Owns the handle from here on.
  Allocation(std::shared_ptr<MemoryMap> map, std::shared_ptr<svp::FlexAllocator> allocator, svp::AllocationIndex index);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  svp::AllocationIndex index() const { return index_; }
  const std::shared_ptr<svp::FlexAllocator>& allocator() const { return allocator_; }
  const svp::ResolvedChunks& memory() const { return memory_; }
  // Null for memory of tensors.
  ProgramMemory* program() const { return program_.get(); }

 private:
  friend class MemoryMap;
  const svp::OwnerProcess process_;
  std::shared_ptr<MemoryMap> map_;
  std::shared_ptr<svp::FlexAllocator> allocator_;
  svp::AllocationIndex index_;
  svp::ResolvedChunks memory_;
  std::unique_ptr<ProgramMemory> program_;
};

// `bytes` bytes from byte `offset` of an allocation on.
struct Place {
  std::shared_ptr<Allocation> allocation;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

class MemoryMap {
 public:
  void add(const std::shared_ptr<Allocation>& allocation);
  // Before its memory is freed: somebody else may get the same addresses then.
  void remove(const Allocation& allocation) noexcept;

  // The allocation that has all of these bytes, in one chunk. Without one: it is null.
  Place find(std::uint64_t segment, std::uint64_t offset, std::uint64_t bytes) const;

 private:
  struct ChunkOf {
    std::uint64_t bytes;
    std::uint64_t base;  // of the chunk's first byte, in the allocation
    std::weak_ptr<Allocation> allocation;
  };
  mutable std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, ChunkOf> chunks_;  // by segment and offset
};

}  // namespace flex::detail
