// SPDX-License-Identifier: Apache-2.0
// Giving blocks back: completion, used descriptor, and what an error makes of the stream.
#include "firmware/core/function.hpp"
#include "firmware/core/steps.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/memory_order.hpp"

namespace fw {

using wire::FaultAction;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

namespace {

void count(Function::Counters& counters, Outcome outcome) {
  switch (outcome) {
    case Outcome::Ok: ++counters.completed; break;
    case Outcome::Rejected: ++counters.rejected; break;
    case Outcome::Aborted: ++counters.aborted; break;
    default: ++counters.failed; break;
  }
}

void publish(Function& function, const Block& block, const wire::Completion& completion) {
  wire::store_shared_words(function.at<std::uint64_t>(block.completion),
                           reinterpret_cast<const std::uint64_t*>(&completion), kStickWords);
  function.queue(wire::kControlBlockQueue).push_used(block.chain_id, block.chain_slots, wire::kStickBytes);
}

// FaultPoint::Completion.
[[gnu::cold, gnu::noinline]] void publish_broken(Function& function, const Block& block, wire::Completion completion) {
  const auto shot = function.faults().occur(FaultPoint::Completion, occurrence_of(function, block.cb.header));
  if (shot && shot->action == FaultAction::Suppress) return;
  if (shot && shot->action == FaultAction::Corrupt) {
    reinterpret_cast<std::byte*>(&completion)[shot->argument % sizeof completion] ^= std::byte{0xff};
  }
  publish(function, block, completion);
  if (shot && shot->action == FaultAction::Duplicate) publish(function, block, completion);
}

}  // namespace

void complete(Function& function, std::uint16_t index, const Ending& ending) {
  Block& block = function.streams.block(index);
  const auto& header = block.cb.header;
  wire::Completion completion{};
  completion.outcome = ending.outcome;
  completion.status = ending.why.status;
  completion.field = ending.why.field;
  completion.stream = header.stream;
  completion.incarnation = header.incarnation;
  completion.generation = header.generation;
  completion.sequence = header.sequence;
  completion.cookie = header.cookie;
  completion.start_time = block.start_time;
  completion.end_time = ending.end_time;
  completion.bytes = block.progress;
  completion.fault = ending.fault;
  if (ending.why.argument != 0) completion.fault.argument = ending.why.argument;
  completion.slices = ending.slices;
  if (ending.outcome == Outcome::Ok && !mutated(Mutant::DmaTold)) completion.checksum = block.checksum;
  if (block.call.buffer != nullptr) [[unlikely]] {
    completion.block = mutated(Mutant::CallBlock) ? 0 : block.call.index;
    function.buffers.leave(*block.call.buffer);
  }
  count(function.counters(), ending.outcome);
  if (ending.outcome != Outcome::Ok && is_violation(ending.outcome, ending.why.status)) {
    note_violation(function, ending.why.status);
  }
  if (ending.outcome == Outcome::Fault && ending.why.status == Status::Stopped && mutated(Mutant::LoseCompletion)) {
    // Nobody is told of it.
  } else if (function.faults().armed(FaultPoint::Completion)) [[unlikely]] {
    publish_broken(function, block, completion);
  } else {
    publish(function, block, completion);
  }
  function.streams.give_block(index);
}

namespace {

void poison(Function& function, unsigned index, Status status) {
  Stream& stream = function.streams[index];
  if (stream.poisoned() || stream.settling()) return;
  function.streams.set_state(index, StreamState::Poisoned);
  for (unsigned s = 0; s < wire::kStreamsPerFunction && mutated(Mutant::PoisonReaches); ++s) {
    if (function.streams[s].state() == StreamState::Open) function.streams.set_state(s, StreamState::Poisoned);
  }
  hal::note(wire::RecordedEventKind::StreamPoisoned, index, function.id() | static_cast<std::uint64_t>(status) << 32);
  post_stream_event(function, wire::EventKind::StreamPoisoned, index, status);
}

// A stream that takes too long again and again costs everybody: its last time-out ends it until its function is reset.
[[gnu::cold, gnu::noinline]] void count_timeout(Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  ++stream.timeouts;
  if (function.timeout_limit() == 0 || stream.timeouts < function.timeout_limit() || stream.banned) return;
  if (mutated(Mutant::StreamTimeouts)) return;
  stream.banned = true;
  post_stream_event(function, wire::EventKind::StreamBanned, index, Status::StreamBanned, stream.timeouts);
}

// A wait that lasts too long costs nobody anything.
bool costs_others(const Ending& ending) {
  const bool of_a_wait = ending.why.field == wire::Field::EventStream || ending.why.field == wire::Field::EventGrant;
  return ending.outcome == Outcome::Timeout && !of_a_wait;
}

}  // namespace

void end_block(Function& function, unsigned index, const Ending& ending) {
  [[clang::always_inline]] complete(function, function.streams.take_head(index), ending);
  if (ending.outcome == Outcome::Ok) [[likely]]
    return;
  if (costs_others(ending)) count_timeout(function, index);
  poison(function, index, ending.why.status);
  charge_looks(function);
}

void end_called_kernel(Function& function, unsigned index, std::uint64_t end_time, std::uint64_t slices) {
  Block& block = function.streams.head(index);
  CallState& call = block.call;
  if (call.index == 0) call.start_time = block.start_time;
  call.slices += slices;
  if (call.index + 1 != call.buffer->blocks) return begin_next_of_call(function, index, block);
  block.start_time = call.start_time;
  block.progress = call.bytes;
  [[clang::always_inline]] end_block(function, index, {Outcome::Ok, {}, end_time, {}, call.slices});
}

namespace {

[[gnu::noinline]] void end_of_buffer(Function& function, unsigned index, Ending ending) {
  if (!call_goes_on(function, index, ending)) end_block(function, index, ending);
}

}  // namespace

void end_head(Function& function, unsigned index, const Ending& ending) {
  if (function.streams.head(index).call.buffer != nullptr) [[unlikely]]
    return end_of_buffer(function, index, ending);
  [[clang::always_inline]] end_block(function, index, ending);
}

void finish_head(Function& function, unsigned stream, Outcome outcome, Verdict why) {
  end_head(function, stream, {outcome, why, hal::now()});
}

}  // namespace fw
