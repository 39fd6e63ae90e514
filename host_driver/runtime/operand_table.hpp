// SPDX-License-Identifier: Apache-2.0
// Where the operands of a launch lie, when it has more of them than the segment table of a control block has rows
// (wire::kSegments). The card checks and attributes the first of them; the driver says of all of them which one a fault
// hit (stream_error.hpp) and what a launch that failed would have written (lost_writes.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shared/control_block.hpp"

namespace svp {

// A row for each operand of the kernel, in order: all of the operand, whatever its tiles are.
struct OperandRow {
  wire::Segment segment{};
  std::uint8_t window = 0;  // of the region: faults name it so
};
using OperandTable = std::vector<OperandRow>;

// Null: the rows of the launch's control blocks are all.
using SharedOperandTable = std::shared_ptr<const OperandTable>;

}  // namespace svp
