// SPDX-License-Identifier: Apache-2.0
// Steps of streams within budgets, cancels, and the end of a stream's reset.
#include "firmware/core/dispatcher.hpp"

#include <algorithm>

#include "firmware/core/buffer_commands.hpp"
#include "firmware/core/card.hpp"
#include "firmware/core/fault_actions.hpp"
#include "firmware/core/steps.hpp"
#include "firmware/core/timeouts.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/memory_order.hpp"

namespace fw {

using wire::FaultPoint;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

namespace {

// A step of the head, whatever it is.
[[gnu::always_inline]] inline bool step_head(Card& card, Function& function, unsigned index, Block& block) {
  if (card.faults.armed(FaultPoint::RegionEntry) && function.streams[index].phase == Stream::Phase::Idle) [[unlikely]]
    damage_entries(function, block);
  switch (block.cb.header.opcode) {
    case Opcode::Dma:
    case Opcode::Fill: step_transfer(card, function, index); return true;
    case Opcode::Compute: return start_launch(card, function, index);
    case Opcode::EventSignal:
    case Opcode::EventWait: step_event(card, function, index); return true;
    case Opcode::Call:
    case Opcode::Prepared: return step_call(card, function, index);
    case Opcode::Patch: step_patch(card, function, index); return true;
    default: break;
  }
  const std::uint64_t now = hal::now();
  block.start_time = now;
  publish_started(function, block);
  [[clang::always_inline]] end_head(function, index, {Outcome::Ok, {}, now});
  return true;
}

// False: kernels have had their share of this iteration.
bool step_stream(Card& card, Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  Block& block = function.streams.block(stream.head);
  if (stream.settling()) [[unlikely]] {
    settle_stream_reset(function, index);
    return true;
  }
  if (stream.poisoned() && !mutated(Mutant::Poison)) {
    end_head(function, index, {Outcome::Aborted, {Status::StreamPoisoned}, hal::now()});
    return true;
  }
  if (!block.verdict.ok()) {
    end_head(function, index, {Outcome::Rejected, block.verdict, hal::now()});
    return true;
  }
  return step_head(card, function, index, block);
}

}  // namespace

// Of calls: the step of another head is inlined into the loop of run_streams().
[[gnu::noinline]] bool step_block(Card& card, Function& function, unsigned index) {
  return step_head(card, function, index, function.streams.head(index));
}

std::uint64_t charged_so_far(const Card& card, const Function& function) {
  return function.charged() + card.spaces.prepared_bytes();
}

namespace {

void note_quantum(Card& card, std::uint64_t steps, std::uint64_t charged) {
  card.plan.note_bytes(charged);
  card.note_work(steps + charged / kBytesOfAStep);
}

}  // namespace

bool run_streams(Card& card, Function& function, unsigned budget, std::uint64_t charged_before) {
  bool any = false;
  const std::uint64_t most = kQuantumBytes * function.weight();
  if (function.streams.stalls_end() != kNever && function.running()) [[unlikely]] {
    any |= wake_stalled(function);
    if (const std::uint64_t charged = charged_so_far(card, function) - charged_before; charged >= most) {
      card.plan.look_at_all();
      note_quantum(card, 0, charged);
      return any;
    }
  }
  // Who waits is called by the end of a launch. One that was called and then reset has called nobody.
  while (function.running() && !function.streams.any_runnable() && function.streams.any_waiting() &&
         !card.launches.active(function.id())) {
    retry_waiting_launch(function);
  }
  if (!function.streams.any_runnable()) return any;
  hal::mark(wire::Waypoint::Dispatch);
  card.first_slices.begin_quantum();
  // Read only when a step was long: a quantum of empty blocks is over by their number.
  std::uint64_t quantum_ends = kNever;
  if (card.contended()) quantum_ends = hal::now() + kQuantumTicks * function.weight();
  const std::uint64_t populated_before = card.pool.populated_granules();
  const unsigned budget_before = budget;
  while (budget-- != 0 && function.running() && function.streams.any_runnable()) {
    any = true;
    if (!step_stream(card, function, function.streams.next_runnable())) {
      card.plan.look_at_all();
      break;
    }
    const std::uint64_t charged = charged_so_far(card, function) - charged_before;
    if (charged == 0) continue;
    if (quantum_ends == kNever) quantum_ends = card.heart.stepped_at() + kUncontendedQuantumTicks;
    // Memory that is touched for the first time is a page fault of the machine that emulates us: 0.1 ms, 5 ms were
    // seen.
    if (mutated(Mutant::QuantumBytes)) continue;
    if (charged >= most || card.heart.stepped_at() >= quantum_ends ||
        card.pool.populated_granules() != populated_before) {
      card.plan.look_at_all();
      break;
    }
  }
  if (budget == ~0u) card.plan.look_at_all();  // used up
  note_quantum(card, budget_before - budget, charged_so_far(card, function) - charged_before);
  return any;
}

Cancelled cancel_block(Card& card, Function& function, unsigned index, std::uint64_t sequence) {
  Stream& stream = function.streams[index];
  std::uint16_t before = kNoBlock;
  std::uint16_t at = stream.head;
  while (at != kNoBlock && function.streams.block(at).cb.header.sequence != sequence) {
    before = at;
    at = function.streams.block(at).next;
  }
  if (at == kNoBlock) {
    const bool fetched = sequence < stream.next_sequence;
    return fetched || !function.queue(wire::kControlBlockQueue).ready() ? Cancelled::Ended : Cancelled::NotFetched;
  }
  // A wait that is not fulfilled has not started.
  const bool begun = stream.phase != Stream::Phase::Idle && stream.phase != Stream::Phase::Waiting;
  const CallState& call = function.streams.block(at).call;
  const bool started = begun || (call.buffer != nullptr && call.index != 0);
  if (started && at == stream.head) {
    // What ran may have left half of its work behind: a fault like any other.
    if (stream.phase == Stream::Phase::Computing) {
      if (mutated(Mutant::CancelRunning)) return Cancelled::Ended;
      return card.launches.stop(stream.launch) ? Cancelled::Yes : Cancelled::Ended;
    }
    function.streams.end_wait(index);
    end_head(function, index, {Outcome::Fault, {Status::Stopped}, hal::now()});
    return Cancelled::Yes;
  }
  function.streams.remove(index, before, at);
  if (function.streams.block(at).signals != 0) function.streams.count_queued_signals(index);
  complete(function, at, {Outcome::Aborted, {Status::Stopped}, hal::now()});
  return Cancelled::Yes;
}

void settle_stream_reset(Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  const Outcome left = mutated(Mutant::AbortAtReset) ? Outcome::Ok : Outcome::Aborted;
  function.streams.withdraw_wait(index);
  for (unsigned ended = 0; stream.head != kNoBlock; ++ended) {
    if (ended == kEndedInAStep) {
      function.charge(kQuantumBytes);
      return function.streams.resume(index);
    }
    finish_head(function, index, left, {Status::Stopped});
  }
  const bool closes = stream.state() == StreamState::Closing;
  function.streams.set_state(index, closes ? StreamState::Closed : StreamState::Open);
  if (!closes && mutated(Mutant::PoisonEnds)) function.streams.set_state(index, StreamState::Poisoned);
  function.streams.rest(index);
  // Sequence numbers start again: a word of the old incarnation would make a later death call unstarted blocks started.
  wire::store_release(function.at<std::uint64_t>(wire::kStartedSequences.offset)[index], std::uint64_t{0});
}

}  // namespace fw
