// SPDX-License-Identifier: Apache-2.0
// Running a launch: slices, stops, faults, barrier, watchdog, kill. Every hart runs this for its own parts.
#include <algorithm>
#include <atomic>
#include <utility>

#include "firmware/core/function.hpp"
#include "firmware/core/launches.hpp"
#include "firmware/core/region_pool.hpp"
#include "firmware/core/timeouts.hpp"
#include "firmware/hal/address_space.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

void Launches::queue_part(const Launch& launch, Ticket ticket, bool fresh) {
  queues_->push(launch.part[ticket.part].core, launch.result.function, launch.high_priority, ticket, fresh);
}

// ---- ends -----------------------------------------------------------------------------------------------------------

void Launches::part_done(Launch& launch, unsigned core, std::uint64_t now) {
  if (launch.parts_left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Of several parts the last one here may have stopped, and read the clock, before another one.
  launch.result.end_time = launch.parts == 1 ? now : hal::now();
  launch.machine.set_state(State::Ended);
  const std::uint32_t place = std::uint32_t{place_of(launch)} + 1;
  std::uint32_t newest = ended_.load(std::memory_order_relaxed);
  do {
    launch.next_ended = newest;
  } while (!ended_.compare_exchange_weak(newest, place, std::memory_order_release, std::memory_order_relaxed));
  if (core != 0) hal::wake(0);
}

// The parts of a launch that stops leave at their next slice boundary; those at the barrier are queued again so that
// they can.
void Launches::call_parts(Launch& launch) {
  const std::uint8_t place = place_of(launch);
  for (std::uint32_t p = 0; p < launch.parts; ++p) {
    bool parked = false;
    {
      const hal::LockGuard guard(launch.lock);
      std::swap(parked, launch.part[p].parked);
    }
    if (parked) {
      queue_part(launch, {place, static_cast<std::uint8_t>(p)}, false);
    } else if (launch.part[p].core != hal::hart_id()) {
      hal::wake(launch.part[p].core);
    }
  }
}

// True when this is what the launch ends with. It has not ended before this returns: the caller is hart 0, which
// collects, or runs a part.
bool Launches::fail(Launch& launch, Outcome outcome, Verdict why, const wire::FaultRecord& fault) {
  const bool runs = launch.machine.change<State::Running, State::Stopping>();
  if (!runs && !launch.machine.change<State::Prepared, State::Condemned>()) return false;
  launch.result.outcome = outcome;
  launch.result.why = why;
  launch.result.fault = fault;
  if (runs) call_parts(launch);
  return true;
}

bool Launches::fail(LaunchHandle handle, Verdict why, const wire::FaultRecord& fault) {
  Launch* launch = find(handle);
  return launch != nullptr && fail(*launch, Outcome::Fault, why, fault);
}
bool Launches::stop(LaunchHandle handle) {
  Launch* launch = find(handle);
  if (launch == nullptr) return false;
  const bool first = fail(*launch, Outcome::Fault, {Status::Stopped}, {});
  release(handle);  // one that was only prepared ends there, too
  return first;
}
void Launches::stop_all(Owner function) {
  for (const Launch& launch : launches_of(function)) stop(launch.handle);
}

// ---- stops ----------------------------------------------------------------------------------------------------------

wire::FaultRecord Launches::describe(Launch& launch, const Part& part, const hal::Stop& stop) {
  wire::FaultRecord record{};
  {
    const hal::LockGuard guard(launch.lock);
    record.waiting = static_cast<std::uint8_t>(launch.arrived);
  }
  if (mutated(Mutant::FaultWaiting)) record.waiting = 0;
  record.access = stop.reason != hal::StopReason::Fault ? wire::FaultAccess::None
                  : stop.access == hal::Access::Load    ? wire::FaultAccess::Load
                  : stop.access == hal::Access::Store   ? wire::FaultAccess::Store
                                                        : wire::FaultAccess::Fetch;
  record.core = part.core;
  record.region_ordinal = wire::kNoRegionOrdinal;
  record.offset = stop.address;
  const std::uint64_t window = stop.address >> wire::kRegionShift;
  if (window >= 1 && window <= wire::kRegionsPerFunction) {
    record.region_ordinal = static_cast<std::uint32_t>(window - 1);
    record.offset = stop.address & ((std::uint64_t{1} << wire::kRegionShift) - 1);
  }
  const std::uint64_t text = text_address(launch, part);
  const std::uint64_t text_bytes = launch.space->areas[launch.area].header.text_bytes;
  if (mutated(Mutant::KernelRegion)) record.region_ordinal = 0;
  record.pc = wire::range_inside(stop.pc - text, 1, text_bytes) ? stop.pc - text : ~std::uint64_t{0};
  record.argument = stop.argument;
  if (mutated(Mutant::FaultCore)) record.core = kMaxCores;
  if (mutated(Mutant::FaultProgress) && wire::is_progress(stop.argument)) record.argument = 0;
  return record;
}

// A flush repairs a stale translation at once; what still faults after this many is not a stale translation.
constexpr std::uint16_t kMaxStaleFaults = 8;

// The first access of a kernel to a granule of its regions: the entry is filled and the access tried again. False: the
// access was stray. A stale "invalid" entry of this hart's translation cache ends here too (hal::fill flushes it).
bool Launches::first_touch(Launch& launch, Part& part, const hal::Stop& stop) {
  if (stop.status != Status::LoadFault && stop.status != Status::StoreFault) return false;
  const hal::PhysicalAddress granule = launch.space->granule_at(part.core, stop.address);
  if (granule == 0) return false;
  if (!pool_->mark_written(launch.result.function, granule, wire::kGranuleBytes)) {
    fail(launch, Outcome::Fault, {Status::MemoryBudget}, describe(launch, part, stop));
    return true;
  }
  const std::uint64_t at = stop.address / wire::kGranuleBytes * wire::kGranuleBytes;
  if (hal::fill(launch.space->cores[part.core]->root, at, granule)) {
    part.stale_faults = 0;
    return true;
  }
  return ++part.stale_faults < kMaxStaleFaults;
}

// A launch's pages are mapped in a root that other launches may be running on, on another hart than the one that maps:
// what that hart has remembered as invalid may be older than the mapping. (The emulator remembers no such thing.)
bool Launches::stale_translation(const Launch& launch, Part& part, const hal::Stop& stop) {
  hal::Protection wanted;
  switch (stop.status) {
    case Status::LoadFault: wanted = hal::Protection::Read; break;
    case Status::StoreFault: wanted = hal::Protection::ReadWrite; break;
    case Status::FetchFault: wanted = hal::Protection::ReadExecute; break;
    default: return false;
  }
  return hal::refresh(launch.space->cores[part.core]->root, stop.address, wanted) &&
         ++part.stale_faults < kMaxStaleFaults;
}

// A part has exited by its own call. Those at the barrier wait for it in vain: that is an error of the kernel, and no
// watchdog would find it, because parts that are parked take no slices.
void Launches::leave(Launch& launch, Part& part, const hal::Stop& stop) {
  bool stuck;
  {
    const hal::LockGuard guard(launch.lock);
    ++launch.exited;
    stuck = launch.arrived != 0 && launch.arrived + launch.exited == launch.parts;
  }
  if (stuck) fail(launch, Outcome::Fault, {Status::BadEnvironmentCall}, describe(launch, part, stop));
  part_done(launch, part.core, stop.ended);
}

// The last core to arrive queues all others again and goes on itself.
void Launches::arrive(Launch& launch, Ticket ticket, const hal::Stop& stop) {
  Part& part = launch.part[ticket.part];
  bool last;
  bool stuck;
  {
    const hal::LockGuard guard(launch.lock);
    last = ++launch.arrived == launch.parts;
    if (last) {
      launch.arrived = 0;
      launch.claimed.store(0, std::memory_order_relaxed);  // the other parts are parked, so that nobody claims
    }
    stuck = !last && launch.arrived + launch.exited == launch.parts;
    // An end that came before this lock saw the part not parked: it must not be left behind.
    part.parked = !last && !stuck && launch.machine.is(State::Running);
    if (part.parked) return;
  }
  if (stuck) fail(launch, Outcome::Fault, {Status::BadEnvironmentCall}, describe(launch, part, stop));
  if (!last) return queue_part(launch, ticket, false);
  for (std::uint32_t p = 0; p < launch.parts; ++p) {
    bool queue = p == ticket.part;
    {
      const hal::LockGuard guard(launch.lock);
      queue |= launch.part[p].parked;
      launch.part[p].parked = false;
    }
    if (queue) queue_part(launch, {ticket.launch, static_cast<std::uint8_t>(p)}, false);
  }
}

// The numbers end at wire::kNoMoreItems.
std::uint64_t Launches::claim(Launch& launch, std::uint64_t count) {
  std::uint64_t first = launch.claimed.load(std::memory_order_relaxed);
  std::uint64_t next;
  do {
    next = first + std::min(count, wire::kNoMoreItems - first);
  } while (!launch.claimed.compare_exchange_weak(first, next, std::memory_order_relaxed));
  return first;
}

// True when the part wants to go on at once in the same iteration.
bool Launches::handle_stop(Launch& launch, Ticket ticket, const hal::Stop& stop) {
  Part& part = launch.part[ticket.part];
  if (stop.reason != hal::StopReason::Fault) part.stale_faults = 0;
  switch (stop.reason) {
    case hal::StopReason::Exit:
      if (stop.argument != 0 && !mutated(Mutant::KernelStatus)) {
        fail(launch, Outcome::Fault, {Status::KernelStatus}, describe(launch, part, stop));
      } else if (faults_->armed(FaultPoint::KernelResult)) [[unlikely]] {
        corrupt_result(launch, part);
      }
      leave(launch, part, stop);
      return false;
    case hal::StopReason::TraceMark: return true;
    case hal::StopReason::ArrayOrder:
      if (array_failed(launch, part, stop)) return false;
      order_array(launch, part, slot_of(launch, part).context);
      return true;
    case hal::StopReason::Claim: hal::answer(slot_of(launch, part).context, claim(launch, stop.argument)); return true;
    case hal::StopReason::Barrier: arrive(launch, ticket, stop); return false;
    case hal::StopReason::BadCall:
      fail(launch, Outcome::Fault, {Status::BadEnvironmentCall}, describe(launch, part, stop));
      part_done(launch, part.core, stop.ended);
      return false;
    case hal::StopReason::Fault:
      if (first_touch(launch, part, stop) || stale_translation(launch, part, stop)) return true;
      if (!mutated(Mutant::KernelTrap)) fail(launch, Outcome::Fault, {stop.status}, describe(launch, part, stop));
      part_done(launch, part.core, stop.ended);
      return false;
    case hal::StopReason::Timer:
    case hal::StopReason::Interrupted: break;
  }
  queue_part(launch, ticket, false);
  return false;
}

// The kernel has used more than half of what it may. True: all of it, and the launch is killed.
bool Launches::watchdog(Launch& launch, Part& part, const hal::Stop& stop) {
  Warning none = Warning::None;
  if (!mutated(Mutant::KernelWarning) &&
      launch.warning.compare_exchange_strong(none, Warning::Due, std::memory_order_relaxed)) {
    warnings_.store(true, std::memory_order_release);
  }
  if (part.budget_used <= 2 * launch.budget_slices * kSliceTicks || mutated(Mutant::KernelBudget)) return false;
  hal::Stop end = stop;  // the argument of a call is not what the kernel was at
  end.argument = hal::progress(slot_of(launch, part).context);
  fail(launch, Outcome::Timeout, {Status::WatchdogExpired}, describe(launch, part, end));
  return true;
}

// ---- slices ---------------------------------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kSlicePoints =
    point_bit(FaultPoint::FirmwareHart) | point_bit(FaultPoint::Kernel) | point_bit(FaultPoint::Array);

}  // namespace

