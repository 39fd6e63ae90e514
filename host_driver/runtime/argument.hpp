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
};

}  // namespace svp
