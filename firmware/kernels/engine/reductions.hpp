// SPDX-License-Identifier: Apache-2.0
// The reductions one by one: each reduces the lines of its core (reduction.hpp). What they compute, to the bit:
// docs/numerics.md.
#pragma once

#include "firmware/kernels/engine/reduction.hpp"

namespace kernel::engine {

// How many lines the compute array has done, from this core's first on (reduction_array.cpp): Sum, Mean, Max, Min,
// Exx2.
std::uint64_t give_to_array(const Work& work, const Reduction& lines);

void sum_dl16(const Work& work, const Reduction& lines);      // sum_dl16.cpp: Sum, Mean
void extreme_dl16(const Work& work, const Reduction& lines);  // extreme.cpp: Max, Min
void extreme_fp32(const Work& work, const Reduction& lines);
void sum_fp32(const Work& work, const Reduction& lines);      // float_reductions.cpp
void product(const Work& work, const Reduction& lines);       // Prod, both formats
void moments_dl16(const Work& work, const Reduction& lines);  // moments.cpp: Exx2
void moments_fp32(const Work& work, const Reduction& lines);

}  // namespace kernel::engine