// A mark is told with the slice that it ends.
void Launches::note_slice(const Traced& of, const hal::Stop& stop) {
  wire::TraceEntry entry{};
  entry.kind = wire::TraceKind::Slice;
  entry.begin = stop.began;
  entry.end = std::max(stop.ended, stop.began);
  entry.sequence = of.sequence;
  entry.stream = of.stream;
  entry.core = static_cast<std::uint16_t>(of.core);
  traces_->note(of.core, of.function, entry);
  if (stop.reason != hal::StopReason::TraceMark) return;
  entry.kind = wire::TraceKind::Mark;
  entry.begin = entry.end;
  entry.value = stop.argument;
  traces_->note(of.core, of.function, entry);
}

// What the kernel has written down is only told.
void Launches::note_request(const Launch& launch, const Part& part) {
  wire::TraceEntry entry{};
  entry.kind = wire::TraceKind::Array;
  entry.begin = entry.end = hal::now();
  entry.stream = launch.stream;
  entry.sequence = launch.sequence;
  entry.core = static_cast<std::uint16_t>(part.core);
  entry.value = *reinterpret_cast<const std::uint32_t*>(hal::pointer(slot_of(launch, part).scratchpad));
  traces_->note(part.core, launch.result.function, entry);
}

void Launches::note_only_slice(const Function& function, const wire::ControlBlockHeader& header,
                               const hal::Stop& stop) {
  note_slice({function.id(), header.stream, header.sequence, 0}, stop);
}

