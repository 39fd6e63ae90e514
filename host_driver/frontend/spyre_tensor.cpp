// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/spyre_tensor.hpp"

#include <algorithm>
#include <utility>

#include "host_driver/tensor/stickify.hpp"
#include "host_driver/tensor/strided_loops.hpp"

namespace svp {
namespace {

// Beyond every memory, and far from where sums of 64 bits wrap.
constexpr __int128 kTooManyBytes = __int128{1} << 60;

void require_bytes(const HostShape& shape, const SpyreTensorLayout& layout) {
  const auto bytes = [](const std::vector<std::int64_t>& extents, std::size_t item) {
    __int128 product = static_cast<__int128>(item);
    if (std::ranges::find(extents, 0) != extents.end()) return __int128{0};
    for (const std::int64_t extent : extents) product = std::min(product * extent, kTooManyBytes);
    return product;
  };
  if (bytes(shape.size, item_bytes(shape.dtype)) < kTooManyBytes &&
      bytes(layout.device_size, item_bytes(layout.device_dtype)) < kTooManyBytes) {
    return;
  }
  throw InvalidArgument("shape", "shape " + to_string(shape.size) + " needs 2^60 bytes or more", "check the extents");
}

HostShape host_shape(DataType dtype, std::vector<std::int64_t> size, const TensorOptions& options) {
  require_shape("shape", size);
  if (!options.stride) return HostShape::contiguous(dtype, std::move(size));
  const HostShape shape{.dtype = dtype, .size = std::move(size), .stride = *options.stride};
  if (shape.stride.size() != shape.size.size()) {
    throw InvalidArgument(
        "stride", "shape " + to_string(shape.size) + " and stride " + to_string(shape.stride) + " differ in length",
        "give one stride per dimension");
  }
  require_strides("stride", shape.size, shape.stride);
  return shape;
}

SpyreTensorLayout layout_of(const HostShape& shape, const TensorOptions& options) {
  if (!options.layout) return SpyreTensorLayout::of(shape, options.dim_order, options.device_dtype);
  if (options.dim_order) {
    throw InvalidArgument("dim_order", "a layout and a dim_order were given", "give one of them");
  }
  if (options.device_dtype.value_or(options.layout->device_dtype) != options.layout->device_dtype) {
    throw InvalidArgument("device_dtype",
                          "the layout is for " + std::string(name(options.layout->device_dtype)) + ", asked for was " +
                              std::string(name(*options.device_dtype)),
                          "leave device_dtype out");
  }
  require_layout_of(shape, *options.layout);
  return *options.layout;
}

// Whether the layout puts this view where the default layout would put a tensor of its size: then a kernel can not tell
// the difference.
bool seen_in_default_layout(const SpyreTensorLayout& layout, DataType dtype, const DeviceView& view) {
  if (layout.device_size.empty()) return true;  // of no memory: the launch says so
  if (view.offset != 0 || element_count(view) == 0) return view.offset == 0;
  const auto plain = SpyreTensorLayout::of({.dtype = dtype, .size = view.size, .stride = view.stride}, std::nullopt,
                                           layout.device_dtype);
  return plain.device_size == layout.device_size && plain.stride_map == layout.stride_map;
}

// SpyreTensor::argument() of a view whose dimensions are those of `base`, which is in default layout; empty: it is
// none.
std::optional<Argument> strided_argument(const HostShape& base, const DeviceView& view, DeviceType dtype) {
  const std::size_t rank = base.size.size();
  if (view.size.size() != rank || rank > Shape::kMaxRank || rank == 0) return std::nullopt;
  if (std::ranges::find(base.size, 0) != base.size.end() || element_count(view) == 0) return std::nullopt;
  const std::int64_t per_stick = elements_per_stick(dtype);
  const StickGeometry whole = StickGeometry::of(Shape(std::span(base.size)), per_stick);
  Argument argument{.shape = Shape(std::span(view.size)), .dtype = dtype, .stride = whole.stride};
  std::int64_t rest = view.offset;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t first = rest / base.stride[d];
    rest %= base.stride[d];
    const std::int64_t size = view.size[d];
    const bool repeats = size > 1 && view.stride[d] == 0;
    const std::int64_t step = size == 1 || repeats ? 1 : view.stride[d] / base.stride[d];
    if (size > 1 && view.stride[d] % base.stride[d] != 0) return std::nullopt;
    const std::int64_t reach = repeats ? 1 : (size - 1) * step + 1;
    if (first + reach > base.size[d]) return std::nullopt;
    std::uint64_t& stride = (*argument.stride)[d];
    if (d + 1 < rank) {
      argument.offset += static_cast<std::uint64_t>(first) * stride;
      stride *= static_cast<std::uint64_t>(repeats ? 0 : step);
      continue;
    }
    // Padding lanes of the view's last stick are not somebody's elements.
    const bool to_the_end = first + size == base.size[d] || size % per_stick == 0;
    if (repeats || step != 1 || first % per_stick != 0 || !to_the_end) return std::nullopt;
    argument.offset += static_cast<std::uint64_t>(first / per_stick) * stride;
  }
  return argument;
}

}  // namespace

