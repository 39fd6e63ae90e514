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
  // Entries that are emptied in one go, and what that costs, in bytes of a copy: an eighth of the ring takes hart 0
  // about 20 µs.
  static constexpr std::uint32_t kEmptiedEntries = wire::kTraceEntries / 8;
  static constexpr std::uint64_t kEmptyingCost = 128 * wire::kKiB;

  // ---- hart 0

  // TRACE on: what the cores have left of this function until now is dropped, because it may be of its last owner, and
  // the ring in `window` is emptied part by part; then the function is on. Again while it is being emptied: nothing.
  void start(Owner function, std::span<std::byte> window);
  // Whether the ring of the function is being emptied.
  bool emptying(Owner function) const { return (emptying_ >> function & 1) != 0; }
  // emptying(): the next kEmptiedEntries entries.
  void empty_part(Owner function);
  void stop(Owner function) {
    on_ &= ~bit(function);
    emptying_ &= ~bit(function);
  }
  bool on(Owner function) const { return (on_ >> function & 1) != 0; }
  // The function is on. The entry's number is given here.
  void write(Owner function, const wire::TraceEntry& entry);
  // Moves what the cores have left into the windows of those functions that are still on.
  void drain();
  // Entries of a core that drain() has not moved yet.
  std::uint32_t queued(unsigned core) const {
    const Queue& queue = queues_[core];
    return queue.written.load(std::memory_order_acquire) - queue.read.load(std::memory_order_relaxed);
  }

  // ---- any hart

  // `core` is the caller's. An entry that finds no room is counted, and told by an entry `Lost`.
  void note(unsigned core, Owner function, const wire::TraceEntry& entry);

 private:
  // A slice of 1 ms may have fifty requests to the array, each of which ends a slice of its own.
  static constexpr std::uint32_t kQueued = 256;

  struct Ring {
    wire::TraceEntry* entries = nullptr;
    std::uint64_t next = 1;
    std::uint32_t emptied = 0;  // entries from the first on, while it is being emptied
  };
  static constexpr std::uint32_t bit(Owner function) { return std::uint32_t{1} << function; }
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

  std::uint32_t on_ = 0;        // bit f: function f
  std::uint32_t emptying_ = 0;  // likewise
  static_assert(kLaunchFunctions <= 32);
  std::array<Ring, kLaunchFunctions> rings_{};
  std::array<std::atomic<std::uint64_t>, kLaunchFunctions> lost_{};
  std::array<Queue, kMaxCores> queues_;
};

}  // namespace fw
