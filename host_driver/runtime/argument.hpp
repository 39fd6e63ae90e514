// SPDX-License-Identifier: Apache-2.0
// What a launch is given for one operand: a handle of the allocator with the tensor's metadata. FlexStream resolves it.
#pragma once

#include <cstdint>

#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/runtime/shape.hpp"
#include "host_driver/tensor/data_type.hpp"

namespace svp {

// A tensor in default stick layout (RFC "tiled tensors") that starts `offset` bytes (a multiple of 128) into the
// allocation.
struct Argument {
  AllocationIndex allocation = AllocationIndex::Null;
  Shape shape;
  DeviceType dtype = DeviceType::Dl16;
  std::uint64_t offset = 0;
};

}  // namespace svp
