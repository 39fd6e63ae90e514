// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/shape.hpp"

namespace svp {
namespace {

constexpr std::uint64_t kSaturated = std::numeric_limits<std::uint64_t>::max();

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kSaturated : product;
}

std::uint64_t sticks_along(std::int64_t extent, std::int64_t elements_per_stick) {
  return static_cast<std::uint64_t>((extent - 1) / elements_per_stick + 1);
}

}  // namespace

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

StickGeometry StickGeometry::of(const Shape& shape, std::int64_t elements_per_stick) {
  StickGeometry geometry;
  std::uint64_t step = wire::kStickBytes;
  const std::size_t rank = shape.rank();
  if (rank > 1) {
    geometry.stride[0] = step;
    step = times(step, static_cast<std::uint64_t>(shape[0]));
  }
  if (rank > 0) {
    geometry.stride[rank - 1] = step;
    step = times(step, sticks_along(shape[rank - 1], elements_per_stick));
  }
  for (std::size_t d = rank < 2 ? 0 : rank - 2; d >= 1; --d) {
    geometry.stride[d] = step;
    step = times(step, static_cast<std::uint64_t>(shape[d]));
  }
  geometry.bytes = step;
  return geometry;
}

StickGeometry StickGeometry::strided(const Shape& shape, const std::array<std::uint64_t, Shape::kMaxRank>& stride,
                                     std::int64_t elements_per_stick) {
  StickGeometry geometry{.stride = stride, .bytes = wire::kStickBytes};
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    const bool is_stick = d + 1 == shape.rank();
    const std::uint64_t steps =
        is_stick ? sticks_along(shape[d], elements_per_stick) : static_cast<std::uint64_t>(shape[d]);
    const std::uint64_t reach = times(steps - 1, stride[d]);
    if (__builtin_add_overflow(geometry.bytes, reach, &geometry.bytes)) geometry.bytes = kSaturated;
  }
  return geometry;
}

std::uint64_t StickGeometry::span_of(const Shape& shape, std::int64_t elements_per_stick) const {
  std::uint64_t last = 0;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    const bool is_stick = d + 1 == shape.rank();
    const std::uint64_t steps =
        (is_stick ? sticks_along(shape[d], elements_per_stick) : static_cast<std::uint64_t>(shape[d])) - 1;
    last += steps * stride[d];
  }
  return last + wire::kStickBytes;
}

}  // namespace svp
