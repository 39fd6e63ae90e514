// SPDX-License-Identifier: Apache-2.0
// Moves a tensor between host layout and device layout, converting the number format in the same pass. Works on memory
// of the host only: the device side is a staging or pinned buffer that DMA carries.
//
// Padding (the lanes of a stick that hold no element) is written as zero, so that nothing of a former user leaks.
// Any pair of element_format.hpp and any layout. Fast for float16, bfloat16, float32 ↔ DL16 and for equal formats of 1,
// 2 or 4 bytes, in a layout of SpyreTensorLayout::of() whose stick dimension has host stride 1; with another host
// stride elements are gathered first; everything else goes through the loops of strided_loops.hpp. One thread;
// reentrant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "host_driver/tensor/data_type.hpp"
#include "host_driver/tensor/tensor_layout.hpp"

namespace svp {

// All throw InvalidArgument (dtype: no conversion; layout: not one of this shape; host, device: too few bytes or not
// aligned to an element) before anything is written. Bytes beyond the tensor are not touched.

// host: at least shape.bytes_spanned(); device: at least layout.device_bytes(), all of them written.
void stickify(const HostShape& shape, std::span<const std::byte> host, const SpyreTensorLayout& layout,
              std::span<std::byte> device);

// Writes the elements of `shape` and nothing between them.
void unstickify(const SpyreTensorLayout& layout, std::span<const std::byte> device, const HostShape& shape,
                std::span<std::byte> host);

// Throws InvalidArgument (layout) when it was made for another shape: it may have a place for every index of this one
// and still mean other elements.
void require_layout_of(const HostShape& shape, const SpyreTensorLayout& layout);
// The dim_order with which SpyreTensorLayout::of() gives this layout; nothing when it was made by hand.
std::optional<std::vector<std::int64_t>> order_of(const HostShape& shape, const SpyreTensorLayout& layout);

// Flat arrays of `count` elements, format conversion only. The arrays do not overlap.
void convert_to_device(DataType from, DeviceType to, const void* host, void* device, std::size_t count);
void convert_to_host(DeviceType from, DataType to, const void* device, void* host, std::size_t count);

}  // namespace svp
