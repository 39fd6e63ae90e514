// SPDX-License-Identifier: Apache-2.0
// Lengths of arguments, which no bundle has and the launch knows: which programs depend on them. What is made of them:
// lowering_lengths.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "host_driver/compiler/bundle.hpp"

namespace svp::compiler {

enum class LengthUse : std::uint8_t {
  None,   // the program is the same for every length
  Short,  // it is another one when the argument is shorter than the one that was compiled without lengths takes
  Each,   // every length has a program of its own
};

// Of each parameter of the bundle.
std::vector<LengthUse> length_uses(const Bundle& bundle);
// Any of them is more than None.
bool needs_lengths(const Bundle& bundle);

// Throws InvalidArgument ("lengths"): not one for each parameter, no multiple of 128, more than 16 GiB.
void check_lengths(const Bundle& bundle, const std::vector<std::uint64_t>& lengths);

// ---- what the uses are, for the lowering
// A restickify pads in its iteration space only: a dimension that is the other tensor's stick may have its true size in
// this tensor's memory, and the gap says how many elements the padding added; or it is a gap as everywhere else.
bool may_be_unpadded(const Sdsc& sdsc, const SdscTensor& tensor, const SdscTensor& other, std::uint8_t dimension);
// The iteration space of an operation between formats of different size is padded to the sticks of more elements: a
// tensor with those of fewer elements may end before the last of its sticks.
bool may_end_early(const Sdsc& sdsc, const SdscTensor& tensor, const SdscTensor& other);

}  // namespace svp::compiler
