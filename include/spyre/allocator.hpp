// SPDX-License-Identifier: Apache-2.0
// SpyreAllocator (RFC): device memory by handles. Sizes are bytes and are rounded up to sticks of 128; a block lies in
// one region, and an allocation is one block unless it is interleaved. Most programs need tensors only
// (spyre/tensor.hpp).
#pragma once

#include <spyre/export.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <spyre/error.hpp>

namespace spyre::inline v0 {

struct Inside;  // of the library
class SpyreStream;

// A handle of a block of device memory: opaque, comparable, hashable. It holds no address (RFC: the handle that a user
// sees must not tell where the data lie), only a slot, that slot's generation and the allocator's mark, so that a
// handle used after its release, or with another allocator, is recognised (InvalidAllocation).
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
  // 1 − Σ largest free block / Σ free over the regions. 0: all that is free in each region is one block, or nothing is
  // free.
  double fragmentation = 0;
  unsigned regions = 0;  // 0 … 8

  std::uint64_t free_bytes() const { return reserved_bytes.current - bytes.current; }
};

// The same memory in the terms of torch.cuda.memory_stats(). "Allocated" is what a handle names; "active" is that and
// what was released while work that uses it is under way; a segment is a region of the card. So
// allocated <= active, and active + inactive split <= reserved.
struct MemoryStats {
  Counter allocation;                    // blocks that a handle names
  Counter allocated_bytes;               // in them
  Counter requested_bytes;               // in them, as asked for: before they were rounded up to sticks
  Counter active;                        // blocks that nobody else can get
  Counter active_bytes;                  // in them
  Counter inactive_split;                // free blocks of regions that are in use: what empty_cache() can not give back
  Counter inactive_split_bytes;          // in them
  Counter segment;                       // regions
  Counter reserved_bytes;                // in them
  std::uint64_t largest_free_block = 0;  // bytes that one tensor could get without another region
  double fragmentation = 0;              // as in AllocatorStatistics
  std::uint64_t num_ooms = 0;            // requests that failed for good, since the statistics were reset
  std::uint64_t num_alloc_retries = 0;   // requests made again after the memory-pressure callbacks, likewise
};

// What the card has for this function (torch.cuda.mem_get_info()). Free memory in regions that the allocator holds
// (AllocatorStatistics::free_bytes()) is not counted as free here.
struct MemoryInfo {
  // What it could still get, now, in regions that a memory limit and MemoryOptions::max_regions allow: of up to 16 GiB
  // each, as tensors of that size get them. Smaller ones get regions of MemoryOptions::region_bytes. Others may take
  // what nobody is guaranteed.
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;  // the most that it can hold
  friend bool operator==(const MemoryInfo&, const MemoryInfo&) = default;
};

// Told what is short, before an allocation fails; no lock is held. It may release memory, from any thread. What it
// throws reaches the caller of allocate(). An allocation that it makes itself fails without another call.
using MemoryPressureCallback = std::function<void(const MemoryShortage&)>;

// The same with the allocator's lock, which is held when it is called (as torch-spyre has it). Unlock it before
// anything that allocates, frees or waits for another thread (Python's garbage collection); lock it again before
// returning, so that nobody else takes what was freed, or leave it unlocked. A lock that is given up by release(), with
// the mutex still locked, is an Error of the request; the mutex is unlocked then. An allocation with the lock held
// throws std::system_error (resource_deadlock_would_occur).
using LockedMemoryPressureCallback = std::function<void(std::unique_lock<std::mutex>&)>;

struct AllocationOptions {
  // Spread over the regions that are held as several blocks (docs/memory.md): for a tensor that is larger than each
  // region's free memory, or than a region can be. Copies take it like any other. A kernel does not: a launch throws
  // CopyNeeded naming the operand, and Context::contiguous() makes a tensor in one block of it.
  bool interleaved = false;
};

// Device memory of one allocation; freed when the last owner is gone and everything that was launched on it before has
// ended: nobody has to synchronise first. It may outlive its context: the memory is gone by then, and freeing does
// nothing.
class SPYRE_API DeviceStorage {
 public:
  AllocationIndex allocation_index() const;
  std::uint64_t bytes() const;  // as asked for

  // torch.Tensor.record_stream(): the stream uses this memory without naming it in a launch, because its address was
  // handed over in another way. When it is freed, nobody gets it before everything has ended that was launched on the
  // stream until then. Once per stream is enough; an operand of a launch needs none. What uses the memory from outside
  // of the library's streams keeps an owner of it (a shared_ptr, or spyre/raw_storage.hpp).
  // Throws InvalidArgument (stream): it belongs to another context; InvalidAllocation: the memory went with a reset.
  void record_stream(const SpyreStream& stream) const;

 private:
  friend struct Inside;
  struct Impl;
  explicit DeviceStorage(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// How try_allocate() ended. `storage` is empty when it failed, and `error` says why then.
struct AllocationResult {
  std::shared_ptr<const DeviceStorage> storage;
  std::optional<ErrorInfo> error;
  explicit operator bool() const { return storage != nullptr; }
};

// A context's allocator. Cheap to copy; copies are the same allocator. Thread-safe. In a process that was forked from
// the one that opened the context every call throws Error.
class SPYRE_API SpyreAllocator {
 public:
  // Throws OutOfMemory, after the memory-pressure callbacks and another try. Zero bytes: a storage without memory,
  // AllocationIndex::Null.
  std::shared_ptr<const DeviceStorage> allocate(std::uint64_t bytes, const AllocationOptions& options = {});
  // The same, but a failure is returned, also that of a callback. Throws nothing but std::bad_alloc.
  AllocationResult try_allocate(std::uint64_t bytes, const AllocationOptions& options = {});

  AllocatorStatistics statistics() const;
  MemoryStats memory_stats() const;
  // Every peak becomes what is current.
  void reset_peak_memory_stats();
  // `allocated` and `freed` of every counter, num_ooms and num_alloc_retries become 0.
  void reset_accumulated_memory_stats();
  // Asks the card. Throws Error when it does not answer.
  MemoryInfo memory_info() const;

  // From now on regions are acquired only as long as all of them together, also that of programs, have no more bytes
  // than this (MemoryStats::reserved_bytes). Empty: no limit. What is held stays: empty_cache() gives back what is not
  // used. Throws InvalidArgument: 0.
  void set_memory_limit(std::optional<std::uint64_t> bytes);
  // The same as a part of memory_info().total_bytes, as torch.cuda.set_per_process_memory_fraction(). Asks the card.
  // Throws InvalidArgument (not above 0 and at most 1), Error when the card does not answer.
  void set_memory_fraction(double fraction);
  std::optional<std::uint64_t> memory_limit() const;  // bytes

  // Gives every region in which nothing is allocated back to the card; returns their bytes. Throws Error when the card
  // refuses one.
  std::uint64_t empty_cache();

  // Each replaces the one before it, an empty one removes it. With both, the one with the lock is called first. Each is
  // called once per request that finds no memory, and the request is tried once more then.
  void set_memory_pressure_callback(MemoryPressureCallback callback);
  void set_locked_memory_pressure_callback(LockedMemoryPressureCallback callback);

 private:
  friend struct Inside;
  struct Impl;
  explicit SpyreAllocator(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace spyre::inline v0
