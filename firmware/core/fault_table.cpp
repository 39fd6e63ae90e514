// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/fault_table.hpp"

#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "shared/kernel_abi.hpp"
#include "shared/window.hpp"

namespace fw {

using wire::FaultAction;
using wire::FaultPoint;
using wire::Field;
using wire::Status;

namespace {

Verdict refused(Status status) { return {status, Field::AdminFault}; }

}  // namespace

// ---- firing -------------------------------------------------------------------------------------------------------------

bool FaultTable::matches(const Row& row, const Occurrence& occurrence) {
  const wire::FaultSpec& spec = row.spec;
  if (spec.function != wire::kAnyFunction && spec.function != occurrence.function) return false;
  if (spec.stream != wire::kAnyStream && spec.stream != occurrence.stream) return false;
  if (spec.opcode != wire::kAnyOpcode && spec.opcode != occurrence.opcode) return false;
  if (spec.sequence != 0 && spec.sequence != occurrence.sequence) return false;
  if (spec.not_before != 0 && hal::now() < spec.not_before) return false;
  if (spec.point == FaultPoint::RegionEntry && spec.region_id != 0 && spec.region_id != occurrence.region_id) {
    return false;
  }
  return spec.point != FaultPoint::Memory ||
         (row.place >= occurrence.memory_begin && row.place < occurrence.memory_end);
}

bool FaultTable::may_fire(const Row& row) {
  const wire::FaultSpec& spec = row.spec;
  if (spec.shots != 0 && row.evidence.fired >= spec.shots) return false;
  return spec.every != 0 || row.evidence.counted < spec.first;
}

// Of the occurrence that was counted last.
bool FaultTable::due(const Row& row) {
  const wire::FaultSpec& spec = row.spec;
  const std::uint64_t counted = row.evidence.counted;
  if (counted < spec.first || (spec.shots != 0 && row.evidence.fired >= spec.shots)) return false;
  return counted == spec.first || (spec.every != 0 && (counted - spec.first) % spec.every == 0);
}

std::optional<Shot> FaultTable::occur(FaultPoint point, const Occurrence& occurrence) {
  const LockGuard guard(lock_);
  for (Row& row : rows_) {
    if (!row.used || row.spec.point != point || !matches(row, occurrence)) continue;
    wire::FaultEvidence& evidence = row.evidence;
    ++evidence.counted;
    if (!due(row)) continue;
    ++evidence.fired;
    evidence.last_time = hal::now();
    if (evidence.first_time == 0) evidence.first_time = evidence.last_time;
    evidence.function = occurrence.function;
    evidence.stream = occurrence.stream;
    evidence.sequence = occurrence.sequence;
    evidence.hart = hal::hart_id();
    hal::note(wire::RecordedEventKind::FaultFired, static_cast<std::uint32_t>(point),
              static_cast<std::uint64_t>(row.spec.action));
    return Shot{row.spec.action, row.spec.argument, row.place};
  }
  return std::nullopt;
}

// ---- commands -----------------------------------------------------------------------------------------------------------

Verdict FaultTable::judge(const wire::FaultSpec& spec, std::uint32_t functions) {
  if (spec.fault >= wire::kFaultRows) return refused(Status::OutOfBounds);
  if (spec.reserved0 != 0) return refused(Status::ReservedBits);
  if (!wire::makes_sense(spec.point, spec.action)) return refused(Status::Unsupported);
  if (spec.function != wire::kAnyFunction && spec.function >= functions) return refused(Status::UnknownFunction);
  if (spec.stream != wire::kAnyStream && spec.stream >= wire::kStreamsPerFunction) {
    return refused(Status::UnknownStream);
  }
  if (spec.first == 0) return refused(Status::BadCount);
  // To be so many times as long is at least to be twice as long, and the product of it and a slice counts ticks.
  constexpr std::uint64_t kMostTimes = 1'000'000;
  if (spec.action == FaultAction::Slow && (spec.argument < 2 || spec.argument > kMostTimes)) {
    return refused(Status::BadCount);
  }
  const bool of_a_place = spec.point == FaultPoint::Memory || spec.point == FaultPoint::RegionEntry;
  if (!of_a_place && spec.region_id != 0) return refused(Status::UnknownRegion);
  if (spec.point != FaultPoint::Memory && spec.offset != 0) return refused(Status::OutOfBounds);
  // A place is a place of somebody.
  if (spec.point == FaultPoint::Memory && (spec.function == wire::kAnyFunction || spec.function == 0)) {
    return refused(Status::UnknownFunction);
  }
  return {};
}

wire::FaultEvidence FaultTable::evidence_of(const Row& row) {
  wire::FaultEvidence evidence = row.evidence;
  evidence.armed = may_fire(row) ? 1 : 0;
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
  const LockGuard guard(lock_);
  Row& row = rows_[spec.fault];
  if (row.used) return refused(Status::Busy);
  row = {true, spec, place, {}};
  row.evidence.stream = wire::kAnyStream;
  publish_points();
  return {};
}

Verdict FaultTable::query(std::uint32_t index, wire::FaultEvidence& evidence) const {
  if (index >= wire::kFaultRows) return refused(Status::OutOfBounds);
  const LockGuard guard(lock_);
  if (!rows_[index].used) return refused(Status::NotArmed);
  evidence = evidence_of(rows_[index]);
  return {};
}

Verdict FaultTable::disarm(std::uint32_t index, wire::FaultEvidence& evidence) {
  if (index >= wire::kFaultRows) return refused(Status::OutOfBounds);
  const LockGuard guard(lock_);
  if (!rows_[index].used) return refused(Status::NotArmed);
  evidence = evidence_of(rows_[index]);
  evidence.armed = 0;
  rows_[index].used = false;
  publish_points();
  return {};
}

void FaultTable::disarm_all() {
  const LockGuard guard(lock_);
  for (Row& row : rows_) row.used = false;
  publish_points();
}

}  // namespace fw
