// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Products of few rows of DL16: each number of the panel is used for so few of them that it becomes a double where it
// is needed, and the chunks of a long k follow each other in one request.
#pragma once

#include <cstdint>

#include "qemu/array/chunk.hpp"

namespace svp::array {

// Executes the request up to the first chunk that needs more than this: that has a number which is not finite, or one
// of the panel's with the smallest exponent, or with which more than kMaxWideSums sums of the request are wide. Returns
// how many positions of k are done.
std::uint32_t multiply_few_rows(const ChunkPlan& plan);

}  // namespace svp::array
