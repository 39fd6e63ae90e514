// SPDX-License-Identifier: Apache-2.0
// COMPUTE: from a stream's head to a launch on the cores, and back.
#include "firmware/core/card.hpp"
#include "firmware/core/charges.hpp"
#include "firmware/core/dispatcher.hpp"
#include "firmware/core/fault_actions.hpp"
#include "firmware/core/steps.hpp"
#include "firmware/core/timeouts.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::ControlBlock;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

namespace {

// FaultPoint::Memory at what a launch is said to touch: image, correction, segments. The launch is prepared, and ends
// FAULT before its first slice.
[[gnu::cold, gnu::noinline]] void break_launch(Card& card, Function& function, unsigned index, const Block& block) {
  const ControlBlock& cb = block.cb;
  const wire::ComputePayload& compute = compute_of(block);
  const auto touch = [&](std::uint64_t region_id, std::uint32_t generation, std::uint64_t offset, std::uint64_t bytes) {
    const auto at = function.regions.resolve(region_id, generation, offset, bytes);
    hal::PhysicalAddress place;
    if (!at || !memory_fails(card, function, cb.header, at->address, at->address + bytes, place)) return;
    wire::FaultRecord record{};
    record.access = wire::FaultAccess::Load;
    record.region_ordinal = at->ordinal;
    record.offset = offset + (place - at->address);
    record.pc = ~std::uint64_t{0};
    card.launches.fail(function.streams[index].launch, {Status::UncorrectableMemory}, record);
  };
  touch(compute.image.region_id, compute.image.generation, compute.image.offset, compute.image_bytes);
  if (compute.correction_bytes != 0 && compute.correction.kind == wire::EndpointKind::Region) {
    touch(compute.correction.region_id, compute.correction.generation, compute.correction.offset,
          compute.correction_bytes);
  }
  for (const wire::Segment& segment : compute.segments) {
    if (segment.access != wire::kSegmentUnused) {
      touch(segment.region_id, segment.generation, segment.offset, segment.bytes);
    }
  }
}

}  // namespace

