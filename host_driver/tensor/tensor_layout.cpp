// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/tensor_layout.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "host_driver/tensor/strided_loops.hpp"

namespace spyre::inline v0 {
namespace {

using Dims = std::vector<std::int64_t>;

std::string text(const Dims& dims) {
  std::string result = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) result += (i ? "," : "") + std::to_string(dims[i]);
  return result + "]";
}

// Multiplies without wrapping: a shape whose element count leaves 63 bits is nobody's tensor.
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    throw InvalidArgument("size", "the tensor has more than 2^63 elements", "check the shape");
  }
  return result;
}

void require_sane(const HostShape& shape) {
  if (shape.stride.size() != shape.size.size()) {
    throw InvalidArgument("stride",
                          "size " + text(shape.size) + " and stride " + text(shape.stride) + " differ in length",
                          "give one stride per dimension");
  }
  const auto negative = [](std::int64_t value) { return value < 0; };
  if (std::ranges::any_of(shape.size, negative)) {
    throw InvalidArgument("size", "size " + text(shape.size) + " has a negative entry", "check the shape");
  }
  if (std::ranges::any_of(shape.stride, negative)) {
    throw InvalidArgument("stride", "stride " + text(shape.stride) + " has a negative entry", "copy the view first");
  }
}

// A permutation of 0 … rank − 1, optionally followed by kSynthetic.
Dims checked_order(std::optional<Dims> given, std::size_t rank) {
  Dims natural(rank);
  std::iota(natural.begin(), natural.end(), 0);
  if (!given) return natural;
  Dims sorted = *given;
  if (!sorted.empty() && sorted.back() == SpyreTensorLayout::kSynthetic) sorted.pop_back();
  std::ranges::sort(sorted);
  if (sorted == natural) return *given;
  throw InvalidArgument(
      "dim_order", "dim_order " + text(*given) + " does not name each of " + std::to_string(rank) + " dimensions once",
      "give a permutation of the dimensions, with a trailing -1 for a stick-sparse tensor");
}

// The host dimension behind each device dimension: the order rotated left by one, then the stick.
Dims device_order(const Dims& order) {
  Dims result(order.begin() + 1, order.end());
  result.push_back(order.front());
  result.push_back(order.back());
  return result;
}

DeviceType natural_type(DataType dtype) {
  const svp::Expected<DeviceType> natural = svp::default_device_type(dtype);
  if (!natural) throw InvalidArgument("dtype", natural.error().message, natural.error().next_step);
  return *natural;
}

void require_map(const Dims& device_size, const Dims& stride_map, DeviceType type) {
  const char* const next = "give both lists one entry per device dimension, outermost first";
  if (device_size.empty()) throw InvalidArgument("device_size", "device_size is empty", next);
  if (stride_map.size() != device_size.size()) {
    throw InvalidArgument(
        "stride_map", "device_size " + text(device_size) + " and stride_map " + text(stride_map) + " differ in length",
        next);
  }
  if (std::ranges::any_of(device_size, [](std::int64_t extent) { return extent < 0; })) {
    throw InvalidArgument("device_size", "device_size " + text(device_size) + " has a negative entry", next);
  }
  if (std::ranges::any_of(stride_map, [](std::int64_t step) { return step < SpyreTensorLayout::kSynthetic; })) {
    throw InvalidArgument("stride_map", "stride_map " + text(stride_map) + " has an entry below -1", next);
  }
  const std::int64_t eps = spyre::elements_per_stick(type);
  if (device_size.back() != eps) {
    throw InvalidArgument("device_size",
                          "the last entry of device_size " + text(device_size) + " is not " + std::to_string(eps) +
                              ", the elements in a stick of " + std::string(name(type)),
                          "end it with a whole stick");
  }
  std::int64_t count = 1;
  for (const std::int64_t extent : device_size) {
    if (__builtin_mul_overflow(count, extent, &count) || count >= std::int64_t{1} << 62) {
      throw InvalidArgument("device_size", "device_size " + text(device_size) + " has 2^62 elements or more",
                            "check device_size");
    }
  }
}

// The host dimension with the largest stride that is not above `step`. Dimensions of size 1 and expanded ones have none
// to compare. For a step of 0: an expanded dimension.
std::int64_t walked_by(const HostShape& shape, std::int64_t step, std::int64_t extent) {
  std::int64_t found = SpyreTensorLayout::kSynthetic;
  std::int64_t largest = 0;
  for (std::size_t d = 0; d < shape.size.size(); ++d) {
    if (shape.size[d] == 1) continue;
    const std::int64_t stride = shape.stride[d];
    if (step == 0 ? stride == 0 && shape.size[d] == extent : stride > largest && stride <= step) {
      found = static_cast<std::int64_t>(d);
      largest = stride;
    }
  }
  return found;
}

