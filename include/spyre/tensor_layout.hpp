// SPDX-License-Identifier: Apache-2.0
// How a tensor lies in memory: on the host with sizes and strides, on the card in sticks (RFC "tiled tensors",
// SpyreTensorLayout). Every host dimension becomes a device dimension, one of them, the stick dimension, is cut into
// sticks of 128 bytes, and the sticks of a column follow each other: [R, C] in row-major order becomes
// [ceil(C / eps)][R][eps], eps being the elements of one stick.
#pragma once

#include <spyre/export.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <spyre/data_type.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace spyre::inline v0 {

// A tensor in host memory. Sizes and strides are in elements and not negative; stride 0 = expanded.
struct SPYRE_API HostShape {
  DataType dtype = DataType::Float16;
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> stride;

  // Row-major. Throws InvalidArgument when the tensor has more than 2^63 elements.
  static HostShape contiguous(DataType dtype, std::vector<std::int64_t> size);

  std::int64_t element_count() const;
  std::uint64_t bytes_spanned() const;  // from the first to the last element; 0 when there is none

  friend bool operator==(const HostShape&, const HostShape&) = default;
};

// A dense or strided array in host memory. The memory is the caller's; `bytes` begins at element 0 and holds at least
// shape.bytes_spanned().
struct HostTensor {
  HostShape shape;
  std::span<std::byte> bytes;
};
struct ConstHostTensor {
  HostShape shape;
  std::span<const std::byte> bytes;
};

struct SPYRE_API SpyreTensorLayout {
  static constexpr std::int64_t kSynthetic = -1;

  // All three have one entry per device dimension, outermost first; the device is dense and row-major over device_size,
  // and the last dimension is the stick.
  std::vector<std::int64_t> device_size;
  std::vector<std::int64_t> stride_map;  // host elements per step; kSynthetic: padded or size 1; 0: expanded
  std::vector<std::int64_t> dim_map;     // the host dimension that it walks; kSynthetic: none
  DeviceType device_dtype = DeviceType::Dl16;

  // The layout of `shape`. `dim_order` lists the host dimensions, the last one becomes the stick dimension; a trailing
  // kSynthetic makes the tensor stick-sparse (one element per stick). Default: 0 … rank − 1. Default device type: that
  // of the host type. Throws InvalidArgument naming size, stride, dim_order or dtype.
  static SpyreTensorLayout of(const HostShape& shape, std::optional<std::vector<std::int64_t>> dim_order = std::nullopt,
                              std::optional<DeviceType> device_dtype = std::nullopt);

  // The layout with exactly these extents and steps, for example with blocks of two dimensions ([128, 128] in
  // [2, 2, 64, 64] with [8192, 64, 128, 1]). A device dimension walks the host dimension with the largest stride that
  // is not above its step. Throws InvalidArgument naming device_size, stride_map or dtype: lengths or entries are
  // wrong, the last extent is not a stick of the type, or an element of the tensor has no place.
  static SpyreTensorLayout with_map(const HostShape& shape, std::vector<std::int64_t> device_size,
                                    std::vector<std::int64_t> stride_map,
                                    std::optional<DeviceType> device_dtype = std::nullopt);

  std::int64_t elements_per_stick() const { return device_size.back(); }
  std::uint64_t stick_count() const;
  std::uint64_t device_bytes() const { return stick_count() * kBytesPerStick; }
  // What to allocate: never less than the host tensor, so that storage sizes compare as users expect.
  std::uint64_t storage_bytes(const HostShape& shape) const;

  // {"device_size":[…],"stride_map":[…],"dim_map":[…],"device_dtype":"SEN169_FP16"}, in one line.
  std::string to_json() const;
  // What to_json() wrote. Whether it is the layout of a shape shows when a tensor is made with it. Throws
  // InvalidArgument naming "json" or the member that is missing, unknown or wrong.
  static SpyreTensorLayout from_json(std::string_view json);

  friend bool operator==(const SpyreTensorLayout&, const SpyreTensorLayout&) = default;
};

// "SpyreTensorLayout(device_size=[2, 3, 64], stride_map=[64, 80, 1], device_dtype=SEN169_FP16)"
SPYRE_API std::string to_string(const SpyreTensorLayout& layout);
SPYRE_API std::ostream& operator<<(std::ostream& out, const SpyreTensorLayout& layout);
SPYRE_API std::size_t hash_value(const SpyreTensorLayout& layout) noexcept;

}  // namespace spyre::inline v0

template <>
struct std::hash<spyre::SpyreTensorLayout> {
  std::size_t operator()(const spyre::SpyreTensorLayout& layout) const noexcept { return spyre::hash_value(layout); }
};
