// SPDX-License-Identifier: Apache-2.0
// From an index of a tensor to a byte. An SDSC stores no strides: they follow from the order of the dimensions, the
// extents of the iteration space and the gaps of the allocation.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "host_driver/compiler/sdsc.hpp"

namespace svp::compiler {

// What an operation knows better than the formula.
struct LayoutRules {
  // Dimensions that have no place in memory: those that an index tensor selects.
  std::vector<std::uint8_t> without;
  // Elements of a dimension in the allocation.
  std::map<std::uint8_t, std::uint32_t> allocated;
  // Parts of each dimension in a scratchpad; empty: those of the work.
  std::optional<std::array<std::uint32_t, kMostDimensions>> parts;
};

// `step`: bytes from one index to the next; of a stick dimension from one stick to the next. `bytes`: of the whole
// tensor, or of the part that a core has in its scratchpad.
struct Steps {
  std::array<std::int64_t, kMostDimensions> step{};
  std::int64_t bytes = 0;
};

// Throws InvalidPlan: the tensor does not fit the address space of a card.
Steps steps_of(const Sdsc& sdsc, const SdscTensor& tensor, const LayoutRules& rules = {});

// Elements of a stick along this dimension of the tensor; 1: not its stick dimension, or not present.
std::uint32_t stick_elements(const SdscTensor& tensor, unsigned dimension);

}  // namespace svp::compiler
