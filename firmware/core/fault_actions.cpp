// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/fault_actions.hpp"

#include "firmware/core/admin.hpp"
#include "firmware/core/card.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::FaultAction;
using wire::FaultPoint;
using wire::Field;
using wire::Status;

void stand_still(std::uint64_t ticks) {
  const std::uint64_t began = hal::now();
  while (ticks == 0 || hal::now() - began < ticks) {
  }
}

void break_loop(Card& card) {
  if (card.faults.armed(FaultPoint::Dispatcher)) {
    if (const auto shot = card.faults.occur(FaultPoint::Dispatcher, {})) stand_still(shot->argument);
  }
  if (!card.faults.armed(FaultPoint::Firmware)) return;
  const auto shot = card.faults.occur(FaultPoint::Firmware, {});
  if (!shot) return;
  switch (shot->action) {
    case FaultAction::Trap: hal::break_by_trap();
    case FaultAction::StackOverflow: hal::break_by_stack_overflow();
    default: hal::panic("assertion failed: a fault was armed to fail it");
  }
}

bool reset_stalls(Card& card, Function& function, std::uint64_t now) {
  constexpr std::uint64_t kForEver = kNever - 1;
  if (function.reset.stall_end() == kNever) {
    const auto shot = card.faults.occur(FaultPoint::FunctionReset, {.function = function.id()});
    function.reset.stall_until(!shot ? now : shot->argument == 0 ? kForEver : now + shot->argument);
  }
  return now < function.reset.stall_end();
}

void damage_entries(Function& function, const Block& of) {
  const wire::ControlBlock& block = of.cb;
  const auto& header = block.header;
  const auto look_up = [&](std::uint64_t region_id) {
    const Occurrence occurrence{.function = function.id(),
                                .stream = header.stream,
                                .opcode = static_cast<std::uint32_t>(header.opcode),
                                .sequence = header.sequence,
                                .region_id = region_id};
    if (const auto shot = function.faults().occur(FaultPoint::RegionEntry, occurrence)) {
      function.regions.damage(region_id, shot->argument);
    }
  };
  const auto look_up_end = [&](const wire::Endpoint& end) {
    if (end.kind == wire::EndpointKind::Region) look_up(end.region_id);
  };
  switch (header.opcode) {
    case wire::Opcode::Fill: return look_up_end(block.payload.fill.destination);
    case wire::Opcode::Dma: look_up_end(block.payload.dma.source); return look_up_end(block.payload.dma.destination);
    case wire::Opcode::Compute:
      look_up_end(compute_of(of).image);
      for (const wire::Segment& segment : compute_of(of).segments) {
        if (segment.access != wire::kSegmentUnused) look_up(segment.region_id);
      }
      return;
    default: return;
  }
}

// ---- memory ---------------------------------------------------------------------------------------------------------

namespace {

struct StreamName {
  std::uint32_t stream;
  std::uint32_t incarnation;
};

void tell_memory_error(Card& card, Function& function, StreamName of, wire::EventKind kind, std::uint64_t count) {
  wire::DeviceEvent event{};
  event.kind = kind;
  event.stream = of.stream;
  event.incarnation = of.incarnation;
  event.status = kind == wire::EventKind::MemoryRetired ? Status::UncorrectableMemory : Status::None;
  event.time = hal::now();
  event.argument = count;
  event.target = function.id();
  post_event(function, event);
  if (mutated(Mutant::MemoryTold)) return;
  Function& management = card.functions[kManagement];
  post_event(management, event);
  notify(management);
}

void retire(Card& card, Function& function, StreamName of, hal::PhysicalAddress place) {
  if (!mutated(Mutant::MemoryRetired) && card.pool.retire(place)) {
    tell_memory_error(card, function, of, wire::EventKind::MemoryRetired, card.pool.retired_granules());
  }
}

}  // namespace

