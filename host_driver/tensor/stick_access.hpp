// SPDX-License-Identifier: Apache-2.0
// How an operation of the card's engine walks a view of a tensor: by sticks, with a byte stride for each dimension of
// the view (shared/device_program.hpp). Pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "host_driver/tensor/strided_loops.hpp"
#include "host_driver/tensor/tensor_layout.hpp"

namespace svp {

struct StickAccess {
  std::uint64_t offset = 0;           // bytes from the tensor's start to the first stick
  std::vector<std::uint64_t> stride;  // bytes per step of each dimension of the view; of the stick dimension: per stick
  std::vector<bool> present;          // false: of size 1, or repeated
  std::optional<std::size_t> stick;   // of the view's dimensions; none: one element in each stick
  // No stick that the view touches holds an element that the view does not have: whole sticks may be written.
  bool whole_sticks = false;

  friend bool operator==(const StickAccess&, const StickAccess&) = default;
};

// Nothing: the view begins inside of a stick, or steps through the card's dimensions in a way that no strides describe
// (then a copy of it can be walked). `base` is the tensor as it was allocated, `view` not empty and inside of it.
std::optional<StickAccess> stick_access(const HostShape& base, const SpyreTensorLayout& layout, const DeviceView& view);

}  // namespace svp
