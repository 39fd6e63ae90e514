// SPDX-License-Identifier: Apache-2.0
// The end of a firmware that found itself broken: one hart records, the others leave their registers and stop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "firmware/arch/riscv/assembly.hpp"
#include "firmware/hal/context.hpp"

namespace riscv {

// Not 0 from the moment on that harts may write their rows of the record.
extern std::uint32_t record_open;

inline bool panicking() { return std::atomic_ref(record_open).load(std::memory_order_acquire) != 0; }

// The calling hart's registers, as they are here, go into its row; it never returns.
[[noreturn]] inline void leave_registers() {
  local().end = End::Asked;
  asm volatile("ebreak" ::: "memory");
  __builtin_unreachable();
}
// The same for a hart that has just left `context`: what it did there is what matters.
[[noreturn]] void leave_registers(const HartLocal& hart, const hal::Context& context);

// A hart that goes to sleep or to U-mode looks here first: when another hart is recording, nothing may change any more.
inline void park_if_panicking() {
  if (panicking()) [[unlikely]]
    leave_registers();
}

inline constexpr unsigned kExitPanic = 70;

}  // namespace riscv