bool memory_fails(Card& card, Function& function, const wire::ControlBlockHeader& header, hal::PhysicalAddress begin,
                  hal::PhysicalAddress end, hal::PhysicalAddress& place) {
  const auto shot = card.faults.occur(FaultPoint::Memory, {.function = function.id(),
                                                           .stream = header.stream,
                                                           .opcode = static_cast<std::uint32_t>(header.opcode),
                                                           .sequence = header.sequence,
                                                           .memory_begin = begin,
                                                           .memory_end = end});
  if (!shot) return false;
  if (shot->action == FaultAction::Uncorrectable && mutated(Mutant::MemoryUncorrectable)) {
    *hal::pointer(shot->place) ^= std::byte{0xff};
    return false;
  }
  if (shot->action == FaultAction::Corrected) {
    if (mutated(Mutant::MemoryCorrected)) return false;
    if (mutated(Mutant::MemoryRight)) *hal::pointer(shot->place) ^= std::byte{0xff};
    tell_memory_error(card, function, {header.stream, header.incarnation}, wire::EventKind::MemoryCorrected,
                      card.count_corrected());
    return false;
  }
  place = shot->place;
  retire(card, function, {header.stream, header.incarnation}, place);
  return true;
}

LaunchResult locate_failed_memory(Card& card, Function& function, LaunchResult result) {
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    const RegionTable::Grant& grant = function.regions.granted(i);
    if (result.failed_memory < grant.base || result.failed_memory - grant.base >= grant.bytes) continue;
    if (!mutated(Mutant::ArrayPlace)) {
      result.fault.access = wire::FaultAccess::Load;
      result.fault.region_ordinal = i;
      result.fault.offset = result.failed_memory - grant.base;
    }
    retire(card, function, {result.stream, function.streams[result.stream].incarnation}, result.failed_memory);
  }
  return result;
}

// ---- FAULT_ARM ------------------------------------------------------------------------------------------------------

namespace {

// A Memory fault is one of a place in the card's memory, whatever region that becomes part of later.
Verdict find_place(Card& card, const wire::FaultSpec& spec, hal::PhysicalAddress& place) {
  if (spec.point != FaultPoint::Memory) return {};
  const RegionTable& regions = card.functions[spec.trigger.function].regions;
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    const RegionTable::Grant& grant = regions.granted(i);
    if (grant.bytes == 0 || regions.region_id(i) != spec.region_id) continue;
    if (spec.offset >= grant.bytes) return {Status::OutOfBounds, Field::AdminFault};
    place = grant.base + spec.offset;
    return {};
  }
  return {Status::UnknownRegion, Field::AdminFault};
}

Verdict arm(Card& card, const wire::FaultSpec& spec, wire::FaultEvidence& evidence) {
  if (const Verdict v = FaultTable::judge(spec, card.functions.count()); !v.ok()) return v;
  hal::PhysicalAddress place = 0;
  if (const Verdict v = find_place(card, spec, place); !v.ok()) return v;
  // Kernels that are made to run astray run into instructions that launches from now on have mapped.
  if (spec.point == FaultPoint::Kernel && !card.spaces.prepare_planted()) {
    return {Status::OutOfExecutionAreas, Field::AdminFault};
  }
  if (const Verdict v = card.faults.arm(spec, place); !v.ok()) return v;
  return card.faults.query(spec.fault, evidence);
}

}  // namespace

void fault_command(Card& card, const wire::AdminRequest& request, wire::AdminReply& reply) {
  const wire::FaultSpec& spec = request.arguments.fault;
  Verdict verdict;
  switch (spec.operation) {
    case wire::FaultOperation::Arm: verdict = arm(card, spec, reply.values.fault); break;
    case wire::FaultOperation::Query: verdict = card.faults.query(spec.fault, reply.values.fault); break;
    case wire::FaultOperation::Disarm: verdict = card.faults.disarm(spec.fault, reply.values.fault); break;
    case wire::FaultOperation::DisarmAll: card.faults.disarm_all(); break;
    default: verdict = {Status::BadOpcode, Field::AdminFault}; break;
  }
  if (!verdict.ok()) reply = refusal(verdict.status, verdict.field);
}

}  // namespace fw
