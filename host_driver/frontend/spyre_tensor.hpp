// SPDX-License-Identifier: Apache-2.0
// SpyreTensor (RFC): a tensor on the card, and the ways there and back. Copies share the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "host_driver/frontend/spyre_allocator.hpp"
#include "host_driver/runtime/argument.hpp"
#include "host_driver/tensor/tensor_layout.hpp"

namespace svp {

class SpyreStream;

class SpyreTensor {
 public:
  SpyreTensor() = default;

  // Uninitialised memory for a contiguous tensor of the host type in default stick layout; on the card in the type's
  // default format (float16 → DL16, float32 → FP32, …) or the one given (float32 → DL16, which kernels compute with).
  // Throws InvalidArgument (dtype, negative or too many extents), OutOfMemory.
  static SpyreTensor empty(SpyreAllocator& allocator, DataType dtype, std::vector<std::int64_t> shape,
                           std::optional<DeviceType> device_dtype = std::nullopt);

  const std::vector<std::int64_t>& shape() const { return shape_.size; }
  const std::vector<std::int64_t>& stride() const { return shape_.stride; }  // elements, as the host sees it
  DataType data_type() const { return shape_.dtype; }
  const SpyreTensorLayout& layout() const { return layout_; }
  AllocationIndex allocation_index() const { return storage_ ? storage_->allocation_index() : AllocationIndex::Null; }
  std::uint64_t size_bytes() const { return layout_.device_size.empty() ? 0 : layout_.device_bytes(); }  // on the card

  // As FlexStream takes it.
  Argument argument() const;
  const std::shared_ptr<const DeviceStorage>& storage() const { return storage_; }

 private:
  HostShape shape_;
  SpyreTensorLayout layout_;
  std::shared_ptr<const DeviceStorage> storage_;
};

// Copies `source` to the card: lays it out and converts it (fp16, fp32, … → DL16) on this thread, then transfers on
// `stream`. `source` may be reused when this returns; the tensor is ready when the stream has come so far.
SpyreTensor to_device(Runtime& runtime, SpyreAllocator& allocator, SpyreStream& stream, const ConstHostTensor& source,
                      std::optional<DeviceType> device_dtype = std::nullopt);
// The same into an existing tensor of the same shape.
void copy_to_device(Runtime& runtime, SpyreStream& stream, const ConstHostTensor& source, const SpyreTensor& tensor);

// Copies a tensor back, converted to the destination's type. Waits for the stream, because the conversion needs the
// data; throws what Synchronize throws.
void to_host(Runtime& runtime, SpyreStream& stream, const SpyreTensor& tensor, const HostTensor& destination);

}  // namespace svp
