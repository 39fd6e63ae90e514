// SPDX-License-Identifier: Apache-2.0
// What trap.S, start.S and vector_unit.S offer to C++, and what they call. Each is described beside its code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "firmware/arch/riscv/hart_local.hpp"
#include "firmware/hal/context.hpp"

namespace riscv {

struct TrapFrame {
  std::uint64_t x[32];
};
static_assert(sizeof(TrapFrame) == FRAME_BYTES);

}  // namespace riscv

extern "C" {

// Defined in assembly.
void _start();
void riscv_trap();
std::uint64_t riscv_enter(hal::Context* context);
[[noreturn]] void riscv_park();
void riscv_save_float(hal::Context* context);
void riscv_restore_float(const hal::Context* context);
void riscv_clear_float();
void riscv_save_vector(hal::Context* context);
void riscv_restore_vector(const hal::Context* context);
void riscv_clear_vector();
void riscv_vector_ready();
void riscv_vector_copy(std::byte* to, const std::byte* from, std::uint64_t bytes);
void riscv_vector_fill(std::byte* to, std::uint64_t pattern, std::uint64_t bytes);

// Called or used by assembly.
extern riscv::HartLocal riscv_hart_locals[MAX_HARTS];
void riscv_boot(std::uint64_t hart, const std::byte* device_tree);
void riscv_boot_further(std::uint64_t hart);
[[noreturn]] void riscv_firmware_trap(const riscv::TrapFrame* frame);

// Places of the linker script.
extern std::byte __text_begin[];
extern std::byte __data_begin[];
extern std::byte __build_id_begin[];
extern std::byte __build_id_end[];
extern std::byte __stacks_begin[];
extern std::byte __persistent_begin[];
extern std::byte __persistent_end[];
extern std::byte __arena_begin[];

}  // extern "C"
