// SPDX-License-Identifier: Apache-2.0
// SpyreTensor (RFC): a tensor on the card, or a view of one. Context makes tensors and copies them (spyre/context.hpp).
// Views follow PyTorch in size, stride and storage offset; docs/tensors.md has examples.
#pragma once

#include <spyre/export.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <spyre/allocator.hpp>
#include <spyre/tensor_layout.hpp>
#include <string>
#include <vector>

namespace spyre::inline v0 {

// How a new tensor lies on the card, and how its elements are numbered. Empty members: the default.
struct TensorOptions {
  // Its format on the card: the host type's (float16 → DL16, float32 → FP32, …) or, for example, DL16 for float32,
  // which kernels compute with.
  std::optional<DeviceType> device_dtype{};
  // The order of its dimensions on the card; the last one becomes the stick dimension (SpyreTensorLayout::of). Default:
  // 0 … rank − 1.
  std::optional<std::vector<std::int64_t>> dim_order{};
  // As PyTorch's empty_strided. Default: row-major.
  std::optional<std::vector<std::int64_t>> stride{};
  // Exactly this layout, one of the shape. Not together with dim_order, nor with another device_dtype.
  std::optional<SpyreTensorLayout> layout{};
  // Its memory: AllocationOptions::interleaved.
  bool interleaved = false;
};

// Cheap to copy; copies and views share the memory, which is freed with the last of them (see DeviceStorage), and the
// layout. Immutable but for the bytes on the card; may be shared by threads. A default-constructed one has no memory
// and shape [].
//
// The element with the indices i… is the one that the layout calls storage_offset() + Σ i·stride() (a host index).
class SPYRE_API SpyreTensor {
 public:
  SpyreTensor();

  // Uninitialised memory. Throws InvalidArgument (shape, dtype, stride, dim_order, layout, device_dtype), OutOfMemory.
  static SpyreTensor empty(SpyreAllocator& allocator, DataType dtype, std::vector<std::int64_t> shape,
                           std::optional<DeviceType> device_dtype = std::nullopt);
  static SpyreTensor empty(SpyreAllocator& allocator, DataType dtype, std::vector<std::int64_t> shape,
                           const TensorOptions& options);

  const std::vector<std::int64_t>& shape() const;   // elements
  const std::vector<std::int64_t>& stride() const;  // elements, as the host sees it
  std::vector<std::int64_t> stride_bytes() const;   // the same in bytes of the host's type, as the RFC counts them
  std::int64_t storage_offset() const;              // elements
  std::int64_t element_count() const;
  bool is_contiguous() const;  // row-major without gaps, as the host sees it
  DataType data_type() const;  // of the host
  const SpyreTensorLayout& layout() const;
  AllocationIndex allocation_index() const;
  std::uint64_t size_bytes() const;  // on the card, of the whole tensor
  // DeviceStorage::record_stream() of its memory, which its views share. Without memory it does nothing.
  void record_stream(const SpyreStream& stream) const;

  // ---- views. They move nothing. Dimensions and positions count from the end when they are negative. All throw
  // InvalidArgument naming the argument.
  // One extent may be −1: it follows from the others. Throws CopyNeeded when the elements can not be seen in that shape
  // (then: Context::contiguous(), and view() of that). reshape() is the same, for those who look for that name.
  SpyreTensor view(const std::vector<std::int64_t>& shape) const;
  SpyreTensor reshape(const std::vector<std::int64_t>& shape) const { return view(shape); }
  SpyreTensor permute(const std::vector<std::int64_t>& dims) const;
  SpyreTensor transpose(std::int64_t dim0, std::int64_t dim1) const;
  // From start to before end, every step-th; start and end are cut to what there is. step is 1 or more.
  SpyreTensor slice(std::int64_t dim, std::optional<std::int64_t> start = std::nullopt,
                    std::optional<std::int64_t> end = std::nullopt, std::int64_t step = 1) const;
  // Exactly `length` from start.
  SpyreTensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const;
  SpyreTensor select(std::int64_t dim, std::int64_t index) const;
  SpyreTensor squeeze() const;
  SpyreTensor squeeze(std::int64_t dim) const;
  SpyreTensor unsqueeze(std::int64_t dim) const;
  // Repeats dimensions of size 1, and new ones in front, with stride 0. −1 keeps an extent.
  SpyreTensor expand(const std::vector<std::int64_t>& size) const;
  // Any sizes and strides inside of the tensor as it was allocated. Default offset: this view's.
  SpyreTensor as_strided(std::vector<std::int64_t> size, std::vector<std::int64_t> stride,
                         std::optional<std::int64_t> storage_offset = std::nullopt) const;
  // PyTorch's _reshape_alias: as_strided of as many elements, from this view's offset.
  SpyreTensor reshape_alias(std::vector<std::int64_t> size, std::vector<std::int64_t> stride) const;

  // The same memory read by another layout of the same shape: moves nothing, so that elements change places. A whole
  // tensor only. Throws InvalidArgument (layout). To move the elements: Context::restickify().
  SpyreTensor with_layout(SpyreTensorLayout layout) const;

  // Whether it is the same view of the same memory.
  SPYRE_API friend bool operator==(const SpyreTensor& a, const SpyreTensor& b);

 private:
  friend struct Inside;
  struct Impl;
  explicit SpyreTensor(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// "SpyreTensor(shape=[3, 80], stride=[80, 1], offset=0, dtype=float16, layout=…)"; never the elements.
SPYRE_API std::string to_string(const SpyreTensor& tensor);
SPYRE_API std::ostream& operator<<(std::ostream& out, const SpyreTensor& tensor);
SPYRE_API std::size_t hash_value(const SpyreTensor& tensor) noexcept;

}  // namespace spyre::inline v0

template <>
struct std::hash<spyre::SpyreTensor> {
  std::size_t operator()(const spyre::SpyreTensor& tensor) const noexcept { return spyre::hash_value(tensor); }
};
