// SPDX-License-Identifier: Apache-2.0
// Masks of element-wise operations: their value replaces results that are written already.
#pragma once

#include "firmware/kernels/engine/loop_nest.hpp"

namespace kernel::engine {

// In the box of a nest of sticks of the output.
void write_masks(const Work& work, const LoopNest& nest, const Box& box);

}  // namespace kernel::engine
