// SPDX-License-Identifier: Apache-2.0
// SpyreAllocator (RFC): the frontend's thin door to FlexAllocator. Gives out memory that frees itself.
#pragma once

#include <cstdint>
#include <memory>

#include "host_driver/runtime/runtime.hpp"

namespace spyre::inline v0 {

// One block of device memory; freed when the last owner is gone and everything that was launched on it before has ended:
// nobody has to synchronise first.
class DeviceStorage {
 public:
  DeviceStorage(std::shared_ptr<svp::FlexAllocator> allocator, svp::AllocationIndex index, std::uint64_t bytes)
      : allocator_(std::move(allocator)), index_(index), bytes_(bytes) {}
  ~DeviceStorage() { (void)allocator_->try_deallocate(index_); }
  DeviceStorage(const DeviceStorage&) = delete;
  DeviceStorage& operator=(const DeviceStorage&) = delete;

  svp::AllocationIndex allocation_index() const { return index_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<svp::FlexAllocator> allocator_;
  svp::AllocationIndex index_;
  std::uint64_t bytes_;
};

class SpyreAllocator {
 public:
  explicit SpyreAllocator(svp::Runtime& runtime) : allocator_(runtime.shared_allocator()) {}

  // Throws svp::OutOfMemory. Zero bytes: a storage without memory.
  std::shared_ptr<const DeviceStorage> allocate(std::uint64_t bytes) {
    return std::make_shared<const DeviceStorage>(allocator_, allocator_->allocate(bytes), bytes);
  }
  svp::AllocatorStatistics statistics() const { return allocator_->statistics(); }

 private:
  std::shared_ptr<svp::FlexAllocator> allocator_;
};

}  // namespace spyre::inline v0
