// SPDX-License-Identifier: Apache-2.0
// The native build's board: implements firmware/hal on the host, so that firmware/core runs under sanitizers, fuzzers
// and in microsecond tests. Harts are threads; card memory is a sparse mapping; windows are memory that the test also
// holds. No RV64 kernel can run here: unless the test gives a function that plays kernels, hal::contexts_supported() is
// false and COMPUTE is refused. QEMU is the truth; this is a second way to test the same source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "firmware/hal/context.hpp"
#include "shared/fatal_record.hpp"

namespace native {

// Plays one slice of a kernel: called by hal::run() on the hart's thread, says why the kernel stopped. The context
// holds what hal::start() was given: integer[0] root, [1] entry, [2] stack end, [3] argument; [4] is what
// hal::answer() said last; the rest is the player's own.
using KernelPlayer = std::function<hal::Stop(hal::Context& context, std::uint64_t slice_ticks)>;

// Time that passes by work alone, the same on every machine: what a test counts in ticks is exact. For boards whose
// harts are all played by one thread. A slice takes what its player says (Stop::ran_ticks), a sleep lasts to its
// deadline.
struct WorkClock {
  std::uint64_t moved_bytes_per_tick = 500;  // copies and fills, at 5 GB/s
  std::uint64_t summed_bytes_per_tick = 25;  // checksums
  std::uint64_t reading_ticks = 1;           // of the clock itself
};

struct BoardOptions {
  unsigned harts = 1;
  std::vector<std::span<std::byte>> windows{};  // one per fixed slot; zeroed by the caller
  unsigned ports = 0;                           // renewable slots behind them, all empty
  std::uint64_t region_bytes = std::uint64_t{1} << 30;
  std::string boot_arguments{};
  // The card signals a peer of a fixed slot's doorbell device. Called from the hart's thread.
  std::function<void(unsigned slot, std::uint32_t peer)> on_signal = [](unsigned, std::uint32_t) {};
  // The card unplugged what was in this slot.
  std::function<void(unsigned slot)> on_unplug = [](unsigned) {};
  // hal::note(), on the thread of the hart that notes.
  std::function<void(wire::RecordedEventKind kind, std::uint32_t a, std::uint64_t b)> on_note{};
  KernelPlayer kernel{};
  std::optional<WorkClock> clock{};                    // nullopt: the machine's
  std::uint64_t page_bytes = std::uint64_t{64} << 20;  // firmware memory for hal::allocate_pages()
};

// At most one board exists at a time: hal is a set of free functions, as on the card.
class Board {
 public:
  explicit Board(BoardOptions options);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // The owner of a slot rings the card: ends the sleep of hart 0.
  void doorbell();
  // Plugs a window, zeroed by the caller, into an empty renewable slot. While no hart runs.
  void plug(unsigned slot, std::span<std::byte> window);
  bool plugged(unsigned slot) const;
  // Of the next boot.
  void set_boot_arguments(std::string arguments);
  // What hal::previous_record() returns from now on.
  void leave_record(const wire::FatalRecord& record);
  // Card memory, for tests that look behind the firmware's back.
  std::span<std::byte> region_memory();

  // Sleeps of hart 0 that no doorbell and no wake() ended: they ran into their deadline, or, when that is further away,
  // into the bound that every sleep has here. The latter means a lost wake-up.
  std::uint64_t overslept() const;
  // What hal::map() and hal::fill() made of a virtual address; nullptr when nothing is mapped there.
  std::byte* translate(std::uint64_t root, std::uint64_t virtual_address) const;
  // Pages that are allocated and not freed.
  std::uint64_t pages_in_use() const;
};

// Names the calling thread as a hart; hart 0 unless called.
void become_hart(unsigned hart);

}  // namespace native
