// SPDX-License-Identifier: Apache-2.0
// A part of a transfer's loops: those elements that lie in a range of one side. For transfers in pieces.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "host_driver/tensor/stick_runs.hpp"
#include "host_driver/tensor/strided_loops.hpp"

namespace svp {

// Loops that move exactly the elements whose index on `side` lies in [first, end). That side of the result counts from
// `first`. Nests in which every loop has a size; their order is kept.
std::vector<StridedLoops> clipped(std::span<const StridedLoops> nests, LoopSide side, std::int64_t first,
                                  std::int64_t end);

}  // namespace svp
