// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/spyre_tensor.hpp"

#include <optional>
#include <utility>

#include "host_driver/frontend/spyre_stream.hpp"
#include "host_driver/tensor/stickify.hpp"

namespace svp {
namespace {

// A buffer in device layout: pinned when there is room, because that saves the staging copy, else ordinary memory.
struct LayoutBuffer {
  PinnedBuffer pinned;
  std::unique_ptr<std::byte[]> pageable;
  std::span<std::byte> bytes;
};

// Larger ones would keep the pinned memory from everybody else for little: the staging copy is hidden behind the DMA.
constexpr std::uint64_t kLargestPinned = 64 * wire::kMiB;

std::shared_ptr<LayoutBuffer> make_buffer(Runtime& runtime, std::uint64_t bytes) {
  auto buffer = std::make_shared<LayoutBuffer>();
  if (bytes <= kLargestPinned) {
    if (auto pinned = runtime.host_memory().try_allocate(bytes)) {
      buffer->pinned = std::move(*pinned);
      buffer->bytes = buffer->pinned.bytes();
      return buffer;
    }
  }
  buffer->pageable = std::make_unique_for_overwrite<std::byte[]>(bytes);
  buffer->bytes = {buffer->pageable.get(), bytes};
  return buffer;
}

void check_shapes(const HostShape& host, const SpyreTensor& tensor) {
  if (host.size == tensor.shape()) return;
  throw InvalidArgument("shape", "host tensor and device tensor differ in shape", "give tensors of one shape");
}

// The layout as it must be described for a host array with other strides or another type of element.
SpyreTensorLayout layout_for(const HostShape& host, const SpyreTensor& tensor) {
  return SpyreTensorLayout::of(host, std::nullopt, tensor.layout().device_dtype);
}

}  // namespace

SpyreTensor SpyreTensor::empty(SpyreAllocator& allocator, DataType dtype, std::vector<std::int64_t> shape,
                               std::optional<DeviceType> device_dtype) {
  SpyreTensor tensor;
  tensor.shape_ = HostShape::contiguous(dtype, std::move(shape));
  tensor.layout_ = SpyreTensorLayout::of(tensor.shape_, std::nullopt, device_dtype);
  tensor.storage_ = allocator.allocate(tensor.layout_.storage_bytes(tensor.shape_));
  return tensor;
}

Argument SpyreTensor::argument() const {
  return {.allocation = allocation_index(), .shape = Shape(std::span(shape_.size)), .dtype = layout_.device_dtype};
}

void copy_to_device(Runtime& runtime, SpyreStream& stream, const ConstHostTensor& source, const SpyreTensor& tensor) {
  check_shapes(source.shape, tensor);
  if (tensor.size_bytes() == 0) return;
  auto buffer = make_buffer(runtime, tensor.size_bytes());
  stickify(source.shape, source.bytes, layout_for(source.shape, tensor), buffer->bytes);
  const auto job = Job::to_device(buffer->bytes.data(), tensor.allocation_index(), buffer->bytes.size());
  stream.flex_stream().Launch(job, {}, {.keep_alive = buffer});
}

SpyreTensor to_device(Runtime& runtime, SpyreAllocator& allocator, SpyreStream& stream, const ConstHostTensor& source,
                      std::optional<DeviceType> device_dtype) {
  SpyreTensor tensor = SpyreTensor::empty(allocator, source.shape.dtype, source.shape.size, device_dtype);
  copy_to_device(runtime, stream, source, tensor);
  return tensor;
}

void to_host(Runtime& runtime, SpyreStream& stream, const SpyreTensor& tensor, const HostTensor& destination) {
  check_shapes(destination.shape, tensor);
  if (tensor.size_bytes() == 0) return stream.Synchronize();
  auto buffer = make_buffer(runtime, tensor.size_bytes());
  const auto job = Job::from_device(buffer->bytes.data(), tensor.allocation_index(), buffer->bytes.size());
  stream.flex_stream().Launch(job, {}, {.keep_alive = buffer});
  stream.Synchronize();
  unstickify(layout_for(destination.shape, tensor), buffer->bytes, destination.shape, destination.bytes);
}

}  // namespace svp