// A slice has been run. True when the part wants to go on at once; else it has ended, is parked or queued again.
bool Launches::slice_ended(Launch& launch, Ticket ticket, const hal::Stop& stop) {
  Part& part = launch.part[ticket.part];
  launch.kernel_ticks.fetch_add(stop.ran_ticks, std::memory_order_relaxed);
  if (launch.traced) [[unlikely]]
    note_slice({launch.result.function, launch.stream, launch.sequence, part.core}, stop);
  // The watchdog counts what was delivered, at most one slice an iteration: a starved machine burns no budget.
  part.budget_used += std::min(stop.ran_ticks, kSliceTicks);
  if (faults_->armed(FaultPoint::Array) && array_failed(launch, part, stop)) [[unlikely]]
    return false;
  const bool ends = stop.reason == hal::StopReason::Exit;
  if (!ends && part.budget_used > launch.budget_slices * kSliceTicks && watchdog(launch, part, stop)) {
    hal::drop(slot_of(launch, part).context);
    part_done(launch, part.core, stop.ended);
    return false;
  }
  if (part.slow != 0) [[unlikely]]
    part.not_before = stop.ended + stop.ran_ticks * (std::exchange(part.slow, 0) - 1);
  return handle_stop(launch, ticket, stop);
}

bool Launches::run_slice(unsigned core, std::uint64_t slice_ticks) {
  Ticket ticket;
  if (!queues_->pop(core, ticket)) return false;
  hal::mark(wire::Waypoint::Slice);
  Launch& launch = launches_[ticket.launch];
  hal::Context& context = slot_of(launch, launch.part[ticket.part]).context;
  if (faults_->armed_any(kSlicePoints)) [[unlikely]]
    if (!break_slice(launch, ticket, context)) return true;
  // Each request of a launch that is traced is noted: the array asks before it (order_array()).
  if (launch.traced && context.array_orders.order == wire::array::Order::Serve) [[unlikely]]
    context.array_orders.order = wire::array::Order::Ask;
  std::uint64_t began = 0;
  for (;;) {
    if (launch.machine.is(State::Stopping)) {
      hal::drop(context);
      part_done(launch, core, hal::now());
      return true;
    }
    const hal::Stop stop = hal::run(context, slice_ticks);
    if (core == 0) signalled_ = stop.reason == hal::StopReason::Interrupted;
    if (began == 0) began = stop.began;
    if (!slice_ended(launch, ticket, stop)) return true;
    // Stops that go on at once must not keep the hart from its other work: together they get one slice as well.
    if (stop.ended - began >= slice_ticks) {
      queue_part(launch, ticket, false);
      return true;
    }
  }
}

}  // namespace fw
