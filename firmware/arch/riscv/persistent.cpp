// SPDX-License-Identifier: Apache-2.0
#include "firmware/arch/riscv/persistent.hpp"

#include "firmware/hal/board.hpp"
#include "firmware/hal/record.hpp"
#include "shared/crc32c.hpp"

namespace riscv {

namespace {

std::uint32_t counters_checksum(const PersistentMemory& memory) {
  return wire::crc32c(0, &memory.boot_count, sizeof memory.boot_count + sizeof memory.restarts_in_a_row);
}

void count(PersistentMemory& memory, std::uint64_t boots, std::uint64_t restarts) {
  memory.boot_count = boots;
  memory.restarts_in_a_row = restarts;
  memory.crc32c = counters_checksum(memory);
}

}  // namespace

void persistent_initialize() {
  PersistentMemory& memory = persistent_memory();
  const bool warm = memory.magic == PersistentMemory::kMagic && memory.crc32c == counters_checksum(memory);
  memory.magic = PersistentMemory::kMagic;
  count(memory, warm ? memory.boot_count + 1 : 1, warm ? memory.restarts_in_a_row : 0);
}

bool count_restart() {
  PersistentMemory& memory = persistent_memory();
  if (memory.restarts_in_a_row >= hal::kMostRestarts) return false;
  count(memory, memory.boot_count, memory.restarts_in_a_row + 1);
  return true;
}

}  // namespace riscv

namespace hal {

std::byte* persistent() { return __persistent_begin + riscv::PersistentMemory::kReservedBytes; }

std::uint64_t persistent_bytes() {
  return static_cast<std::uint64_t>(__persistent_end - __persistent_begin) - riscv::PersistentMemory::kReservedBytes;
}

void mark_boot_good() {
  riscv::PersistentMemory& memory = riscv::persistent_memory();
  if (memory.restarts_in_a_row != 0) riscv::count(memory, memory.boot_count, 0);
}

const wire::FatalRecord* previous_record() {
  const wire::FatalRecord& record = riscv::persistent_memory().record;
  return is_whole(record) ? &record : nullptr;
}

}  // namespace hal
