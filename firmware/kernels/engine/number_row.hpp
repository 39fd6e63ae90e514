// SPDX-License-Identifier: Apache-2.0
// Elements that follow each other in memory, from one format into another.
#pragma once

#include "shared/device_program.hpp"

namespace kernel::engine::number {

inline constexpr unsigned kMostElements = 128;  // of a stick

// Not more than kMostElements. The results may lie over the elements when both formats have the same size.
void convert_row(wire::program::Format from, const void* elements, wire::program::Format to, void* results,
                 unsigned count);

}  // namespace kernel::engine::number
