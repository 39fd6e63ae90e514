// SPDX-License-Identifier: Apache-2.0
// What each hart knows about itself. tp points to it whenever firmware code runs, so finding it costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "firmware/arch/riscv/layout.h"
#include "firmware/hal/context.hpp"
#include "shared/fatal_record.hpp"

namespace riscv {

enum class End : std::uint32_t { None, Assertion, Stuck, Asked };

struct alignas(HART_LOCAL_BYTES) HartLocal {
  // Used by trap.S at fixed places (layout.h).
  hal::Context* current;
  std::uint64_t stack_pointer;
  std::uint64_t trap_scratch[2];
  std::uint64_t status;
  std::uint64_t cause;
  std::uint64_t value;
  std::uint64_t argument;
  std::uint64_t recording;

  // Whose f and v state stands in the registers although another context or nobody runs. Null: nobody's. Written by
  // this hart; other harts may only set them to null, under unit_lock (forget_units_everywhere).
  hal::Context* float_owner;
  hal::Context* vector_owner;
  bool float_zero;   // f registers and fcsr are known to be zero
  bool vector_zero;  // v registers and their control are known to be zero
  // No context has been entered since the firmware took the v registers: no owner, units on, vstart 0. A null owner
  // alone says none of that: a kernel that has exited leaves its vstart behind.
  bool vector_ready;

  std::uint64_t unit_status;     // FS and VS as they stand in mstatus
  std::uint64_t root;            // satp as last written
  std::uint64_t armed_deadline;  // mtimecmp as last written
  std::uint64_t hart;
  std::uint64_t code_generation;  // of executable memory, when this hart last emptied its instruction cache
  std::uint32_t unit_lock;        // held while an owner's registers are saved, and by harts that drop an owner

  wire::Waypoint waypoint;  // written by this hart with hal::mark(), read by others (atomic_ref)
  // Why this hart stops itself (panic.hpp); None: a trap was not meant to be.
  End end;
  std::uint32_t stuck_hart;  // End::Stuck: the one that stands still
  const char* end_reason;
};
static_assert(sizeof(HartLocal) == HART_LOCAL_BYTES);
static_assert(offsetof(HartLocal, current) == HART_CURRENT && offsetof(HartLocal, stack_pointer) == HART_SP);
static_assert(offsetof(HartLocal, trap_scratch) == HART_T0 && HART_T1 == HART_T0 + 8);
static_assert(offsetof(HartLocal, status) == HART_STATUS && offsetof(HartLocal, cause) == HART_CAUSE);
static_assert(offsetof(HartLocal, value) == HART_VALUE && offsetof(HartLocal, argument) == HART_ARGUMENT);
static_assert(offsetof(HartLocal, recording) == HART_RECORDING);

inline constexpr std::uint64_t kNoRoot = ~std::uint64_t{0};  // a value of `root` that equals no table

// Not volatile: tp never changes while C++ code runs.
inline HartLocal& local() {
  HartLocal* pointer;
  asm("mv %0, tp" : "=r"(pointer));
  return *pointer;
}

}  // namespace riscv