namespace {

// Faults that the usual way of a launch looks for.
constexpr std::uint64_t kLaunchPoints = point_bit(FaultPoint::FirmwareHart) | point_bit(FaultPoint::Kernel) |
                                        point_bit(FaultPoint::KernelResult) | point_bit(FaultPoint::Memory) |
                                        point_bit(FaultPoint::Array);

// Whether a launch may have its first slice now: nobody waits for core 0.
bool core_is_free(const Card& card) {
  return card.first_slices.allowed() && !card.run_queues.has_work(0) && !card.doorbells.masked() &&
         !card.faults.armed_any(kLaunchPoints);
}

// The launch begins: said before its first side effect.
void note_start(Function& function, unsigned index, Block& block, std::uint64_t now) {
  block.image = {};
  block.start_time = now;
  hal::note(now, wire::RecordedEventKind::Launch, index, function.id());
  publish_started(function, block);
  ++function.counters().launches;
}

// The first slice of a launch that is ready, here and now. Most kernels end in it. False: no more in this iteration.
bool run_first_slice(Card& card, Function& function, unsigned index, const Launches::Place& place,
                     std::uint64_t slice_ticks) {
  Stream& stream = function.streams[index];
  Block& block = function.streams.block(stream.head);
  const std::uint64_t began = hal::now();
  note_start(function, index, block, began);
  hal::mark(wire::Waypoint::Slice);
  const bool traced = card.traces.on(function.id());
  if (traced) [[unlikely]]
    place.slot().context.array_orders.order = wire::array::Order::Ask;  // each request is noted
  hal::Stop stop;
  [[clang::always_inline]] stop = hal::run(place.slot().context, began, slice_ticks);
  hal::mark(wire::Waypoint::Dispatch);
  card.heart.stepped(stop.ended);
  card.doorbells.slice_inside_ended(stop.reason == hal::StopReason::Interrupted);
  const bool more = card.first_slices.ran(stop.ran_ticks);
  if (stop.reason != hal::StopReason::Exit || stop.argument != 0) [[unlikely]] {
    stream.phase = Stream::Phase::Computing;
    function.streams.hold(index);
    card.launches.goes_on(function, index, block, place, stop, stream.launch);
    return false;
  }
  if (traced) [[unlikely]]
    card.launches.note_only_slice(function, block.cb.header, stop);
  function.counters().kernel_ticks += stop.ran_ticks;
  const std::uint64_t slices = stop.ran_ticks < kSliceTicks ? 0u : 1u;
  if (block.call.buffer != nullptr) [[unlikely]] {
    end_called_kernel(function, index, stop.ended, slices);
  } else {
    [[clang::always_inline]] end_block(function, index, {Outcome::Ok, {}, stop.ended, {}, slices});
  }
  retry_waiting_launch(function);
  return more;
}

// The usual way: prepared now, run by the loop of its cores.
[[gnu::noinline]] void queue_launch(Card& card, Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  Block& block = function.streams.block(stream.head);
  Verdict why;
  const Launches::Start start = card.launches.start(function, index, block, stream.launch, why);
  card.heart.stepped(hal::now());
  switch (start) {
    case Launches::Start::Unfinished:
      if (card.contended()) function.charge(charge_of_summing(kEmulatedImageStepBytes));
      function.streams.note_image_check();
      return;
    case Launches::Start::Started:
      note_start(function, index, block, card.heart.stepped_at());
      stream.phase = Stream::Phase::Computing;
      function.streams.hold(index);
      if (card.faults.armed(FaultPoint::Memory)) [[unlikely]]
        break_launch(card, function, index, block);
      card.launches.release(stream.launch);
      move_ahead(card, function, stream);
      return;
    case Launches::Start::NoRoom:
      function.streams.wait_for_room(index);  // until retry_waiting_launch
      function.streams.note_image_check();
      return;
    case Launches::Start::Refused: return end_head(function, index, {Outcome::Rejected, why, card.heart.stepped_at()});
  }
}

}  // namespace

// With everything inside that a launch on a free core runs through: a call and its return are two targets that the
// emulator has to look up. Aligned so that its own targets do not meet in the emulator's cache of them (the misses that
// scripts/count-instructions shows).
[[gnu::aligned(128)]] bool start_launch(Card& card, Function& function, unsigned index) {
  if (core_is_free(card)) [[likely]] {
    // With others busy kernels are a part of the function's quantum. (A function that was quiet is not busy yet
    // itself.)
    const bool shared = (card.plan.busy_functions() & ~(std::uint32_t{1} << function.id())) != 0;
    const std::uint64_t most = shared ? kQuantumTicks * function.weight() : kFirstSliceTicks;
    const std::uint64_t left = card.first_slices.left(most);
    const Stream& stream = function.streams[index];
    Launches::Place place;
    if (left != 0 && card.launches.make_ready(function, function.streams.block(stream.head), place)) [[likely]] {
      return run_first_slice(card, function, index, place, left);
    }
  }
  queue_launch(card, function, index);
  return true;
}

void retry_waiting_launch(Function& function) {
  if (function.streams.any_waiting() && function.running()) function.streams.call_waiting();
}

void launch_ended(Function& function, const LaunchResult& result) {
  function.counters().kernel_ticks += result.kernel_ticks;
  Stream& stream = function.streams[result.stream];
  if (result.warned && function.running()) {
    post_stream_event(function, wire::EventKind::WatchdogWarning, result.stream, Status::None, result.slices);
  }
  // A whole-function reset dropped the stream's blocks: nothing completes any more.
  if (stream.launch != result.launch || !function.running()) return;
  const bool aborted = result.why.status == Status::Stopped && mutated(Mutant::KernelStopped);
  const Outcome outcome = aborted ? Outcome::Aborted : result.outcome;
  [[clang::always_inline]] end_head(function, result.stream,
                                    {outcome, result.why, result.end_time, result.fault, result.slices});
  if (stream.settling()) settle_stream_reset(function, result.stream);
}

}  // namespace fw
