// SPDX-License-Identifier: Apache-2.0
// Memory that a warm reset leaves alone (link.ld). The first pages belong to the start-up code, the rest to core/.
#pragma once

#include <cstdint>

#include "firmware/arch/riscv/assembly.hpp"
#include "shared/fatal_record.hpp"

namespace riscv {

struct PersistentMemory {
  static constexpr std::uint64_t kMagic = 0x32545352454B5053;
  static constexpr std::uint64_t kReservedBytes = 64 * 1024;
  // Where the owner of the emulator reads the record of a card that hangs (host_driver/debug).
  static constexpr std::uint64_t kRecordOffset = 128;

  std::uint64_t magic;   // anything else, or a wrong checksum: the card has been off
  std::uint32_t crc32c;  // over boot_count and restarts_in_a_row
  std::uint32_t reserved0;
  std::uint64_t boot_count;         // 1 after power-on, one more after each warm reset
  std::uint64_t restarts_in_a_row;  // after a record, since a boot was good
  std::uint8_t reserved1[96];
  wire::FatalRecord record;
};
static_assert(sizeof(PersistentMemory) <= PersistentMemory::kReservedBytes);
static_assert(offsetof(PersistentMemory, record) == PersistentMemory::kRecordOffset);

inline PersistentMemory& persistent_memory() { return *reinterpret_cast<PersistentMemory*>(__persistent_begin); }

// Once per boot: tells a warm reset from a power-on and counts.
void persistent_initialize();

// One more restart after a record. False when there were too many in a row.
bool count_restart();

}  // namespace riscv
