// SPDX-License-Identifier: Apache-2.0
// CALL and PREPARED: the blocks of a command buffer, one after the other, in the place of the block that calls them.
//
// A block of the buffer becomes the head of the stream: its opcode, budget and payload replace those of the call, whose
// address, sequence and completion stay. So each part of the dispatcher does with it what it does with a block of the
// ring, one step at a time, and end_head() comes back here. A COMPUTE is not copied: it is read where it lies
// (compute_of()).
#include "firmware/core/card.hpp"
#include "firmware/core/charges.hpp"
#include "firmware/core/command_buffers.hpp"
#include "firmware/core/dispatcher.hpp"
#include "firmware/core/steps.hpp"
#include "firmware/core/transfer.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::Field;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

// ---- judging --------------------------------------------------------------------------------------------------------

Verdict judge_addresses(Function& function, const wire::ControlBlock& cb) {
  switch (cb.header.opcode) {
    case Opcode::Dma:
    case Opcode::Fill: return judge_transfer(function, cb);
    case Opcode::Compute: return judge_launch(function.regions, cb.payload.compute);
    default: return {};
  }
}

namespace {

// Blocks that are judged in one step of their stream, at most.
constexpr std::uint32_t kJudgedInAStep = 8;

enum class Judged : std::uint8_t { All, Some, Refused };

// Regions have come or gone since the buffer was judged last. Refused: call.judging is the first block that is not in
// order any more. Nothing of the buffer has begun.
[[gnu::cold, gnu::noinline]] Judged judge_again(Function& function, Block& block, Verdict& why) {
  CallState& call = block.call;
  const std::uint64_t version = function.regions.names_version();
  if (call.judged_for != version) {
    call.judged_for = version;
    call.judging = 0;
  }
  for (std::uint32_t step = 0; step < kJudgedInAStep && call.judging < call.buffer->blocks; ++step, ++call.judging) {
    BufferEntry& entry = call.buffer->entry(call.judging);
    if (entry.judged == version) continue;
    why = judge_addresses(function, entry.cb);
    function.charge(charge_of_judging(entry.cb));
    if (!why.ok() && !mutated(Mutant::CallJudged)) return Judged::Refused;
    entry.judged = version;
  }
  if (call.judging < call.buffer->blocks) return Judged::Some;
  call.buffer->judged = version;
  return Judged::All;
}

// ---- the blocks -----------------------------------------------------------------------------------------------------

Verdict begin_call(Function& function, Block& block) {
  const wire::CallPayload& payload = block.cb.payload.call;
  Verdict why;
  CommandBuffer* const buffer = function.buffers.find(payload.buffer, payload.epoch, why);
  if (buffer == nullptr) return why;
  const bool prepared = block.cb.header.opcode == Opcode::Prepared;
  if (prepared && (buffer->blocks != 1 || buffer->entry(0).cb.header.opcode != Opcode::Compute)) {
    return {Status::BadOpcode, Field::CallBuffer};
  }
  if (payload.signal_base > ~std::uint64_t{0} - buffer->last_signal) return {Status::Overflow, Field::CallSignalBase};
  block.call = {.buffer = buffer,
                .index = 0,
                .judging = 0,
                .judged_for = 0,
                .signal_base = payload.signal_base,
                .start_time = 0,
                .bytes = 0,
                .slices = 0};
  ++buffer->users;
  return {};
}

// Block call.index of the buffer is the stream's head now, and has not started.
void load_entry(Block& block) {
  const wire::ControlBlock& from = entry_of(block)->cb;
  wire::ControlBlock& to = block.cb;
  to.header.opcode = from.header.opcode;
  to.header.sticks = from.header.sticks;
  to.header.budget = from.header.budget;
  block.start_time = 0;
  block.progress = 0;
  if (from.header.opcode == Opcode::Compute) {
    block.image = {};
    return;
  }
  const std::size_t words = (from.header.sticks * wire::kStickBytes - sizeof from.header) / 8;
  for (std::size_t i = 0; i < words; ++i) to.payload.words[i] = from.payload.words[i];
  if (from.header.opcode == Opcode::EventSignal) to.payload.event.value += block.call.signal_base;
  block.checksum = 0;
  block.retries = 0;
}

}  // namespace

std::uint64_t last_signal_of_call(const Function& function, const wire::CallPayload& call) {
  Verdict why;
  const CommandBuffer* const buffer = function.buffers.find(call.buffer, call.epoch, why);
  if (buffer == nullptr || buffer->last_signal == 0) return 0;
  std::uint64_t value;
  return __builtin_add_overflow(call.signal_base, buffer->last_signal, &value) ? 0 : value;
}

bool step_call(Card& card, Function& function, unsigned index) {
  Block& block = function.streams.head(index);
  Verdict why;
  if (block.call.buffer == nullptr) why = begin_call(function, block);
  Judged judged = why.ok() ? Judged::All : Judged::Refused;
  // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): missing() is never OK, so that there is a buffer
  if (why.ok() && block.call.buffer->judged != function.regions.names_version()) [[unlikely]]
    judged = judge_again(function, block, why);
  if (judged == Judged::Some) return true;
  if (judged == Judged::Refused) {
    block.start_time = 0;
    block.call.index = block.call.judging;  // the completion names it
    const bool passes = block.call.buffer == nullptr && mutated(Mutant::CallBuffer, why.status);
    end_block(function, index, {passes ? Outcome::Ok : Outcome::Rejected, passes ? Verdict{} : why, hal::now()});
    return true;
  }
  load_entry(block);
  if (block.cb.header.opcode == Opcode::Compute && !card.faults.armed(wire::FaultPoint::RegionEntry)) [[likely]]
    return start_launch(card, function, index);
  return step_block(card, function, index);
}

void begin_next_of_call(Function& function, unsigned index, Block& block) {
  ++block.call.index;
  load_entry(block);
  function.streams.begin_next_of_call(index);
}

bool call_goes_on(Function& function, unsigned index, Ending& ending) {
  Block& block = function.streams.head(index);
  CallState& call = block.call;
  if (call.index == 0) call.start_time = block.start_time;
  call.bytes += block.progress;
  call.slices += ending.slices;
  const bool goes_on = ending.outcome == Outcome::Ok || mutated(Mutant::CallEnds);
  if (goes_on && call.index + 1 != call.buffer->blocks) {
    begin_next_of_call(function, index, block);
    return true;
  }
  const bool begun = call.index != 0 || (call.judging != 0 && mutated(Mutant::CallUnbegun));
  // Of blocks alone these say that nothing has begun.
  if (begun && (ending.outcome == Outcome::Rejected || ending.outcome == Outcome::Aborted) &&
      !mutated(Mutant::CallHalf)) {
    ending.outcome = Outcome::Fault;
  }
  block.start_time = call.start_time;
  block.progress = call.bytes;
  block.checksum = 0;
  ending.slices = call.slices;
  return false;
}

}  // namespace fw
