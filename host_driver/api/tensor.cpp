// SPDX-License-Identifier: Apache-2.0
// Device memory and tensors.
#include <ostream>

#include "host_driver/api/inside.hpp"

namespace spyre::inline v0 {

DeviceStorage::DeviceStorage(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
AllocationIndex DeviceStorage::allocation_index() const { return impl_->storage->allocation_index(); }
std::uint64_t DeviceStorage::bytes() const { return impl_->storage->bytes(); }
void DeviceStorage::record_stream(const SpyreStream& stream) const {
  impl_->storage->record_stream(Inside::of(stream));
}

SpyreAllocator::SpyreAllocator(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
std::shared_ptr<const DeviceStorage> SpyreAllocator::allocate(std::uint64_t bytes, const AllocationOptions& options) {
  return Inside::storage(impl_->allocator.allocate(bytes, options));
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
AllocationResult SpyreAllocator::try_allocate(std::uint64_t bytes, const AllocationOptions& options) {
  auto storage = impl_->allocator.try_allocate(bytes, options);
  AllocationResult result;
  if (storage) {
    result.storage = Inside::storage(std::move(*storage));
  } else {
    result.error = std::move(storage.error());
  }
  return result;
}
MemoryStats SpyreAllocator::memory_stats() const { return impl_->allocator.memory_stats(); }
void SpyreAllocator::reset_peak_memory_stats() { impl_->allocator.reset_peak_memory_stats(); }
void SpyreAllocator::reset_accumulated_memory_stats() { impl_->allocator.reset_accumulated_memory_stats(); }
MemoryInfo SpyreAllocator::memory_info() const { return impl_->allocator.memory_info(); }
void SpyreAllocator::set_memory_limit(std::optional<std::uint64_t> bytes) { impl_->allocator.set_memory_limit(bytes); }
void SpyreAllocator::set_memory_fraction(double fraction) { impl_->allocator.set_memory_fraction(fraction); }
std::optional<std::uint64_t> SpyreAllocator::memory_limit() const { return impl_->allocator.memory_limit(); }
std::uint64_t SpyreAllocator::empty_cache() { return impl_->allocator.empty_cache(); }
void SpyreAllocator::set_memory_pressure_callback(MemoryPressureCallback callback) {
  impl_->allocator.set_memory_pressure_callback(std::move(callback));
}
void SpyreAllocator::set_locked_memory_pressure_callback(LockedMemoryPressureCallback callback) {
  impl_->allocator.set_locked_memory_pressure_callback(std::move(callback));
}

const svp::SpyreTensor& Inside::of(const SpyreTensor& tensor) {
  static const svp::SpyreTensor kNone;
  const SpyreTensor::Impl* const impl = tensor.impl_.get();
  if (impl == nullptr) return kNone;
  return impl->tensor;
}

SpyreTensor::SpyreTensor() = default;
SpyreTensor::SpyreTensor(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
SpyreTensor SpyreTensor::empty(SpyreAllocator& allocator, DataType dtype, std::vector<std::int64_t> shape,
                               std::optional<DeviceType> device_dtype) {
  return Inside::tensor(svp::SpyreTensor::empty(Inside::of(allocator), dtype, std::move(shape), device_dtype));
}
SpyreTensor SpyreTensor::empty(SpyreAllocator& allocator, DataType dtype, std::vector<std::int64_t> shape,
                               const TensorOptions& options) {
  return Inside::tensor(svp::SpyreTensor::empty(Inside::of(allocator), dtype, std::move(shape), options));
}
const std::vector<std::int64_t>& SpyreTensor::shape() const { return Inside::of(*this).shape(); }
const std::vector<std::int64_t>& SpyreTensor::stride() const { return Inside::of(*this).stride(); }
std::vector<std::int64_t> SpyreTensor::stride_bytes() const {
  std::vector<std::int64_t> bytes = stride();
  for (std::int64_t& step : bytes) step *= static_cast<std::int64_t>(item_bytes(data_type()));
  return bytes;
}
DataType SpyreTensor::data_type() const { return Inside::of(*this).data_type(); }
const SpyreTensorLayout& SpyreTensor::layout() const { return Inside::of(*this).layout(); }
AllocationIndex SpyreTensor::allocation_index() const { return Inside::of(*this).allocation_index(); }
std::uint64_t SpyreTensor::size_bytes() const { return Inside::of(*this).size_bytes(); }
std::int64_t SpyreTensor::storage_offset() const { return Inside::of(*this).storage_offset(); }
std::int64_t SpyreTensor::element_count() const { return Inside::of(*this).element_count(); }
void SpyreTensor::record_stream(const SpyreStream& stream) const {
  Inside::of(*this).record_stream(Inside::of(stream));
}
bool SpyreTensor::is_contiguous() const { return Inside::of(*this).is_contiguous(); }

SpyreTensor SpyreTensor::view(const std::vector<std::int64_t>& shape) const {
  return Inside::tensor(Inside::of(*this).view(shape));
}
SpyreTensor SpyreTensor::permute(const std::vector<std::int64_t>& dims) const {
  return Inside::tensor(Inside::of(*this).permute(dims));
}
SpyreTensor SpyreTensor::transpose(std::int64_t dim0, std::int64_t dim1) const {
  return Inside::tensor(Inside::of(*this).transpose(dim0, dim1));
}
SpyreTensor SpyreTensor::slice(std::int64_t dim, std::optional<std::int64_t> start, std::optional<std::int64_t> end,
                               std::int64_t step) const {
  return Inside::tensor(Inside::of(*this).slice(dim, start, end, step));
}
SpyreTensor SpyreTensor::narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const {
  return Inside::tensor(Inside::of(*this).narrow(dim, start, length));
}
SpyreTensor SpyreTensor::select(std::int64_t dim, std::int64_t index) const {
  return Inside::tensor(Inside::of(*this).select(dim, index));
}
SpyreTensor SpyreTensor::squeeze() const { return Inside::tensor(Inside::of(*this).squeeze()); }
SpyreTensor SpyreTensor::squeeze(std::int64_t dim) const { return Inside::tensor(Inside::of(*this).squeeze(dim)); }
SpyreTensor SpyreTensor::unsqueeze(std::int64_t dim) const { return Inside::tensor(Inside::of(*this).unsqueeze(dim)); }
SpyreTensor SpyreTensor::expand(const std::vector<std::int64_t>& size) const {
  return Inside::tensor(Inside::of(*this).expand(size));
}
SpyreTensor SpyreTensor::as_strided(std::vector<std::int64_t> size, std::vector<std::int64_t> stride,
                                    std::optional<std::int64_t> storage_offset) const {
  return Inside::tensor(Inside::of(*this).as_strided(std::move(size), std::move(stride), storage_offset));
}
SpyreTensor SpyreTensor::reshape_alias(std::vector<std::int64_t> size, std::vector<std::int64_t> stride) const {
  return Inside::tensor(Inside::of(*this).reshape_alias(std::move(size), std::move(stride)));
}
SpyreTensor SpyreTensor::with_layout(SpyreTensorLayout layout) const {
  return Inside::tensor(Inside::of(*this).with_layout(std::move(layout)));
}

bool operator==(const SpyreTensor& a, const SpyreTensor& b) { return Inside::of(a) == Inside::of(b); }
std::string to_string(const SpyreTensor& tensor) { return svp::to_string(Inside::of(tensor)); }
std::ostream& operator<<(std::ostream& out, const SpyreTensor& tensor) { return out << to_string(tensor); }
std::size_t hash_value(const SpyreTensor& tensor) noexcept { return svp::hash_value(Inside::of(tensor)); }

HostCopy::HostCopy() = default;
HostCopy::HostCopy(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
bool HostCopy::done() const { return impl_ == nullptr || impl_->task->done(); }
void HostCopy::wait() const {
  if (impl_ != nullptr) impl_->task->wait();  // bounded: as HostTask::wait() says
}
void HostCopy::wait(std::chrono::steady_clock::time_point deadline) const {
  if (impl_ != nullptr) impl_->task->wait(deadline);
}

}  // namespace spyre::inline v0
