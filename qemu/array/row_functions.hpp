// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// What the array computes on sticks. The results are those of docs/numerics.md, bit for bit.
#pragma once

#include "qemu/array/rows.hpp"

namespace svp::array {

using RowFunction = void (*)(const RowsPlan& plan, const Stretch& stretch);

// By opcode, format and number of inputs; null when the array has not this operation.
RowFunction find_row_function(const wire::array::Request& request);

// Functions of DL16: the results stand in a table of the program.
bool reads_table(const wire::array::Request& request);

}  // namespace svp::array