// By the only rule that counts: a whole transfer finds a place for each element.
void require_place_for_each(const SpyreTensorLayout& layout, const HostShape& shape) {
  try {
    const Dims dense = HostShape::contiguous(shape.dtype, shape.size).stride;
    (void)svp::describe_transfer(layout, svp::DeviceView::whole(shape), dense, svp::TransferDirection::FromDevice);
  } catch (const InvalidArgument& error) {
    if (error.field() != "view") throw;
    throw InvalidArgument("device_size",
                          "not every element of size " + text(shape.size) + ", stride " + text(shape.stride) +
                              " has a place in device_size " + text(layout.device_size) + ", stride_map " +
                              text(layout.stride_map),
                          "make the extents large enough, and give each host dimension steps that reach its elements");
  }
}

}  // namespace

HostShape HostShape::contiguous(DataType dtype, std::vector<std::int64_t> size) {
  HostShape shape{.dtype = dtype, .size = std::move(size), .stride = {}};
  shape.stride.resize(shape.size.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size.size(); i-- > 0;) {
    shape.stride[i] = stride;
    stride = product(stride, std::max<std::int64_t>(shape.size[i], 1));
  }
  return shape;
}

std::int64_t HostShape::element_count() const {
  return std::accumulate(size.begin(), size.end(), std::int64_t{1}, product);
}

std::uint64_t HostShape::bytes_spanned() const {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < size.size(); ++i) {
    if (size[i] == 0) return 0;
    std::int64_t sum = 0;
    if (__builtin_add_overflow(last, product(size[i] - 1, stride[i]), &sum)) {
      throw InvalidArgument("stride", "the tensor spans more than 2^63 elements", "check the strides");
    }
    last = sum;
  }
  return (static_cast<std::uint64_t>(last) + 1) * item_bytes(dtype);
}

SpyreTensorLayout SpyreTensorLayout::of(const HostShape& shape, std::optional<Dims> dim_order,
                                        std::optional<DeviceType> device_dtype) {
  require_sane(shape);
  const Dims order = checked_order(std::move(dim_order), shape.size.size());
  device_dtype = device_dtype.value_or(natural_type(shape.dtype));
  const std::int64_t eps = spyre::elements_per_stick(*device_dtype);
  SpyreTensorLayout layout{.device_size = {}, .stride_map = {}, .dim_map = {}, .device_dtype = *device_dtype};
  if (shape.size.empty()) {
    layout.device_size = {1, eps};
    layout.stride_map = layout.dim_map = {kSynthetic, kSynthetic};
    return layout;
  }

  layout.dim_map = device_order(order);
  const std::size_t count = layout.dim_map.size();
  const std::int64_t stick = order.back();
  for (std::size_t j = 0; j + 1 < count; ++j) {
    const std::int64_t dim = layout.dim_map[j];
    const std::int64_t size = dim == kSynthetic ? 1 : shape.size[static_cast<std::size_t>(dim)];
    layout.device_size.push_back(dim == stick && dim != kSynthetic ? size / eps + (size % eps != 0) : size);
  }
  layout.device_size.push_back(eps);

  layout.stride_map.assign(count, kSynthetic);
  for (std::size_t j = count; j-- > 0;) {
    const std::int64_t dim = layout.dim_map[j];
    if (dim == kSynthetic || shape.size[static_cast<std::size_t>(dim)] == 1) continue;
    const std::int64_t stride = shape.stride[static_cast<std::size_t>(dim)];
    const bool outer_copy = dim == stick && j + 1 < count;
    layout.stride_map[j] =
        outer_copy ? std::min(product(stride, eps), product(stride, shape.size[static_cast<std::size_t>(dim)]))
                   : stride;
  }
  return layout;
}

SpyreTensorLayout SpyreTensorLayout::with_map(const HostShape& shape, Dims device_size, Dims stride_map,
                                              std::optional<DeviceType> device_dtype) {
  require_sane(shape);
  SpyreTensorLayout layout{.device_size = std::move(device_size),
                           .stride_map = std::move(stride_map),
                           .dim_map = {},
                           .device_dtype = device_dtype.value_or(natural_type(shape.dtype))};
  require_map(layout.device_size, layout.stride_map, layout.device_dtype);
  for (std::size_t j = 0; j < layout.device_size.size(); ++j) {
    const std::int64_t step = layout.stride_map[j];
    layout.dim_map.push_back(step == kSynthetic ? kSynthetic : walked_by(shape, step, layout.device_size[j]));
  }
  require_place_for_each(layout, shape);
  return layout;
}

std::uint64_t SpyreTensorLayout::stick_count() const {
  return static_cast<std::uint64_t>(
      std::accumulate(device_size.begin(), device_size.end() - 1, std::int64_t{1}, product));
}

std::uint64_t SpyreTensorLayout::storage_bytes(const HostShape& shape) const {
  return std::max(device_bytes(), static_cast<std::uint64_t>(shape.element_count()) * item_bytes(shape.dtype));
}

}  // namespace spyre::inline v0
