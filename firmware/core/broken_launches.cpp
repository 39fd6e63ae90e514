// SPDX-License-Identifier: Apache-2.0
// What armed faults do to a launch: FirmwareHart, Kernel, KernelResult, Array. Called only where FaultTable::armed()
// said so; orders to the array also for a launch that is traced.
#include "firmware/core/context_layout.hpp"
#include "firmware/core/fault_actions.hpp"
#include "firmware/core/launches.hpp"
#include "firmware/core/region_pool.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::FaultAction;
using wire::FaultPoint;

Occurrence Launches::occurrence_of(const Launch& launch, const Part& part) {
  return {.function = launch.result.function,
          .stream = launch.stream,
          .opcode = static_cast<std::uint32_t>(wire::Opcode::Compute),
          .sequence = launch.sequence,
          .core = part.core};
}

std::uint64_t Launches::name_of(const Launch& launch, Ticket ticket) {
  return launch.handle * kMaxCores + ticket.part;  // handles are serial numbers
}

// What FaultPoint::Kernel knows besides.
Occurrence Launches::slice_of(Launch& launch, Ticket ticket, const hal::Context& context) {
  Occurrence occurrence = occurrence_of(launch, launch.part[ticket.part]);
  const std::uint64_t progress = hal::progress(context);
  if (progress != 0) occurrence.progress = wire::number_of_progress(progress);
  occurrence.part = name_of(launch, ticket);
  occurrence.segments = launch.segments;
  const hal::LockGuard guard(launch.lock);
  occurrence.waiting = launch.arrived;
  occurrence.others = launch.parts - 1 - launch.exited;
  return occurrence;
}

// Before a slice. False: there is none now, the part is queued again.
bool Launches::break_slice(Launch& launch, Ticket ticket, hal::Context& context) {
  if (launch.machine.is(State::Stopping)) {
    faults_->let_go(name_of(launch, ticket));
    return true;
  }
  Part& part = launch.part[ticket.part];
  if (part.not_before != 0 && faults_->armed(FaultPoint::Kernel)) {
    if (hal::now() < part.not_before) {
      queue_part(launch, ticket, false);
      return false;
    }
    part.not_before = 0;
  }
  if (faults_->armed(FaultPoint::FirmwareHart)) {
    if (const auto shot = faults_->occur(FaultPoint::FirmwareHart, occurrence_of(launch, part))) {
      if (shot->action == FaultAction::Trap) hal::break_by_trap();
      stand_still(shot->argument);
    }
  }
  if (faults_->armed(FaultPoint::Array) && context.array_orders.order == wire::array::Order::Serve) {
    context.array_orders.order = wire::array::Order::Ask;
  }
  if (!faults_->armed(FaultPoint::Kernel)) return true;
  // A launch that began before the point was armed is no occurrence: it could not be broken.
  if (!launch.breakable) return true;
  const auto shot = faults_->occur(FaultPoint::Kernel, slice_of(launch, ticket, context));
  if (shot && shot->held) {
    queue_part(launch, ticket, false);
    return false;
  }
  if (shot) break_kernel(launch, part, context, *shot);
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
    case FaultAction::FlipSegment: return flip_segment(launch, shot);
    default: return;
  }
}

void Launches::flip_segment(Launch& launch, const Shot& shot) {
  const SegmentPlace& segment = launch.segment[shot.segment];
  const std::uint64_t further = mutated(Mutant::FaultSegment) ? wire::kStickBytes * 8 : 0;
  const std::uint64_t bit = (shot.argument + further) % (segment.bytes * 8);
  const hal::PhysicalAddress at = segment.begin + bit / 8;
  if (pool_->mark_written(launch.result.function, at, 1)) {
    *hal::pointer(at) ^= static_cast<std::byte>(1u << bit % 8);
  }
}

void Launches::corrupt_result(Launch& launch, const Part& part) {
  if (launch.result_bytes == 0) return;
  const auto shot = faults_->occur(FaultPoint::KernelResult, occurrence_of(launch, part));
  if (!shot) return;
  const hal::PhysicalAddress at = launch.result_begin + shot->argument % launch.result_bytes;
  if (pool_->mark_written(launch.result.function, at, 1)) *hal::pointer(at) ^= std::byte{0xff};
}

// ---- FaultPoint::Array ----------------------------------------------------------------------------------------------

// A slice has ended. True: in it the array could not read memory, and the part has ended with its launch. The array's
// own word says so: what a kernel says would let it have memory retired. Asked behind each slice while the fault is
// armed, and at the kernel's call, which may come when it is armed no more.
bool Launches::array_failed(Launch& launch, Part& part, const hal::Stop& stop) {
  hal::Context& context = slot_of(launch, part).context;
  const hal::PhysicalAddress place = context.array_orders.failed;
  if (place == 0) return false;
  context.array_orders.failed = 0;
  if (mutated(Mutant::ArrayError)) return false;
  hal::Stop end = stop;  // the argument of another call is not what the kernel was at
  end.argument = hal::progress(context);
  if (fail(launch, wire::Outcome::Fault, {wire::Status::UncorrectableMemory}, describe(launch, part, end))) {
    launch.result.failed_memory = place;
  }
  hal::drop(context);
  part_done(launch, part.core, stop.ended);
  return true;
}

// The array has asked, and the kernel has called. A call that the array has not asked for changes nothing.
void Launches::order_array(Launch& launch, const Part& part, hal::Context& context) {
  using wire::array::Order;
  wire::array::Orders& orders = context.array_orders;
  const bool armed = faults_->armed(FaultPoint::Array);
  if (!armed && !launch.traced) {
    orders.order = Order::Serve;
    return;
  }
  if (orders.order != Order::Asked) return;
  if (launch.traced) note_request(launch, part);
  if (!armed) {
    orders.order = Order::ServeOne;
    return;
  }
  Occurrence occurrence = occurrence_of(launch, part);
  const std::uint64_t progress = hal::progress(context);
  if (progress != 0) occurrence.progress = wire::number_of_progress(progress);
  const auto shot = faults_->occur(FaultPoint::Array, occurrence);
  orders.order = Order::ServeOne;
  if (!shot) return;
  orders.argument = shot->argument;
  switch (shot->action) {
    case FaultAction::FlipResult: orders.order = Order::CorruptOne; return;
    case FaultAction::Refuse:
      orders.order = mutated(Mutant::ArrayRefusal) ? Order::CorruptOne : Order::RefuseOne;
      return;
    default: orders.order = Order::FailOne; return;
  }
}

}  // namespace fw
