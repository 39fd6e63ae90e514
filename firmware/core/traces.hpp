// SPDX-License-Identifier: Apache-2.0
// The card's part of traces (shared/trace.hpp): for each function that wants it a ring in its window. Only hart 0
// writes windows, which may go away; other harts leave their entries in a queue of their own, which hart 0 empties.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "firmware/core/launch_limits.hpp"
#include "firmware/core/memory_shares.hpp"
#include "shared/trace.hpp"

namespace fw {

class Traces {
 public:
  // ---- hart 0

  // The ring in `window` is empty from here on.
  void start(Owner function, std::span<std::byte> window);
  void stop(Owner function) { on_ &= ~(std::uint32_t{1} << function); }
  bool on(Owner function) const { return (on_ >> function & 1) != 0; }
  // The function is on. The entry's number is given here.
  void write(Owner function, const wire::TraceEntry& entry);
  // Moves what the cores have left into the windows of those functions that are still on.
  void drain();

  // ---- any hart

  // `core` is the caller's. An entry that finds no room is counted, and told by an entry `Lost`.
  void note(unsigned core, Owner function, const wire::TraceEntry& entry);

 private:
  static constexpr std::uint32_t kQueued = 64;

  struct Ring {
    wire::TraceEntry* entries = nullptr;
    std::uint64_t next = 1;
  };
  // One core writes, hart 0 reads.
  struct Queue {
    struct Item {
      Owner function;
      wire::TraceEntry entry;
    };
    std::array<Item, kQueued> items;
    std::atomic<std::uint32_t> written{0};
    std::atomic<std::uint32_t> read{0};
  };

  std::uint32_t on_ = 0;  // bit f: function f
  static_assert(kLaunchFunctions <= 32);
  std::array<Ring, kLaunchFunctions> rings_{};
  std::array<std::atomic<std::uint64_t>, kLaunchFunctions> lost_{};
  std::array<Queue, kMaxCores> queues_;
};

}  // namespace fw
