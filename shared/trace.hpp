// SPDX-License-Identifier: Apache-2.0
// What the card tells of its own work: a ring in the window of each function (kTraceRing), written while the function's
// driver wants it (TRACE). The card never reads it. It overwrites the oldest entries; the driver knows by the numbers
// how many it has missed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/units.hpp"
#include "shared/window.hpp"

namespace wire {

// Numbers are append-only.
enum class TraceKind : std::uint16_t {
  None = 0,
  Queued = 1,  // a block was taken from the ring, at `begin`
  Slice = 2,   // a core ran a kernel from `begin` to `end`
  Mark = 3,    // a kernel's mark (KernelCall::TraceMark), `value`
  Lost = 4,    // `value` entries of cores found no room on the card
  Ahead = 5,   // hart 0 moved the `value` bytes of a DMA (kDmaAhead) while the COMPUTE in front of it ran
  Array = 6,   // a core asked the compute array for a request of kind `value` (wire::array::Kind)
};
inline constexpr TraceKind kLastTraceKind = TraceKind::Array;

struct TraceEntry {
  std::uint64_t number;  // 1, 2, 3, … since TRACE; stored last, and 0 while the entry is written
  std::uint64_t begin;   // device ticks
  std::uint64_t end;     // of what takes no time: as `begin`
  std::uint64_t sequence;
  std::uint64_t value;
  std::uint32_t stream;
  TraceKind kind;
  std::uint16_t core;
  std::uint64_t reserved[2];
};
static_assert(sizeof(TraceEntry) == 64 && offsetof(TraceEntry, number) == 0);

// Entry n lies in place (n - 1) % kTraceEntries.
inline constexpr std::uint64_t kTraceEntries = kTraceRing.bytes / sizeof(TraceEntry);
static_assert(kTraceEntries == 8192);

}  // namespace wire
