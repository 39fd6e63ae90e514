// SPDX-License-Identifier: Apache-2.0
// From the control-block ring into the queues of streams: copy once, judge the copy.
#include "firmware/core/card.hpp"
#include "firmware/core/charges.hpp"
#include "firmware/core/control_block_check.hpp"
#include "firmware/core/dispatcher.hpp"
#include "firmware/core/steps.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::ControlBlock;
using wire::Field;
using wire::Outcome;
using wire::Status;

namespace {

bool block_usable(const Chain& chain) {
  return chain.well_formed && chain.readable.bytes >= wire::kStickBytes &&
         chain.readable.bytes <= wire::kControlBlockSlotBytes && chain.readable.bytes % wire::kStickBytes == 0 &&
         wire::is_aligned(chain.readable.offset, wire::kStickBytes) &&
         wire::kControlBlocks.contains(chain.readable.offset, chain.readable.bytes);
}
bool completion_usable(const Chain& chain) {
  return chain.writable.bytes >= wire::kStickBytes && wire::is_aligned(chain.writable.offset, wire::kStickBytes) &&
         wire::kCompletions.contains(chain.writable.offset, wire::kStickBytes);
}

// A chain that cannot carry a block. With a usable completion slot the driver is told why; else the used length 0 says
// it.
[[gnu::noinline]] void reject_chain(const Card& card, Function& function, const Chain& chain) {
  if (!mutated(Mutant::CountChains)) ++function.counters().ring_violations;
  ++function.counters().rejected;
  note_violation(function, Status::BadChain);
  std::uint32_t written = 0;
  if (completion_usable(chain)) {
    wire::Completion completion{};
    completion.outcome = Outcome::Rejected;
    completion.status = chain.well_formed ? Status::BadDescriptor : Status::BadChain;
    completion.field = Field::Chain;
    completion.generation = function.generation();
    completion.end_time = hal::now();
    wire::store_shared_words(function.at<std::uint64_t>(chain.writable.offset),
                             reinterpret_cast<const std::uint64_t*>(&completion), kStickWords);
    written = wire::kStickBytes;
  }
  function.queue(wire::kControlBlockQueue).push_used(chain.id, chain.slots, written);
  // The others of this heartbeat's time are told together at its end.
  if (function.ring_violations.first_of(card.heart.beats())) tell_ring_violations(function);
}

constexpr std::uint64_t kLongestBytes = wire::kMaxControlBlockSticks * wire::kStickBytes;
constexpr std::size_t kSegmentWords = sizeof(wire::Segment) / 8;
constexpr std::size_t kSegmentsAt = offsetof(ControlBlock, payload.compute.segments) / 8;

// The segments of a COMPUTE. Of those that say nothing of access nobody looks at the rest (segment_rows()), and nothing
// stands behind them: most launches are half of their block.
void copy_segments(std::uint64_t* to, const std::uint64_t* from) {
  std::uint64_t any = 0;
  for (std::size_t i = kSegmentWords - 1; i < wire::kSegments * kSegmentWords; i += kSegmentWords) {
    to[i] = wire::load_relaxed(from[i]);
    any |= to[i];
  }
  if (any >> 32 == 0) return;
  for (std::size_t i = 0; i < wire::kSegments * kSegmentWords; i += kSegmentWords) {
    wire::copy_shared_words(to + i, from + i, kSegmentWords - 1);
  }
}

// Copies the block once. The first stick says how long it is; a longer claim than the chain holds is judged afterwards.
void copy_block(Function& function, const Chain& chain, ControlBlock& to) {
  auto* words = reinterpret_cast<std::uint64_t*>(&to);
  const auto* from = function.at<std::uint64_t>(chain.readable.offset);
  if (chain.readable.bytes != kLongestBytes) {
    return wire::copy_shared_words(words, from, chain.readable.bytes / 8);
  }
  wire::copy_shared_words(words, from, kSegmentsAt);
  if (to.header.opcode == wire::Opcode::Compute && !function.crc_negotiated()) {
    return copy_segments(words + kSegmentsAt, from + kSegmentsAt);
  }
  wire::copy_shared_words(words + kSegmentsAt, from + kSegmentsAt, kLongestBytes / 8 - kSegmentsAt);
}

// Whether the block names a stream of this function as it is now; only such a block may poison one.
Verdict check_address(const Function& function, const wire::ControlBlockHeader& header) {
  if (header.generation != function.generation() && !mutated(Mutant::BlockAddress, Status::StaleGeneration)) {
    return {Status::StaleGeneration, Field::Generation};
  }
  if (header.stream >= wire::kStreamsPerFunction || function.streams[header.stream].state() == StreamState::Closed) {
    return {Status::UnknownStream, Field::Stream};
  }
  const Stream& stream = function.streams[header.stream];
  if (header.incarnation != stream.incarnation && !mutated(Mutant::BlockAddress, Status::StaleIncarnation)) {
    return {Status::StaleIncarnation, Field::Incarnation};
  }
  // The next incarnation begins with the answer to the reset; nothing may come between the old one's end and a close.
  if (stream.settling()) return {Status::StreamResetting, Field::Stream};
  if (stream.banned) return {Status::StreamBanned, Field::Stream};
  return {};
}

[[gnu::noinline]] void reject_now(Function& function, std::uint16_t index, const Verdict& why) {
  function.streams.block(index).start_time = 0;
  complete(function, index, {Outcome::Rejected, why, hal::now()});
}

Verdict judge(const Card& card, const Function& function, const Stream& stream, const ControlBlock& cb) {
  if (stream.count >= wire::kStreamCredits) return {Status::StreamCreditsExceeded, Field::Stream};
  Verdict v;
  [[clang::always_inline]] v = check_form(cb, function.crc_negotiated(), card.core_mask());
  if (!v.ok()) {
    const bool length = v.status == Status::BadSize && (mutated(Mutant::BlockLength) || mutated(Mutant::ImageLength));
    if (!mutated(Mutant::BlockForm, v.status) && !length) return v;
  }
  if (cb.header.sequence != stream.next_sequence && !mutated(Mutant::BlockSequence)) {
    return {Status::BadSequence, Field::Sequence};
  }
  return {};
}

[[gnu::cold, gnu::noinline]] void note_queued(Card& card, const Function& function,
                                              const wire::ControlBlockHeader& header) {
  wire::TraceEntry entry{};
  entry.kind = wire::TraceKind::Queued;
  entry.begin = entry.end = hal::now();
  entry.stream = header.stream;
  entry.sequence = header.sequence;
  card.traces.write(function.id(), entry);
}

// A buffer that is gone by then, or other ones, signal nothing: then a cycle of waits may be found later, or not.
void note_signals(Function& function, Block& block) {
  if (block.cb.header.opcode == wire::Opcode::EventSignal) [[unlikely]] {
    block.signals = block.cb.payload.event.value;
  } else if (block.cb.header.opcode == wire::Opcode::Call) [[unlikely]] {
    block.signals = last_signal_of_call(function, block.cb.payload.call);
  }
  if (block.signals != 0) [[unlikely]]
    function.streams.note_queued_signal(block.cb.header.stream, block.signals);
}

void accept_chain(Card& card, Function& function, const Chain& chain) {
  const std::uint16_t index = function.streams.take_block();
  Block& block = function.streams.block(index);
  copy_block(function, chain, block.cb);
  block.completion = chain.writable.offset;
  block.chain_id = chain.id;
  block.chain_slots = chain.slots;
  block.start_time = 0;
  block.progress = 0;
  block.image = {};
  block.checksum = 0;
  block.retries = 0;
  block.moved_ahead = false;
  block.call.buffer = nullptr;
  block.signals = 0;
  block.verdict = check_frame(block.cb.header, chain.readable.bytes);
  const bool length = block.verdict.status == Status::BadSize && mutated(Mutant::BlockLength);
  if (!block.verdict.ok() && !mutated(Mutant::BlockFrame, block.verdict.status) && !length) {
    return reject_now(function, index, block.verdict);
  }
  block.verdict = {};
  if (const Verdict v = check_address(function, block.cb.header); !v.ok()) {
    if (mutated(Mutant::BlockAddress, Status::UnknownStream)) return complete(function, index, {Outcome::Ok, {}, 0});
    return reject_now(function, index, v);
  }
  Stream& stream = function.streams[block.cb.header.stream];
  // A malformed block keeps its place in its stream: what was submitted before it still runs.
  if (!stream.poisoned()) block.verdict = judge(card, function, stream, block.cb);
  if (wire::is_strided(block.cb)) [[unlikely]]
    function.charge(charge_of_judging(block.cb));
  ++stream.next_sequence;
  function.streams.append(index);
  if (stream.phase == Stream::Phase::Computing && stream.count == 2) [[unlikely]]
    move_ahead(card, function, stream);
  if (block.verdict.ok() && !stream.poisoned()) note_signals(function, block);
  if (card.traces.on(function.id())) [[unlikely]]
    note_queued(card, function, block.cb.header);
}

}  // namespace

bool fetch_blocks(Card& card, Function& function, unsigned budget) {
  PackedQueue& queue = function.queue(wire::kControlBlockQueue);
  if (!function.running() || function.reset.running()) return false;
  unsigned fetched = 0;
  Chain chain;
  const std::uint64_t charged = function.charged();
  const std::uint64_t most = kQuantumBytes / 2 * function.weight();
  // One-descriptor chains can be more than there are blocks; those wait in the ring.
  while (budget-- != 0 && function.streams.room() && queue.ready() && function.charged() - charged < most) {
    [[clang::always_inline]] queue.take(chain);
    ++fetched;
    hal::mark(wire::Waypoint::Fetch);
    const bool broken = chain.readable.bytes == wire::kStickBytes && mutated(Mutant::RefuseChains);
    if ((block_usable(chain) || broken) && completion_usable(chain)) {
      accept_chain(card, function, chain);
    } else {
      reject_chain(card, function, chain);
    }
  }
  if (fetched != 0) card.note_work(fetched);  // what is refused here is never stepped
  return fetched != 0;
}

}  // namespace fw
