// SPDX-License-Identifier: Apache-2.0
// Device memory and tensors.
#include "host_driver/api/inside.hpp"

namespace spyre::inline v0 {

DeviceStorage::DeviceStorage(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
AllocationIndex DeviceStorage::allocation_index() const { return impl_->storage->allocation_index(); }
std::uint64_t DeviceStorage::bytes() const { return impl_->storage->bytes(); }

SpyreAllocator::SpyreAllocator(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
std::shared_ptr<const DeviceStorage> SpyreAllocator::allocate(std::uint64_t bytes) {
  return Inside::storage(impl_->allocator.allocate(bytes));
}
AllocatorStatistics SpyreAllocator::statistics() const {
  const svp::AllocatorStatistics inner = impl_->allocator.statistics();
  return {.bytes = inner.bytes,
          .count = inner.count,
          .reserved_bytes = inner.reserved_bytes,
          .out_of_memory = inner.out_of_memory,
          .fragmentation = inner.fragmentation,
          .regions = static_cast<unsigned>(inner.regions.size())};
}

const svp::SpyreTensor& Inside::of(const SpyreTensor& tensor) {
  static const svp::SpyreTensor kNone;
  return tensor.impl_ != nullptr ? tensor.impl_->tensor : kNone;
}

SpyreTensor::SpyreTensor() = default;
SpyreTensor::SpyreTensor(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
SpyreTensor SpyreTensor::empty(SpyreAllocator& allocator, DataType dtype, std::vector<std::int64_t> shape,
                               std::optional<DeviceType> device_dtype) {
  return Inside::tensor(svp::SpyreTensor::empty(Inside::of(allocator), dtype, std::move(shape), device_dtype));
}
const std::vector<std::int64_t>& SpyreTensor::shape() const { return Inside::of(*this).shape(); }
const std::vector<std::int64_t>& SpyreTensor::stride() const { return Inside::of(*this).stride(); }
DataType SpyreTensor::data_type() const { return Inside::of(*this).data_type(); }
const SpyreTensorLayout& SpyreTensor::layout() const { return Inside::of(*this).layout(); }
AllocationIndex SpyreTensor::allocation_index() const { return Inside::of(*this).allocation_index(); }
std::uint64_t SpyreTensor::size_bytes() const { return Inside::of(*this).size_bytes(); }

}  // namespace spyre::inline v0
