// SPDX-License-Identifier: Apache-2.0
// Memory that a warm reset leaves alone (link.ld). The first pages belong to the start-up code, the rest to core/.
#pragma once

#include <cstdint>

#include "firmware/arch/riscv/panic.hpp"

namespace riscv {

struct PersistentMemory {
  static constexpr std::uint64_t kMagic = 0x31545352454B5053;
  static constexpr std::uint64_t kReservedBytes = 64 * 1024;

  std::uint64_t magic;       // anything else: the card has been off
  std::uint64_t boot_count;  // 1 after power-on, one more after each warm reset
  PanicRecord panic;
};
static_assert(sizeof(PersistentMemory) <= PersistentMemory::kReservedBytes);

inline PersistentMemory& persistent_memory() { return *reinterpret_cast<PersistentMemory*>(__persistent_begin); }

// Once per boot: tells a warm reset from a power-on and counts.
void persistent_initialize();

}  // namespace riscv
