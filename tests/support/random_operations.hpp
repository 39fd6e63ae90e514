// SPDX-License-Identifier: Apache-2.0
// One operation of a device program at random: extents, dimensions and stick dimensions of operands, masks, constants.
// Where the operands lie is left open (base, offset, strides, splits, page).
#pragma once

#include <random>

#include "shared/device_program_opcodes.hpp"
#include "tests/support/device_programs.hpp"

namespace svp::test {

wire::program::Operation random_operation(std::mt19937_64& random, wire::program::Opcode opcode,
                                          const ProgramLimits& limits);

}  // namespace svp::test
