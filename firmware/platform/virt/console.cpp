// SPDX-License-Identifier: Apache-2.0
// hal::log on the board's 16550 UART.
#include "firmware/arch/riscv/mmio.hpp"
#include "firmware/arch/riscv/panic.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory_map.h"
#include "firmware/hal/spin_lock.hpp"

namespace {

constexpr std::uint64_t kTransmit = UART_BASE;
constexpr std::uint64_t kLineStatus = UART_BASE + 5;
constexpr std::uint8_t kTransmitEmpty = 1 << 5;
// The emulator normally takes a byte at once. A console that nobody reads may not stop the card: after this many
// looks (about 100 ns each) the byte is dropped.
constexpr unsigned kMostLooks = 10'000;

constinit hal::SpinLock one_line_at_a_time;

void put(char character) {
  for (unsigned look = 0; look < kMostLooks; ++look) {
    if (riscv::mmio_read8(kLineStatus) & kTransmitEmpty) {
      riscv::mmio_write8(kTransmit, static_cast<std::uint8_t>(character));
      return;
    }
  }
}

}  // namespace

void hal::log(const char* line) {
  // The hart that records a panic writes past the lock: its holder may be the one that broke.
  const bool locked = !riscv::panicking();
  if (locked) one_line_at_a_time.lock();
  for (; *line != 0; ++line) put(*line);
  put('\n');
  if (locked) one_line_at_a_time.unlock();
}
