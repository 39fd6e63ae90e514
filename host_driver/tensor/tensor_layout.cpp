// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/tensor_layout.hpp"

#include <algorithm>
#include <numeric>
#include <string>

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
  if (!device_dtype) {
    const svp::Expected<DeviceType> natural = svp::default_device_type(shape.dtype);
    if (!natural) throw InvalidArgument("dtype", natural.error().message, natural.error().next_step);
    device_dtype = *natural;
  }
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

std::uint64_t SpyreTensorLayout::stick_count() const {
  return static_cast<std::uint64_t>(
      std::accumulate(device_size.begin(), device_size.end() - 1, std::int64_t{1}, product));
}

std::uint64_t SpyreTensorLayout::storage_bytes(const HostShape& shape) const {
  return std::max(device_bytes(), static_cast<std::uint64_t>(shape.element_count()) * item_bytes(shape.dtype));
}

}  // namespace spyre::inline v0
