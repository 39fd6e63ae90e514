// SPDX-License-Identifier: Apache-2.0
// The machine timer of each hart. Its interrupt is a level: it stays pending until the next arming.
#pragma once

#include <cstdint>
#include <limits>

#include "firmware/arch/riscv/hart_local.hpp"
#include "firmware/arch/riscv/mmio.hpp"
#include "firmware/hal/memory_map.h"

namespace riscv {

inline constexpr std::uint64_t kNoDeadline = std::numeric_limits<std::uint64_t>::max();

constexpr std::uint64_t deadline_after(std::uint64_t now, std::uint64_t ticks) {
  return ticks > kNoDeadline - now ? kNoDeadline : now + ticks;
}

// Interrupts the calling hart at `deadline`. Costs a device access unless it stands there already.
inline void timer_arm(HartLocal& hart, std::uint64_t deadline) {
  if (hart.armed_deadline == deadline) return;
  hart.armed_deadline = deadline;
  mmio_write64(CLINT_MTIMECMP + 8 * hart.hart, deadline);
}

// Interrupts at `deadline` or earlier: what is armed already serves when it lies between. So a run of short kernels
// arms once per slice and not once per kernel; whoever is interrupted early arms again.
inline void timer_cover(HartLocal& hart, std::uint64_t now, std::uint64_t deadline) {
  if (hart.armed_deadline > now && hart.armed_deadline <= deadline) return;
  timer_arm(hart, deadline);
}

}  // namespace riscv
