// SPDX-License-Identifier: Apache-2.0
// Executes the loops of a transfer (strided_loops.hpp) on host memory: the card's side is a staging or pinned buffer
// that DMA carries. The general executor; stickify.hpp is faster for whole tensors.
#pragma once

#include <cstddef>
#include <span>

#include "host_driver/tensor/element_format.hpp"
#include "host_driver/tensor/strided_loops.hpp"

namespace svp {

// dst[…] = convert(src[…]) for every tuple of indices of every nest, nest after nest. Inside of a nest elements move in
// any order: each has a destination of its own (describe_transfer() makes no other nests). Element i of a side
// begins at bit i·bits_of(format) of its memory. Bytes of `dst` between elements are not touched. One thread;
// reentrant.
//
// Everything is checked before the first element moves. Throws InvalidArgument: format (no such conversion), loops
// (lists of different lengths, a negative size), src or dst (an element outside of the memory, or an index of 2^62 or
// more). The memories do not overlap.
void copy_strided(std::span<const StridedLoops> nests, ElementFormat from, std::span<const std::byte> src,
                  ElementFormat to, std::span<std::byte> dst);

}  // namespace svp
