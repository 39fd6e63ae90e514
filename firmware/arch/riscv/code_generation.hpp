// SPDX-License-Identifier: Apache-2.0
// Instruction fetch and new code: fence.i acts on the hart that executes it, so every hart executes one before it
// enters a kernel when code was copied since its last one. (The emulator finds changed code by itself; hardware does
// not.)
#pragma once

#include <atomic>
#include <cstdint>

#include "firmware/arch/riscv/hart_local.hpp"

namespace riscv {

inline constinit std::atomic<std::uint64_t> code_generation{0};

inline void fetch_new_code(HartLocal& hart) {
  const std::uint64_t generation = code_generation.load(std::memory_order_acquire);
  if (hart.code_generation == generation) return;
  asm volatile("fence.i" ::: "memory");
  hart.code_generation = generation;
}

}  // namespace riscv