SpyreTensor::SpyreTensor() {
  static const auto kNone = std::make_shared<const Base>();
  base_ = kNone;
  in_default_layout_ = true;
}

SpyreTensor::SpyreTensor(std::shared_ptr<const Base> base, DeviceView view)
    : base_(std::move(base)),
      view_(std::move(view)),
      in_default_layout_(seen_in_default_layout(base_->layout, base_->shape.dtype, view_)) {}

SpyreTensor SpyreTensor::empty(SpyreAllocator& allocator, DataType dtype, std::vector<std::int64_t> shape,
                               const TensorOptions& options) {
  Base base{.shape = host_shape(dtype, std::move(shape), options), .layout = {}, .storage = {}};
  base.layout = layout_of(base.shape, options);
  require_bytes(base.shape, base.layout);
  base.storage = allocator.allocate(base.layout.storage_bytes(base.shape), {.interleaved = options.interleaved});
  DeviceView view = DeviceView::whole(base.shape);
  return {std::make_shared<const Base>(std::move(base)), std::move(view)};
}

SpyreTensor SpyreTensor::as_strided(std::vector<std::int64_t> size, std::vector<std::int64_t> stride,
                                    std::optional<std::int64_t> storage_offset) const {
  return {base_, strided(base_->shape, std::move(size), std::move(stride), storage_offset.value_or(view_.offset))};
}

SpyreTensor SpyreTensor::reshape_alias(std::vector<std::int64_t> size, std::vector<std::int64_t> stride) const {
  require_shape("size", size);
  if (svp::element_count({size, {}, 0}) != element_count()) {
    throw InvalidArgument("size",
                          "size " + to_string(size) + " has not the " + std::to_string(element_count()) +
                              " elements of " + to_string(view_.size),
                          "give extents with that product");
  }
  return as_strided(std::move(size), std::move(stride));
}

SpyreTensor SpyreTensor::with_layout(SpyreTensorLayout layout) const {
  if (!is_whole()) {
    throw InvalidArgument("layout", "a view has the layout of its tensor", "change the layout of the whole tensor");
  }
  require_layout_of(base_->shape, layout);
  const std::uint64_t bytes = base_->storage ? base_->storage->bytes() : 0;
  if (layout.device_bytes() > bytes) {
    throw InvalidArgument(
        "layout",
        "the layout needs " + std::to_string(layout.device_bytes()) + " bytes, the tensor has " + std::to_string(bytes),
        "copy into a tensor that was made with this layout: Context::restickify()");
  }
  return {std::make_shared<const Base>(Base{base_->shape, std::move(layout), base_->storage}), view_};
}

bool SpyreTensor::is_whole() const {
  return view_.offset == 0 && view_.size == base_->shape.size && view_.stride == base_->shape.stride;
}

Argument SpyreTensor::argument() const {
  if (in_default_layout_) {
    return {.allocation = allocation_index(), .shape = Shape(std::span(view_.size)), .dtype = layout().device_dtype};
  }
  const DeviceView all = DeviceView::whole(base_->shape);
  if (svp::is_contiguous(all) && seen_in_default_layout(base_->layout, base_->shape.dtype, all)) {
    if (auto argument = strided_argument(base_->shape, view_, layout().device_dtype)) {
      argument->allocation = allocation_index();
      return *argument;
    }
  }
  throw CopyNeeded(
      "tensor",
      "a kernel reads tensors in default layout and views of their sticks, and this is none: " + to_string(*this),
      "launch with a copy of it: Context::contiguous()");
}

bool operator==(const SpyreTensor& a, const SpyreTensor& b) {
  return a.view_ == b.view_ &&
         (a.base_ == b.base_ || (a.base_->storage == b.base_->storage && a.base_->shape == b.base_->shape &&
                                 a.base_->layout == b.base_->layout));
}

std::string to_string(const SpyreTensor& tensor) {
  return "SpyreTensor(shape=" + to_string(tensor.shape()) + ", stride=" + to_string(tensor.stride()) +
         ", offset=" + std::to_string(tensor.storage_offset()) + ", dtype=" + std::string(name(tensor.data_type())) +
         ", layout=" + spyre::to_string(tensor.layout()) + ")";
}

std::size_t hash_value(const SpyreTensor& tensor) noexcept {
  std::size_t hash = spyre::hash_value(tensor.layout()) ^ static_cast<std::size_t>(tensor.allocation_index());
  const auto add = [&hash](std::int64_t entry) {
    hash = (hash ^ static_cast<std::size_t>(entry)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 31;
  };
  std::ranges::for_each(tensor.shape(), add);
  std::ranges::for_each(tensor.stride(), add);
  add(tensor.storage_offset());
  return hash;
}

}  // namespace svp
