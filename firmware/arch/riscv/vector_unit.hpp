// SPDX-License-Identifier: Apache-2.0
// Who owns the f and v registers of a hart. All functions act on the calling hart.
#pragma once

#include "firmware/arch/riscv/hart_local.hpp"

namespace riscv {

// Makes the registers hold the state of `context` (zero when it has none yet), after saving their owner's.
void take_float(HartLocal& hart, hal::Context& context);
void take_vector(HartLocal& hart, hal::Context& context);

// Frees the v registers for firmware use: saves their owner's, and makes vector instructions legal and vstart 0.
void take_vector_for_firmware(HartLocal& hart);

// The state of `context` in this hart's registers, if it is there, is of no use any more.
inline void forget_units(HartLocal& hart, const hal::Context& context) {
  if (hart.float_owner == &context) hart.float_owner = nullptr;
  if (hart.vector_owner == &context) hart.vector_owner = nullptr;
}

// The same on every hart; when it returns, none of them is writing to the context any more.
void forget_units_everywhere(hal::Context& context);

}  // namespace riscv
