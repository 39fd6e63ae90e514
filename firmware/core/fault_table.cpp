// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/fault_table.hpp"

#include <algorithm>

#include "firmware/core/launch_limits.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/kernel_abi.hpp"
#include "shared/window.hpp"

namespace fw {

using wire::FaultAction;
using wire::FaultPoint;
using wire::Field;
using wire::Status;

namespace {

Verdict refused(Status status) { return {status, Field::AdminFault}; }

// The conditions of slices, and the segment.
Status judge_slice(const wire::FaultSpec& spec) {
  const wire::FaultTrigger& trigger = spec.trigger;
  if (trigger.core != wire::kAnyCore && !wire::knows_core(spec.point)) return Status::Unsupported;
  if (trigger.core != wire::kAnyCore && trigger.core >= kMaxCores) return Status::OutOfBounds;
  if (trigger.progress != wire::kAnyProgress && !wire::knows_progress(spec.point)) return Status::Unsupported;
  if (trigger.waiting != 0 && !wire::knows_waiting(spec.point)) return Status::Unsupported;
  if (trigger.waiting >= kMaxCores) return Status::BadCount;
  const std::uint32_t segments = spec.action == FaultAction::FlipSegment ? wire::kSegments : 1;
  return spec.segment < segments ? Status::None : Status::OutOfBounds;
}

}  // namespace

// ---- firing ---------------------------------------------------------------------------------------------------------

bool FaultTable::matches(const Row& row, const Occurrence& occurrence) {
  const wire::FaultSpec& spec = row.spec;
  const wire::FaultTrigger& trigger = spec.trigger;
  const auto aimed_at = [&](std::uint32_t function) {
    return wire::matches(trigger, function, occurrence.stream, occurrence.opcode, occurrence.sequence);
  };
  if (!aimed_at(occurrence.function) && !(mutated(Mutant::FaultFunction) && aimed_at(trigger.function))) return false;
  const bool there = wire::matches_slice(trigger, occurrence.core, occurrence.progress);
  if (there == mutated(Mutant::FaultPlace)) return false;
  if (trigger.not_before != 0 && hal::now() < trigger.not_before) return false;
  if (spec.action == FaultAction::FlipSegment && (occurrence.segments >> spec.segment & 1) == 0) return false;
  if (spec.point == FaultPoint::RegionEntry && spec.region_id != 0 && spec.region_id != occurrence.region_id) {
    return false;
  }
  return spec.point != FaultPoint::Memory ||
         (row.place >= occurrence.memory_begin && row.place < occurrence.memory_end);
}

// Two cores of a launch that are held would wait for each other.
bool FaultTable::can_hold(const Row& row, const Occurrence& occurrence) const {
  if (occurrence.part == 0 || row.spec.trigger.waiting > occurrence.others) return false;
  const std::uint64_t launch = occurrence.part / kMaxCores;
  return std::ranges::none_of(
      rows_, [&](const Row& other) { return &other != &row && other.used && other.held / kMaxCores == launch; });
}

// Whether the occurrence counts, and is the one that fires now, or once enough cores wait. One that is held has been
// counted before.
bool FaultTable::counts(Row& row, const Occurrence& occurrence) const {
  const std::uint32_t waiting = row.spec.trigger.waiting;
  if (waiting == 0) {
    ++row.evidence.counted;
  } else if (mutated(Mutant::FaultHeld)) {
    if (occurrence.waiting >= waiting) return false;
    ++row.evidence.counted;
  } else if (row.held == 0) {
    if (!can_hold(row, occurrence)) return false;
    ++row.evidence.counted;
  } else if (row.held != occurrence.part) {
    return false;
  } else if (!can_hold(row, occurrence)) {
    row.held = 0;
    --row.evidence.counted;
    return false;
  }
  return row.evidence.counted == wire::next_firing(row.spec.trigger, row.evidence.fired);
}

std::optional<Shot> FaultTable::occur(FaultPoint point, const Occurrence& occurrence) {
  const hal::LockGuard guard(lock_);
  for (Row& row : rows_) {
    if (!row.used || row.spec.point != point || !matches(row, occurrence)) continue;
    wire::FaultEvidence& evidence = row.evidence;
    if (!counts(row, occurrence)) continue;
    const bool held = occurrence.waiting < row.spec.trigger.waiting && !mutated(Mutant::FaultHeld);
    if (held) {
      row.held = occurrence.part;
      return Shot{.action = row.spec.action, .argument = 0, .place = 0, .segment = 0, .held = true};
    }
    row.held = 0;
    if (occurrence.part != 0) release(occurrence.part);
    ++evidence.fired;
    evidence.last_time = hal::now();
    if (evidence.first_time == 0) evidence.first_time = evidence.last_time;
    evidence.function = occurrence.function;
    evidence.stream = occurrence.stream;
    evidence.sequence = occurrence.sequence;
    evidence.hart = hal::hart_id();
    evidence.progress = occurrence.progress;
    evidence.waiting = occurrence.waiting;
    hal::note(wire::RecordedEventKind::FaultFired, static_cast<std::uint32_t>(point),
              static_cast<std::uint64_t>(row.spec.action));
    return Shot{row.spec.action, row.spec.argument, row.place, row.spec.segment};
  }
  return std::nullopt;
}

// ---- commands -------------------------------------------------------------------------------------------------------

Verdict FaultTable::judge(const wire::FaultSpec& spec, std::uint32_t functions) {
  if (spec.fault >= wire::kFaultRows) return refused(Status::OutOfBounds);
  if (spec.reserved1 != 0) return refused(Status::ReservedBits);
  if (!wire::makes_sense(spec.point, spec.action)) return refused(Status::Unsupported);
  if (spec.trigger.function != wire::kAnyFunction && spec.trigger.function >= functions)
    return refused(Status::UnknownFunction);
  if (spec.trigger.stream != wire::kAnyStream && spec.trigger.stream >= wire::kStreamsPerFunction) {
    return refused(Status::UnknownStream);
  }
  if (spec.trigger.first == 0) return refused(Status::BadCount);
  if (const Status status = judge_slice(spec); status != Status::None) return refused(status);
  // To be so many times as long is at least to be twice as long, and the product of it and a slice counts ticks.
  constexpr std::uint64_t kMostTimes = 1'000'000;
  if (spec.action == FaultAction::Slow && (spec.argument < 2 || spec.argument > kMostTimes)) {
    return refused(Status::BadCount);
  }
  const bool of_a_place = spec.point == FaultPoint::Memory || spec.point == FaultPoint::RegionEntry;
  if (!of_a_place && spec.region_id != 0) return refused(Status::UnknownRegion);
  if (spec.point != FaultPoint::Memory && spec.offset != 0) return refused(Status::OutOfBounds);
  // A place is a place of somebody.
  if (spec.point == FaultPoint::Memory && (spec.trigger.function == wire::kAnyFunction || spec.trigger.function == 0)) {
    return refused(Status::UnknownFunction);
  }
  return {};
}

wire::FaultEvidence FaultTable::evidence_of(const Row& row) {
  wire::FaultEvidence evidence = row.evidence;
  evidence.armed = wire::next_firing(row.spec.trigger, evidence.fired) != 0 ? 1 : 0;
  return evidence;
}

void FaultTable::publish_points() {
  std::uint64_t points = 0;
  for (const Row& row : rows_) {
    if (row.used) points |= point_bit(row.spec.point);
  }
  points_.store(points, std::memory_order_relaxed);
}

Verdict FaultTable::arm(const wire::FaultSpec& spec, hal::PhysicalAddress place) {
  const hal::LockGuard guard(lock_);
  Row& row = rows_[spec.fault];
  if (row.used) return refused(Status::Busy);
  row = {true, spec, place, {}, 0};
  row.evidence.stream = wire::kAnyStream;
  row.evidence.progress = wire::kAnyProgress;
  publish_points();
  return {};
}

Verdict FaultTable::query(std::uint32_t index, wire::FaultEvidence& evidence) const {
  if (index >= wire::kFaultRows) return refused(Status::OutOfBounds);
  const hal::LockGuard guard(lock_);
  if (!rows_[index].used) return refused(Status::NotArmed);
  evidence = evidence_of(rows_[index]);
  return {};
}

Verdict FaultTable::disarm(std::uint32_t index, wire::FaultEvidence& evidence) {
  if (index >= wire::kFaultRows) return refused(Status::OutOfBounds);
  const hal::LockGuard guard(lock_);
  if (!rows_[index].used) return refused(Status::NotArmed);
  evidence = evidence_of(rows_[index]);
  evidence.armed = 0;
  rows_[index].used = mutated(Mutant::FaultDisarmed);
  publish_points();
  return {};
}

void FaultTable::let_go(std::uint64_t part) {
  const hal::LockGuard guard(lock_);
  release(part);
}

void FaultTable::release(std::uint64_t part) {
  for (Row& row : rows_) {
    if (!row.used || row.held != part) continue;
    row.held = 0;
    --row.evidence.counted;
  }
}

void FaultTable::disarm_all() {
  const hal::LockGuard guard(lock_);
  for (Row& row : rows_) row.used = false;
  publish_points();
}

}  // namespace fw
