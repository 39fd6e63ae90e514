// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// The DMA engine of the compute array (shared/array.hpp): moves of bytes that the firmware asks for, and nobody else.
// docs/array.md describes the contract.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/units.hpp"

namespace wire::array {

// `slti x0, x0, 0x5A3`. Counts in the firmware's code only, on the hart that has greeted the array.
inline constexpr std::uint32_t kMoveHint = 0x5A302013;

// Addresses are physical: of the card's memory, or of a window that has been shown. Reads reach both. Writes reach
// windows and the memory of regions, none of which is ever executed: the emulator does not notice that code has changed
// unless its own stores change it.
enum class MoveKind : std::uint32_t {
  None = 0,
  Copy = 1,      // `bytes` from `from` to `to`, which do not overlap
  Fill = 2,      // `pattern` again and again over `bytes` at `to`, little-endian, beginning there
  Checksum = 3,  // continues the CRC32C in `pattern` over `bytes` at `from`
  Elements = 4,  // rows of elements: no element of one side lies in one of the other
  // A window comes: the array puts a number into `pattern`, the firmware writes that into the window's header
  // (WindowHeader::array_nonce) and shows the window. That is how the array finds the memory behind it. The number is
  // secret until then: no other owner's window has it.
  Nonce = 5,
  Show = 6,  // the window of `bytes` at `to`, with the number in `pattern` at byte `from` of it
  Hide = 7,  // the window at `to`
};

enum class MoveOutcome : std::uint32_t {
  None = 0,  // what the firmware writes before the hint
  Done = 1,
  Refused = 2,  // nothing was done
};

// In the firmware's memory, where Hello says. The array reads it once, and takes `kind` out: a hint that nothing was
// written for does nothing.
struct Move {
  MoveKind kind;
  MoveOutcome outcome;
  std::uint64_t to;
  std::uint64_t from;
  std::uint64_t bytes;
  std::uint64_t pattern;
  // Elements: of 1, 2, 4 or 8 bytes. From one element of a row to the next, and from one row to the next, in bytes; the
  // first ones lie at `to` and `from`.
  std::uint32_t element_bytes;
  std::uint32_t streamed;  // Copy, 1: a part of so much that it need not come into the host's caches
  std::uint64_t elements;  // of each row
  std::uint64_t rows;
  std::int64_t to_step;
  std::int64_t from_step;
  std::int64_t to_row_step;
  std::int64_t from_row_step;
  std::uint64_t reserved1[4];
};
static_assert(sizeof(Move) == kStickBytes);

// Of one move: what memory that is not cached takes some 50 µs for.
inline constexpr std::uint64_t kMaxMoveBytes = 256 * kKiB;
inline constexpr std::uint64_t kMaxElements = 16384;        // of all rows, when they do not lie one behind the other
inline constexpr std::uint64_t kMaxMoveStep = 1024 * kGiB;  // of a step, either way

}  // namespace wire::array
