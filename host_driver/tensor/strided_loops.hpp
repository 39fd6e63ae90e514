// SPDX-License-Identifier: Apache-2.0
// What a transfer between host and card moves, as loops: the form of torch-spyre's data-conversion info. For every
// tuple of indices of a nest, dst[dst_offset + Σ i·dst_stride] = convert(src[src_offset + Σ i·src_stride]); all in
// elements.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "host_driver/tensor/tensor_layout.hpp"

namespace svp {

// One nest of loops, innermost first. The three lists are of the same length.
struct StridedLoops {
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> src_stride;
  std::vector<std::int64_t> dst_stride;
  std::int64_t src_offset = 0;
  std::int64_t dst_offset = 0;

  std::int64_t element_count() const;

  friend bool operator==(const StridedLoops&, const StridedLoops&) = default;
};

// Elements of a tensor on the card, named by the host index that its layout gives them: index(i) = offset + Σ i·stride.
// A tensor's own size and stride with offset 0 name all of it; those of a view (slice, transpose, reshape, as_strided)
// name the view. Not negative; stride 0 names an element several times.
struct DeviceView {
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> stride;
  std::int64_t offset = 0;

  static DeviceView whole(const HostShape& shape) { return {shape.size, shape.stride, 0}; }

  friend bool operator==(const DeviceView&, const DeviceView&) = default;
};

enum class TransferDirection : std::uint8_t { ToDevice, FromDevice };

// The loops that move the elements of `view` of a tensor with this layout, and nothing else, between the card and host
// memory with `host_stride` elements per step of each of the view's dimensions. Padding is not moved.
//
// A nest per piece in which the card's address is linear: a dimension whose last stick is not full gives two, k such
// dimensions give 2^k, and a view that begins or ends inside a stick gives a few more.
//
// An expanded dimension of the layout (stride_map 0) is written in all its copies and read from the first one.
//
// Throws InvalidArgument: size, stride or offset (lengths differ, negative, outside of the tensor, more than 2^63
// elements; to the card: a stride of 0, which would write an element several times). Throws CopyNeeded (view): the
// pieces are more than kMostNests.
std::vector<StridedLoops> describe_transfer(const SpyreTensorLayout& layout, const DeviceView& view,
                                            const std::vector<std::int64_t>& host_stride, TransferDirection direction);

inline constexpr std::size_t kMostNests = 4096;

// Card → card: the loops that put each element of `source` where the other layout has the element of `destination` with
// the same indices. The views are of one size. Throws as describe_transfer().
std::vector<StridedLoops> describe_copy(const SpyreTensorLayout& source_layout, const DeviceView& source,
                                        const SpyreTensorLayout& destination_layout, const DeviceView& destination);

// Whether two indices name one element. No entry of `stride` is negative.
bool elements_overlap(const std::vector<std::int64_t>& size, const std::vector<std::int64_t>& stride);

// Throws InvalidArgument naming `field`: as many entries as `size` has, none negative, together below 2^62; two
// elements with one index, but for those of stride 0 (expanded dimensions).
void require_strides(const char* field, const std::vector<std::int64_t>& size, const std::vector<std::int64_t>& stride);

// Where the card has the element with this host index, in elements (of an expanded dimension: the first copy). Nothing:
// the layout has no place for it.
std::optional<std::int64_t> device_offset_of(const SpyreTensorLayout& layout, std::int64_t host_index);

}  // namespace svp
