// SPDX-License-Identifier: Apache-2.0
// What a launch is given for one operand: a handle of the allocator with the tensor's metadata. FlexStream resolves it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/runtime/shape.hpp"
#include "host_driver/tensor/data_type.hpp"

namespace svp {

// A tensor in default stick layout (RFC "tiled tensors"), or a view of whole sticks of one, that starts `offset` bytes
// (a multiple of 128) into the allocation.
struct Argument {
  AllocationIndex allocation = AllocationIndex::Null;
  Shape shape;
  DeviceType dtype = DeviceType::Dl16;
  std::uint64_t offset = 0;
  // Of a view: StickGeometry::stride, 0 where one element is repeated. Empty: as the shape says.
  std::optional<std::array<std::uint64_t, Shape::kMaxRank>> stride{};
  // Of a device program, which knows the layout itself: raw bytes from `offset` on, at most so many (0: to the end of
  // the allocation). Shape, dtype and stride say nothing then.
  std::uint64_t raw_bytes = 0;

  static Argument raw(AllocationIndex allocation, std::uint64_t offset = 0, std::uint64_t bytes = 0) {
    Argument argument;
    argument.allocation = allocation;
    argument.offset = offset;
    argument.raw_bytes = bytes;
    return argument;
  }
};

}  // namespace svp
