// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "qemu/card.hpp"

namespace bench {

// From nothing to the first completed control block, in nanoseconds: boots a card like `options`, opens its PF, runs
// one NOP and one transfer. The card is gone when it returns.
struct ColdStart {
  double first_nop = 0;
  double first_transfer = 0;
  qemu::MachineOptions machine;  // as the emulator was started
};
ColdStart cold_start(const svp::CardOptions& options);

}  // namespace bench
