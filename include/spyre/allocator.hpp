// SPDX-License-Identifier: Apache-2.0
// SpyreAllocator (RFC): device memory by handles. Sizes are bytes and are rounded up to sticks of 128; a block lies in one
// region. Most programs need tensors only (spyre/tensor.hpp).
#pragma once

#include <spyre/export.h>

#include <cstdint>
#include <memory>

namespace spyre::inline v0 {

struct Inside;  // of the library

// A handle of a block of device memory: opaque, comparable, hashable. It holds no address (RFC: the handle that a user sees
// must not tell where the data lie), only a slot, that slot's generation and the allocator's mark, so that a handle used
// after its release, or with another allocator, is recognised (InvalidAllocation).
enum class AllocationIndex : std::uint64_t { Null = 0 };

struct Counter {
  std::uint64_t current = 0;
  std::uint64_t peak = 0;         // highest `current` since the statistics were reset
  std::uint64_t accumulated = 0;  // total ever added
  std::uint64_t allocated = 0;    // added since the statistics were reset
  std::uint64_t freed = 0;        // removed since the statistics were reset
  friend bool operator==(const Counter&, const Counter&) = default;
};

struct AllocatorStatistics {
  Counter bytes;                    // in blocks: rounded to 128
  Counter count;                    // blocks
  Counter reserved_bytes;           // in regions that the card granted
  std::uint64_t out_of_memory = 0;  // requests that failed for good
  // 1 − Σ largest free block / Σ free over the regions. 0: all that is free in each region is one block, or nothing is free.
  double fragmentation = 0;
  unsigned regions = 0;  // 0 … 8

  std::uint64_t free_bytes() const { return reserved_bytes.current - bytes.current; }
};

// One block of device memory; freed when the last owner is gone and everything that was launched on it before has ended:
// nobody has to synchronise first. It may outlive its context: the memory is gone by then, and freeing does nothing.
class SPYRE_API DeviceStorage {
 public:
  AllocationIndex allocation_index() const;
  std::uint64_t bytes() const;  // as asked for

 private:
  friend struct Inside;
  struct Impl;
  explicit DeviceStorage(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// A context's allocator. Cheap to copy; copies are the same allocator. Thread-safe. In a process that was forked from the one
// that opened the context every call throws Error.
class SPYRE_API SpyreAllocator {
 public:
  // Throws OutOfMemory. Zero bytes: a storage without memory, AllocationIndex::Null.
  std::shared_ptr<const DeviceStorage> allocate(std::uint64_t bytes);
  AllocatorStatistics statistics() const;

 private:
  friend struct Inside;
  struct Impl;
  explicit SpyreAllocator(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace spyre::inline v0
