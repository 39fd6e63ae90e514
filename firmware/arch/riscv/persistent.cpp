// SPDX-License-Identifier: Apache-2.0
#include "firmware/arch/riscv/persistent.hpp"

#include "firmware/hal/board.hpp"

namespace riscv {

void persistent_initialize() {
  PersistentMemory& memory = persistent_memory();
  if (memory.magic != PersistentMemory::kMagic) {
    memory = {};
    memory.magic = PersistentMemory::kMagic;
  }
  ++memory.boot_count;
}

}  // namespace riscv

namespace hal {

std::byte* persistent() { return __persistent_begin + riscv::PersistentMemory::kReservedBytes; }

std::uint64_t persistent_bytes() {
  return static_cast<std::uint64_t>(__persistent_end - __persistent_begin) - riscv::PersistentMemory::kReservedBytes;
}

}  // namespace hal
