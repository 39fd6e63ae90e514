// SPDX-License-Identifier: Apache-2.0
// Faults that M has armed (FAULT_ARM, shared/fault.hpp): at most wire::kFaultRows, none after a boot. Code that can be
// broken asks armed(), which is one load and one branch, and only then describes the occurrence.
//
// Threading: hart 0 arms and disarms; any hart asks armed() and occur().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "firmware/core/stream.hpp"
#include "firmware/hal/memory.hpp"
#include "firmware/hal/spin_lock.hpp"
#include "shared/control_block.hpp"
#include "shared/fault.hpp"

namespace fw {

// What happened at a point. Where the point has no stream or opcode, these stay as they are, and only faults that name
// none match.
struct Occurrence {
  std::uint32_t function = 0;  // wire::Target; 0 for what is of the whole card
  std::uint32_t stream = wire::kAnyStream;
  std::uint32_t opcode = wire::kAnyOpcode;  // AdminReply: the admin command
  std::uint32_t segments = 0;               // Kernel: bits, those that the launch has
  std::uint64_t sequence = 0;
  std::uint64_t region_id = 0;            // RegionEntry
  hal::PhysicalAddress memory_begin = 0;  // Memory: what is touched
  hal::PhysicalAddress memory_end = 0;
  // Kernel; the core also of the other two of a part of a launch.
  std::uint32_t core = wire::kAnyCore;
  std::uint32_t progress = wire::kAnyProgress;  // what the kernel is at; kAnyProgress: it does not say
  std::uint32_t waiting = 0;                    // cores of the launch at the barrier
  std::uint32_t others = 0;                     // cores of it that can still come to one, with those
  std::uint64_t part = 0;                       // names part and launch; 0: one that can not be held
};
static_assert(wire::kSegments <= 32);

// What a fault that fires does.
struct Shot {
  wire::FaultAction action;
  std::uint64_t argument;
  hal::PhysicalAddress place;  // Memory: the damaged byte
  std::uint16_t segment;       // FlipSegment
  bool held = false;           // not yet: the slice has to wait, and the occurrence comes again
};

constexpr std::uint64_t point_bit(wire::FaultPoint point) { return std::uint64_t{1} << static_cast<unsigned>(point); }

class FaultTable {
 public:
  // A row is taken: true until it is disarmed, also when all its shots are fired.
  bool armed(wire::FaultPoint point) const { return armed_any(point_bit(point)); }

  // The same for several at once; `points` is a sum of point_bit().
  bool armed_any([[maybe_unused]] std::uint64_t points) const {
#ifdef SPYRE_WITHOUT_FAULT_POINTS  // scripts/bench-disarmed: what the question costs
    return false;
#else
    return (points_.load(std::memory_order_relaxed) & points) != 0;
#endif
  }

  // Counts the occurrence in every row that it matches, first row first, until one fires: what is broken already is no
  // occurrence for the rows behind.
  [[gnu::cold, gnu::noinline]] std::optional<Shot> occur(wire::FaultPoint point, const Occurrence& occurrence);

  // The commands. `place` is where a Memory fault lies, resolved by the caller. All verdicts name Field::AdminFault.
  Verdict arm(const wire::FaultSpec& spec, hal::PhysicalAddress place);
  Verdict query(std::uint32_t row, wire::FaultEvidence& evidence) const;
  Verdict disarm(std::uint32_t row, wire::FaultEvidence& evidence);
  void disarm_all();
  // A part that may be held has ended without the fault.
  [[gnu::cold, gnu::noinline]] void let_go(std::uint64_t part);

  // Whether a spec can be armed at all, on a card with so many functions. Its row may still be taken.
  static Verdict judge(const wire::FaultSpec& spec, std::uint32_t functions);

 private:
  struct Row {
    bool used;
    wire::FaultSpec spec;
    hal::PhysicalAddress place;
    wire::FaultEvidence evidence;
    std::uint64_t held;  // Occurrence::part; 0: none
  };
  static_assert(static_cast<unsigned>(wire::FaultPoint::Memory) < 64, "points are bits of a word");

  static bool matches(const Row& row, const Occurrence& occurrence);
  bool can_hold(const Row& row, const Occurrence& occurrence) const;
  bool counts(Row& row, const Occurrence& occurrence) const;
  static wire::FaultEvidence evidence_of(const Row& row);
  void release(std::uint64_t part);
  void publish_points();

  std::atomic<std::uint64_t> points_{0};
  mutable hal::SpinLock lock_;
  std::array<Row, wire::kFaultRows> rows_{};
};

}  // namespace fw
