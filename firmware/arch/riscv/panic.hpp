// SPDX-License-Identifier: Apache-2.0
// The end of a firmware that found itself broken: one hart records and ends the card, the others stop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "firmware/arch/riscv/assembly.hpp"

namespace riscv {

// What a dead firmware leaves at the beginning of persistent memory. It survives a warm reset; the next boot (or the
// owner of the emulator, by reading guest memory) finds it. Valid when magic and CRC match.
struct PanicRecord {
  static constexpr std::uint64_t kMagic = 0x31434E5041525953;  // "SYRAPNC1"
  static constexpr std::uint64_t kNoCause = ~std::uint64_t{0};

  std::uint64_t magic;
  std::uint32_t bytes;
  std::uint32_t crc32c;  // over the record with this field zero
  std::uint64_t boot_count;
  std::uint64_t time;  // device ticks
  std::uint64_t hart;
  std::uint64_t cause;  // mcause; kNoCause when the firmware stopped itself
  std::uint64_t pc;     // mepc, or where panic() was called
  std::uint64_t value;  // mtval
  std::uint64_t status;
  std::uint64_t x[32];  // integer registers of a trap; zero when the firmware stopped itself
  char reason[128];
};

// Writes the record of a firmware that stops itself, without stopping it.
void leave_record(const char* reason);

// The record of an earlier life, or null.
const PanicRecord* previous_panic();

inline bool panicking() { return std::atomic_ref(riscv_panic_winner).load(std::memory_order_relaxed) != 0; }

// A hart that goes to sleep or to U-mode looks here first: when another hart is recording, nothing may change any more.
inline void park_if_panicking() {
  if (panicking()) [[unlikely]]
    riscv_park();
}

inline constexpr unsigned kExitPanic = 70;

}  // namespace riscv
