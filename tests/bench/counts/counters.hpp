// SPDX-License-Identifier: Apache-2.0
// What the counting plugin and the program that reads its counts share: a file that both map. The emulator's thread of
// hart 0 writes, relaxed and without waiting; who reads gets values that are at most a few instructions old.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace counts {

// Kinds of work that hart 0's emulation is made of.
//   blocks        translated blocks that were executed
//   instructions  of the guest
//   lookups       jumps whose target the emulator had to look up: indirect ones (every return, vsetvli), and those that leave the
//                 page of the block they come from
//   misses        lookups that its directly mapped cache of 4096 targets did not answer
struct Totals {
  std::uint64_t blocks = 0;
  std::uint64_t instructions = 0;
  std::uint64_t lookups = 0;
  std::uint64_t misses = 0;

  friend Totals operator-(const Totals& a, const Totals& b) {
    return {a.blocks - b.blocks, a.instructions - b.instructions, a.lookups - b.lookups, a.misses - b.misses};
  }
};

// One translated block. An address can have several: translated again after a flush, or with other privileges.
struct Row {
  std::atomic<std::uint64_t> address;
  std::atomic<std::uint64_t> instructions;  // in it
  std::atomic<std::uint64_t> executed;
  std::atomic<std::uint64_t> lookups;
  std::atomic<std::uint64_t> misses;

  Totals totals() const {
    const std::uint64_t times = executed.load(std::memory_order_relaxed);
    return {times, times * instructions.load(std::memory_order_relaxed), lookups.load(std::memory_order_relaxed),
            misses.load(std::memory_order_relaxed)};
  }
};

inline constexpr std::size_t kMaxRows = 65'536;  // a boot and all of this program's work translate about 5 000

struct Table {
  // Address of the block that an iteration of hart 0's loop begins with; 0: none. The reader sets it, and `longest` to
  // 0.
  std::atomic<std::uint64_t> iteration;
  std::atomic<std::uint64_t> longest;  // instructions between two of those
  std::atomic<std::uint64_t> rows;     // in use; what finds no room is not counted, and `overflow` says so
  std::atomic<std::uint64_t> overflow;
  std::array<Row, kMaxRows> row;
};

}  // namespace counts
