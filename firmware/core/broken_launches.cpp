// SPDX-License-Identifier: Apache-2.0
// What armed faults do to a launch: FirmwareHart, Kernel, KernelResult. Called only where FaultTable::armed() said so.
#include "firmware/core/context_layout.hpp"
#include "firmware/core/fault_actions.hpp"
#include "firmware/core/launches.hpp"
#include "firmware/core/region_pool.hpp"
#include "firmware/hal/hart.hpp"

namespace fw {

using wire::FaultAction;
using wire::FaultPoint;

Occurrence Launches::occurrence_of(const Launch& launch) {
  return {.function = launch.result.function,
          .stream = launch.stream,
          .opcode = static_cast<std::uint32_t>(wire::Opcode::Compute),
          .sequence = launch.sequence};
}

// Before a slice. False: there is none now, the part is queued again.
bool Launches::break_slice(Launch& launch, Ticket ticket, hal::Context& context) {
  if (launch.machine.is(State::Stopping)) return true;
  Part& part = launch.part[ticket.part];
  if (part.not_before != 0 && faults_->armed(FaultPoint::Kernel)) {
    if (hal::now() < part.not_before) {
      queue_part(launch, ticket, false);
      return false;
    }
    part.not_before = 0;
  }
  const Occurrence occurrence = occurrence_of(launch);
  if (faults_->armed(FaultPoint::FirmwareHart)) {
    if (const auto shot = faults_->occur(FaultPoint::FirmwareHart, occurrence)) {
      if (shot->action == FaultAction::Trap) hal::break_by_trap();
      stand_still(shot->argument);
    }
  }
  if (!faults_->armed(FaultPoint::Kernel)) return true;
  // A launch that began before the point was armed is no occurrence: it could not be broken.
  if (!launch.space->cores[part.core]->has_planted()) return true;
  if (const auto shot = faults_->occur(FaultPoint::Kernel, occurrence)) break_kernel(launch, part, context, *shot);
  return true;
}

void Launches::break_kernel(Launch& launch, Part& part, hal::Context& context, const Shot& shot) {
  switch (shot.action) {
    case FaultAction::Hang: return hal::divert(context, kPlantedAt, hal::Planted::Hang);
    case FaultAction::Illegal: return hal::divert(context, kPlantedAt, hal::Planted::Illegal);
    case FaultAction::Stray: return hal::divert(context, kPlantedAt, hal::Planted::StrayLoad);
    case FaultAction::Slow: part.slow = shot.argument; return;
    case FaultAction::FlipScratchpad: {
      const std::uint64_t bit = shot.argument % (wire::kScratchpadBytes * 8);
      *hal::pointer(slot_of(launch, part).scratchpad + bit / 8) ^= static_cast<std::byte>(1u << bit % 8);
      return;
    }
    default: return;
  }
}

void Launches::corrupt_result(Launch& launch) {
  if (launch.result_bytes == 0) return;
  const auto shot = faults_->occur(FaultPoint::KernelResult, occurrence_of(launch));
  if (!shot) return;
  const hal::PhysicalAddress at = launch.result_begin + shot->argument % launch.result_bytes;
  if (pool_->mark_written(launch.result.function, at, 1)) *hal::pointer(at) ^= std::byte{0xff};
}

}  // namespace fw
