// SPDX-License-Identifier: Apache-2.0
// SpyreTensor (RFC): a tensor on the card, or a view of one. Copies and views share memory and layout. What it promises
// is written at spyre::SpyreTensor (spyre/tensor.hpp); copies between host and card: tensor_copy.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <spyre/tensor.hpp>
#include <string>
#include <vector>

#include "host_driver/frontend/spyre_allocator.hpp"
#include "host_driver/runtime/argument.hpp"
#include "host_driver/tensor/tensor_layout.hpp"
#include "host_driver/tensor/tensor_view.hpp"

namespace svp {

using spyre::TensorOptions;

class SpyreTensor {
 public:
  SpyreTensor();

  static SpyreTensor empty(SpyreAllocator& allocator, DataType dtype, std::vector<std::int64_t> shape,
                           std::optional<DeviceType> device_dtype = std::nullopt) {
    return empty(allocator, dtype, std::move(shape), TensorOptions{.device_dtype = device_dtype});
  }
  static SpyreTensor empty(SpyreAllocator& allocator, DataType dtype, std::vector<std::int64_t> shape,
                           const TensorOptions& options);

  const std::vector<std::int64_t>& shape() const { return view_.size; }
  const std::vector<std::int64_t>& stride() const { return view_.stride; }
  std::int64_t storage_offset() const { return view_.offset; }
  std::int64_t element_count() const { return svp::element_count(view_); }
  bool is_contiguous() const { return svp::is_contiguous(view_); }
  DataType data_type() const { return base_->shape.dtype; }
  const SpyreTensorLayout& layout() const { return base_->layout; }
  AllocationIndex allocation_index() const {
    return base_->storage ? base_->storage->allocation_index() : AllocationIndex::Null;
  }
  std::uint64_t size_bytes() const { return base_->layout.device_size.empty() ? 0 : base_->layout.device_bytes(); }

  SpyreTensor view(const std::vector<std::int64_t>& shape) const { return {base_, reshaped(view_, shape)}; }
  SpyreTensor permute(const std::vector<std::int64_t>& dims) const { return {base_, permuted(view_, dims)}; }
  SpyreTensor transpose(std::int64_t dim0, std::int64_t dim1) const { return {base_, transposed(view_, dim0, dim1)}; }
  SpyreTensor slice(std::int64_t dim, std::optional<std::int64_t> start = std::nullopt,
                    std::optional<std::int64_t> end = std::nullopt, std::int64_t step = 1) const {
    return {base_, sliced(view_, dim, start, end, step)};
  }
  SpyreTensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const {
    return {base_, narrowed(view_, dim, start, length)};
  }
  SpyreTensor select(std::int64_t dim, std::int64_t index) const { return {base_, selected(view_, dim, index)}; }
  SpyreTensor squeeze(std::optional<std::int64_t> dim = std::nullopt) const { return {base_, squeezed(view_, dim)}; }
  SpyreTensor unsqueeze(std::int64_t dim) const { return {base_, unsqueezed(view_, dim)}; }
  SpyreTensor expand(const std::vector<std::int64_t>& size) const { return {base_, expanded(view_, size)}; }
  SpyreTensor as_strided(std::vector<std::int64_t> size, std::vector<std::int64_t> stride,
                         std::optional<std::int64_t> storage_offset = std::nullopt) const;
  SpyreTensor reshape_alias(std::vector<std::int64_t> size, std::vector<std::int64_t> stride) const;
  SpyreTensor with_layout(SpyreTensorLayout layout) const;

  // ---- for copies and launches
  // The tensor as it was allocated, of which this is a view; of all of it when is_whole().
  const HostShape& base_shape() const { return base_->shape; }
  const DeviceView& device_view() const { return view_; }
  bool is_whole() const;
  const std::shared_ptr<const DeviceStorage>& storage() const { return base_->storage; }
  // Throws as DeviceStorage::record_stream(). Without memory it does nothing.
  void record_stream(const FlexStream& stream) const {
    if (base_->storage != nullptr) base_->storage->record_stream(stream);
  }
  // Whether every kernel takes it.
  bool fits_kernels() const { return in_default_layout_; }
  // As FlexStream takes it: the tensor in default layout, or a view of whole sticks of one whose dimensions are those
  // of the tensor (narrowed, in steps, repeated), with strides, which not every kernel takes. Throws CopyNeeded for
  // others: a kernel would read other elements than this view has.
  Argument argument() const;
  // For a device program, which knows the layout itself: the tensor's storage from its first byte, also of a view.
  Argument raw_argument() const { return Argument::raw(allocation_index()); }

  friend bool operator==(const SpyreTensor& a, const SpyreTensor& b);

 private:
  // What all views of a tensor share.
  struct Base {
    HostShape shape;
    SpyreTensorLayout layout;
    std::shared_ptr<const DeviceStorage> storage;
  };
  SpyreTensor(std::shared_ptr<const Base> base, DeviceView view);

  std::shared_ptr<const Base> base_;  // never null
  DeviceView view_;
  bool in_default_layout_ = false;  // to a kernel
};

std::string to_string(const SpyreTensor& tensor);
std::size_t hash_value(const SpyreTensor& tensor) noexcept;

}  // namespace svp
