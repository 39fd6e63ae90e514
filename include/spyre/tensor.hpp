// SPDX-License-Identifier: Apache-2.0
// SpyreTensor (RFC): a tensor on the card. Context makes tensors and copies them.
#pragma once

#include <spyre/export.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <spyre/allocator.hpp>
#include <spyre/tensor_layout.hpp>
#include <vector>

namespace spyre::inline v0 {

// Cheap to copy; copies share the memory, which is freed with the last of them (see DeviceStorage). Immutable but for the
// bytes on the card; may be shared by threads. A default-constructed one has no memory and shape [].
class SPYRE_API SpyreTensor {
 public:
  SpyreTensor();

  // Uninitialised memory for a contiguous tensor of the host type in default stick layout; on the card in the type's
  // default format (float16 → DL16, float32 → FP32, …) or the one given (float32 → DL16, which kernels compute with).
  // Throws InvalidArgument (dtype, negative or too many extents), OutOfMemory.
  static SpyreTensor empty(SpyreAllocator& allocator, DataType dtype, std::vector<std::int64_t> shape,
                           std::optional<DeviceType> device_dtype = std::nullopt);

  const std::vector<std::int64_t>& shape() const;   // elements
  const std::vector<std::int64_t>& stride() const;  // elements, as the host sees it
  DataType data_type() const;                       // of the host
  const SpyreTensorLayout& layout() const;
  AllocationIndex allocation_index() const;
  std::uint64_t size_bytes() const;  // on the card

 private:
  friend struct Inside;
  struct Impl;
  explicit SpyreTensor(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

}  // namespace spyre::inline v0
