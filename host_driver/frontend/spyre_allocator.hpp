// SPDX-License-Identifier: Apache-2.0
// SpyreAllocator (RFC): the frontend's thin door to FlexAllocator. Gives out memory that frees itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "host_driver/runtime/runtime.hpp"
#include "host_driver/runtime/stream_records.hpp"

namespace svp {

using spyre::AllocationOptions;

// Device memory of one allocation; freed when the last owner is gone and everything that was launched on it before has
// ended: nobody has to synchronise first.
class DeviceStorage {
 public:
  DeviceStorage(std::shared_ptr<FlexAllocator> allocator, AllocationIndex index, std::uint64_t bytes)
      : allocator_(std::move(allocator)), index_(index), bytes_(bytes) {}
  ~DeviceStorage() { (void)allocator_->try_deallocate(index_); }  // and then the records of streams end
  DeviceStorage(const DeviceStorage&) = delete;
  DeviceStorage& operator=(const DeviceStorage&) = delete;

  AllocationIndex allocation_index() const { return index_; }
  std::uint64_t bytes() const { return bytes_; }

  // The stream may use the memory without naming it in a launch. Throws InvalidArgument (a stream of another context),
  // InvalidAllocation.
  void record_stream(const FlexStream& stream) const { records_.add(stream, allocator_, index_); }

 private:
  std::shared_ptr<FlexAllocator> allocator_;
  AllocationIndex index_;
  std::uint64_t bytes_;
  mutable StreamRecords records_;
};

class SpyreAllocator {
 public:
  explicit SpyreAllocator(Runtime& runtime) : allocator_(runtime.shared_allocator()) {}

  // Throws OutOfMemory. Zero bytes: a storage without memory.
  std::shared_ptr<const DeviceStorage> allocate(std::uint64_t bytes, const AllocationOptions& options = {}) {
    const AllocationIndex index =
        options.interleaved ? allocator_->allocate(bytes, kInterleaved) : allocator_->allocate(bytes);
    return std::make_shared<const DeviceStorage>(allocator_, index, bytes);
  }
  Expected<std::shared_ptr<const DeviceStorage>> try_allocate(std::uint64_t bytes,
                                                              const AllocationOptions& options = {}) {
    const auto index =
        options.interleaved ? allocator_->try_allocate(bytes, kInterleaved) : allocator_->try_allocate(bytes);
    if (!index) return std::unexpected(index.error());
    return std::make_shared<const DeviceStorage>(allocator_, *index, bytes);
  }

  AllocatorStatistics statistics() const { return allocator_->statistics(); }
  MemoryStats memory_stats() const { return allocator_->memory_stats(); }
  void reset_peak_memory_stats() { allocator_->reset_peak_statistics(); }
  void reset_accumulated_memory_stats() { allocator_->reset_accumulated_statistics(); }
  MemoryInfo memory_info() const { return allocator_->memory_info(); }
  void set_memory_limit(std::optional<std::uint64_t> bytes) { allocator_->set_memory_limit(bytes); }
  void set_memory_fraction(double fraction) { allocator_->set_memory_fraction(fraction); }
  std::optional<std::uint64_t> memory_limit() const { return allocator_->memory_limit(); }
  std::uint64_t empty_cache() { return allocator_->release_unused_regions(); }
  void set_memory_pressure_callback(MemoryPressureCallback callback) {
    allocator_->set_memory_pressure_callback(std::move(callback));
  }
  void set_locked_memory_pressure_callback(LockedMemoryPressureCallback callback) {
    allocator_->set_locked_memory_pressure_callback(std::move(callback));
  }

 private:
  static constexpr AllocationPolicy kInterleaved{.placement = Placement::Interleave};

  std::shared_ptr<FlexAllocator> allocator_;
};

}  // namespace svp
