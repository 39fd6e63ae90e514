// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/dispatcher.hpp"

#include <algorithm>

#include "firmware/core/card.hpp"
#include "firmware/core/control_block_check.hpp"
#include "firmware/core/fault_actions.hpp"
#include "firmware/core/timeouts.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/memory_order.hpp"

namespace fw {

using wire::ControlBlock;
using wire::FaultAction;
using wire::FaultPoint;
using wire::Field;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

namespace {

constexpr std::size_t kStickWords = wire::kStickBytes / 8;

// ---- giving back ------------------------------------------------------------------------------------------------------

void count(wire::AdminReply::Values& stats, Outcome outcome) {
  switch (outcome) {
    case Outcome::Ok: ++stats.stats.completed; break;
    case Outcome::Rejected: ++stats.stats.rejected; break;
    case Outcome::Aborted: ++stats.stats.aborted; break;
    default: ++stats.stats.failed; break;
  }
}

struct Ending {
  Outcome outcome;
  Verdict why;
  std::uint64_t end_time;
  wire::FaultRecord fault{};
  std::uint64_t slices = 0;
};

Occurrence occurrence_of(const Function& function, const wire::ControlBlockHeader& header) {
  return {.function = function.id,
          .stream = header.stream,
          .opcode = static_cast<std::uint32_t>(header.opcode),
          .sequence = header.sequence};
}

void publish(Function& function, const Block& block, const wire::Completion& completion) {
  wire::store_shared_words(function.at<std::uint64_t>(block.completion),
                           reinterpret_cast<const std::uint64_t*>(&completion), kStickWords);
  function.queue(wire::kControlBlockQueue).push_used(block.chain_id, block.chain_slots, wire::kStickBytes);
}

// FaultPoint::Completion.
[[gnu::cold, gnu::noinline]] void publish_broken(Function& function, const Block& block, wire::Completion completion) {
  const auto shot = function.faults->occur(FaultPoint::Completion, occurrence_of(function, block.cb.header));
  if (shot && shot->action == FaultAction::Suppress) return;
  if (shot && shot->action == FaultAction::Corrupt) {
    reinterpret_cast<std::byte*>(&completion)[shot->argument % sizeof completion] ^= std::byte{0xff};
  }
  publish(function, block, completion);
  if (shot && shot->action == FaultAction::Duplicate) publish(function, block, completion);
}

// Writes the completion and hands the chain back; the block is free afterwards.
void complete(Function& function, std::uint16_t index, const Ending& ending) {
  Block& block = function.blocks[index];
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
  count(function.stats, ending.outcome);
  if (ending.outcome != Outcome::Ok && is_violation(ending.outcome, ending.why.status)) {
    note_violation(function, ending.why.status);
  }
  if (ending.outcome == Outcome::Fault && ending.why.status == Status::Stopped && mutated(Mutant::LoseCompletion)) {
    // Nobody hears of it.
  } else if (function.faults->armed(FaultPoint::Completion)) [[unlikely]] {
    publish_broken(function, block, completion);
  } else {
    publish(function, block, completion);
  }
  function.blocks.give(index);
}

void poison(Function& function, unsigned index, Status status) {
  Stream& stream = function.streams[index];
  if (stream.poisoned || stream.settling()) return;
  stream.poisoned = true;
  if (mutated(Mutant::PoisonReaches)) {
    for (Stream& other : function.streams) other.poisoned = true;
  }
  hal::note(wire::RecordedEventKind::StreamPoisoned, index, function.id | static_cast<std::uint64_t>(status) << 32);
  post_stream_event(function, wire::EventKind::StreamPoisoned, index, status);
}

// A stream that takes too long again and again costs everybody: its last strike ends it until its function is reset.
[[gnu::cold, gnu::noinline]] void strike(Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  ++stream.strikes;
  if (function.strikes == 0 || stream.strikes < function.strikes || stream.banned) return;
  if (mutated(Mutant::Strikes)) return;
  stream.banned = true;
  post_stream_event(function, wire::EventKind::StreamBanned, index, Status::StreamBanned, stream.strikes);
}

// Takes the head block off its stream and completes it.
void end_head(Function& function, unsigned index, const Ending& ending) {
  Stream& stream = function.streams[index];
  const std::uint16_t block = stream.head;
  stream.head = function.blocks[block].next;
  if (stream.head == kNoBlock) stream.tail = kNoBlock;
  --stream.count;
  stream.phase = Stream::Phase::Idle;
  stream.launch = kNoLaunch;
  stream.stalled_until = 0;
  complete(function, block, ending);
  if (stream.head == kNoBlock) {
    function.runnable.remove(index, stream.high_priority);
  } else {
    function.runnable.add(index, stream.high_priority);
  }
  if (ending.outcome == Outcome::Ok) return;
  if (ending.outcome == Outcome::Timeout) strike(function, index);
  poison(function, index, ending.why.status);
}

// Takes a block that has not started out of its stream's queue. `before` is the one in front of it, or kNoBlock.
void remove_block(Function& function, unsigned index, std::uint16_t before, std::uint16_t block) {
  Stream& stream = function.streams[index];
  const std::uint16_t next = function.blocks[block].next;
  (before == kNoBlock ? stream.head : function.blocks[before].next) = next;
  if (stream.tail == block) stream.tail = before;
  --stream.count;
  if (before != kNoBlock) return;
  // It was the head, which perhaps waited for room on the cores.
  function.launches_waiting.remove(index, stream.high_priority);
  if (next == kNoBlock) {
    function.runnable.remove(index, stream.high_priority);
  } else {
    function.runnable.add(index, stream.high_priority);
  }
}

// ---- fetching -----------------------------------------------------------------------------------------------------------

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

// A chain that cannot carry a block. With a usable completion slot the driver is told why; else the used length 0 says it.
void reject_chain(const Card& card, Function& function, const Chain& chain) {
  if (!mutated(Mutant::CountChains)) ++function.stats.stats.ring_violations;
  ++function.stats.stats.rejected;
  note_violation(function, Status::BadChain);
  std::uint32_t written = 0;
  if (completion_usable(chain)) {
    wire::Completion completion{};
    completion.outcome = Outcome::Rejected;
    completion.status = chain.well_formed ? Status::BadDescriptor : Status::BadChain;
    completion.field = Field::Chain;
    completion.generation = function.generation;
    completion.end_time = hal::now();
    wire::store_shared_words(function.at<std::uint64_t>(chain.writable.offset),
                             reinterpret_cast<const std::uint64_t*>(&completion), kStickWords);
    written = wire::kStickBytes;
  }
  function.queue(wire::kControlBlockQueue).push_used(chain.id, chain.slots, written);
  // The others of this heartbeat's time are told together at its end.
  if (function.ring_violations_told_at == card.heartbeat) return;
  function.ring_violations_told_at = card.heartbeat;
  tell_ring_violations(function);
}

// Copies the block once. The first stick says how long it is; a longer claim than the chain holds is judged afterwards.
void copy_block(Function& function, const Chain& chain, ControlBlock& to) {
  wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&to), function.at<std::uint64_t>(chain.readable.offset),
                          chain.readable.bytes / 8);
}

// Whether the block names a stream of this function as it is now; only such a block may poison one.
Verdict check_address(const Function& function, const wire::ControlBlockHeader& header) {
  if (header.generation != function.generation && !mutated(Mutant::BlockAddress, Status::StaleGeneration)) {
    return {Status::StaleGeneration, Field::Generation};
  }
  if (header.stream >= wire::kStreamsPerFunction || function.streams[header.stream].state == Stream::State::Closed) {
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

void reject_now(Function& function, std::uint16_t index, const Verdict& why) {
  function.blocks[index].start_time = 0;
  complete(function, index, {Outcome::Rejected, why, hal::now()});
}

Verdict judge(const Card& card, const Function& function, const Stream& stream, const ControlBlock& cb) {
  if (stream.count >= wire::kStreamCredits) return {Status::StreamCreditsExceeded, Field::Stream};
  if (const Verdict v = check_form(cb, function.crc_negotiated(), card.core_mask()); !v.ok()) {
    const bool length = v.status == Status::BadSize && (mutated(Mutant::BlockLength) || mutated(Mutant::ImageLength));
    if (!mutated(Mutant::BlockForm, v.status) && !length) return v;
  }
  if (cb.header.sequence != stream.next_sequence && !mutated(Mutant::BlockSequence)) {
    return {Status::BadSequence, Field::Sequence};
  }
  return {};
}

void enqueue(Function& function, std::uint16_t index) {
  Block& block = function.blocks[index];
  Stream& stream = function.streams[block.cb.header.stream];
  block.next = kNoBlock;
  if (stream.tail == kNoBlock) {
    stream.head = index;
    function.runnable.add(block.cb.header.stream, stream.high_priority);
  } else {
    function.blocks[stream.tail].next = index;
  }
  stream.tail = index;
  ++stream.count;
}

void accept_chain(Card& card, Function& function, const Chain& chain) {
  const std::uint16_t index = function.blocks.take();
  Block& block = function.blocks[index];
  copy_block(function, chain, block.cb);
  block.completion = chain.writable.offset;
  block.chain_id = chain.id;
  block.chain_slots = chain.slots;
  block.start_time = 0;
  block.progress = 0;
  block.image = {};
  block.checksum = 0;
  block.retries = 0;
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
  if (!stream.poisoned) block.verdict = judge(card, function, stream, block.cb);
  ++stream.next_sequence;
  enqueue(function, index);
}

// ---- executing ----------------------------------------------------------------------------------------------------------

// Tells the host that the block began, before its first side effect: after a death LOST and INDETERMINATE differ by it.
void publish_started(Function& function, const Block& block) {
  auto* started = function.at<std::uint64_t>(wire::kStartedSequences.offset);
  wire::store_release(started[block.cb.header.stream], block.cb.header.sequence);
  wire::store_fence();
}

// An end of a transfer after resolution: a pointer into the window or into card memory.
struct ResolvedEnd {
  std::byte* bytes;
  hal::PhysicalAddress address;  // regions only
  bool device;
};

std::expected<ResolvedEnd, Status> resolve_end(Function& function, const wire::Endpoint& end, std::uint64_t bytes) {
  if (end.kind == wire::EndpointKind::HostMemory) {
    // A mutant leaves the window's header alone: a driver that finds that broken finds nothing else.
    const bool in_window =
        end.offset >= wire::kCompletions.offset && wire::range_inside(end.offset, bytes, function.window.size());
    if (!wire::host_memory(function.window.size()).contains(end.offset, bytes) &&
        !(in_window && mutated(Mutant::HostRange))) {
      if (mutated(Mutant::HostEnd)) return ResolvedEnd{function.window.data() + wire::kHostMemoryOffset, 0, false};
      return std::unexpected(Status::NotHostMemory);
    }
    return ResolvedEnd{function.window.data() + end.offset, 0, false};
  }
  const auto place = function.regions.resolve(end.region_id, end.generation, end.offset, bytes);
  if (!place) return std::unexpected(place.error());
  return ResolvedEnd{hal::pointer(place->address), place->address, true};
}

bool overlap(const ResolvedEnd& a, const ResolvedEnd& b, std::uint64_t bytes) {
  return a.device && b.device && a.address < b.address + bytes && b.address < a.address + bytes;
}

struct Transfer {
  ResolvedEnd source;  // FILL: unused
  ResolvedEnd destination;
  std::uint64_t bytes;
};

// Resolves both ends for the whole transfer. Done at every step: a region may be released between two of them.
std::expected<Transfer, Verdict> resolve_transfer(Function& function, const ControlBlock& cb) {
  if (cb.header.opcode == Opcode::Fill) {
    const auto& fill = cb.payload.fill;
    const auto destination = resolve_end(function, fill.destination, fill.bytes);
    if (!destination) return std::unexpected(Verdict{destination.error(), Field::FillDestination});
    return Transfer{{}, *destination, fill.bytes};
  }
  const auto& dma = cb.payload.dma;
  const auto source = resolve_end(function, dma.source, dma.bytes);
  if (!source) return std::unexpected(Verdict{source.error(), Field::DmaSource});
  const auto destination = resolve_end(function, dma.destination, dma.bytes);
  if (!destination) return std::unexpected(Verdict{destination.error(), Field::DmaDestination});
  if (overlap(*source, *destination, dma.bytes)) {
    return std::unexpected(Verdict{Status::Overflow, Field::DmaDestination});
  }
  return Transfer{*source, *destination, dma.bytes};
}

void count_bytes(Function& function, const ControlBlock& cb, std::uint64_t bytes) {
  auto& stats = function.stats.stats;
  if (cb.header.opcode == Opcode::Dma && cb.payload.dma.source.kind == wire::EndpointKind::HostMemory) {
    stats.bytes_to_device += bytes;
  } else if (cb.header.opcode == Opcode::Dma && cb.payload.dma.destination.kind == wire::EndpointKind::HostMemory) {
    stats.bytes_from_device += bytes;
  } else {
    stats.bytes_on_device += bytes;
  }
}

// Bytes of an image whose checksum is under way are about to change: it begins anew.
void restart_image_checks(Function& function, hal::PhysicalAddress address, std::uint64_t bytes) {
  function.checks_images = false;
  for (const Stream& stream : function.streams) {
    if (stream.head == kNoBlock) continue;
    ImageCheck& check = function.blocks[stream.head].image;
    if (check.overlaps(address, bytes)) check = {};
    function.checks_images |= check.summed != 0;
  }
}

void move_step(Card& card, Function& function, Block& block, const Transfer& transfer, std::uint64_t step) {
  std::byte* to = transfer.destination.bytes + block.progress;
  if (transfer.destination.device) {
    // A cached kernel must not outlive the image it was loaded from.
    card.spaces.note_write(function.id, transfer.destination.address + block.progress, step);
    if (function.checks_images) restart_image_checks(function, transfer.destination.address + block.progress, step);
  }
  if (block.cb.header.opcode == Opcode::Fill) {
    hal::fill(to, block.cb.payload.fill.pattern, step);
  } else {
    hal::mark(wire::Waypoint::Dma);
    hal::copy(to, transfer.source.bytes + block.progress, step);
  }
  block.progress += step;
  count_bytes(function, block.cb, step);
}

// ---- transfers that are broken on purpose -------------------------------------------------------------------------------

// Nothing of the stream moves until then; everything else does. Ends by itself, by the transfer's budget (wake_stalled),
// or with the block.
void stall(Function& function, unsigned index, std::uint64_t until) {
  Stream& stream = function.streams[index];
  stream.stalled_until = until;
  function.stalls_end = 0;  // wake_stalled() finds out
  function.runnable.remove(index, stream.high_priority);
}

// Puts stalled streams back whose time is over, ends those whose budget is, and says when to look again.
// True when a block has ended.
[[gnu::cold, gnu::noinline]] bool wake_stalled(Function& function) {
  const std::uint64_t now = hal::now();
  std::uint64_t next = kNever;
  bool ended = false;
  for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) {
    Stream& stream = function.streams[s];
    if (stream.stalled_until == 0) continue;
    const Block& block = function.blocks[stream.head];
    const std::uint64_t budget = mutated(Mutant::TransferBudget) ? 0 : block.cb.header.budget;
    const std::uint64_t budget_end =
        budget == 0 || budget >= kNever - block.start_time ? kNever : block.start_time + budget;
    if (now > budget_end) {
      end_head(function, s, {Outcome::Timeout, {Status::BudgetExpired, Field::Budget}, now});
      ended = true;
    } else if (now >= stream.stalled_until) {
      stream.stalled_until = 0;
      function.runnable.add(s, stream.high_priority);
    } else {
      // One more, because a budget is used up when more than it has passed.
      next = std::min({next, stream.stalled_until, budget_end == kNever ? kNever : budget_end + 1});
    }
  }
  // Of those that will never go on: looked at, but not awake for.
  function.stalls_end = next;
  return ended;
}

// FaultPoint::DmaStep, before the step moves anything. True when the step must not go on.
[[gnu::cold, gnu::noinline]] bool step_breaks(Function& function, unsigned index, Shot shot) {
  if (shot.action == FaultAction::Stall) {
    stall(function, index, shot.argument == 0 ? kNever - 1 : hal::now() + shot.argument);
    return true;
  }
  const bool aborted = shot.action == FaultAction::Slow && mutated(Mutant::TransferSlow);
  if (shot.action != FaultAction::Abort && !aborted) return false;
  end_head(function, index, {Outcome::Fault, {Status::TransferAborted}, hal::now()});
  return true;
}

// FaultPoint::Memory. True when the block has ended.
[[gnu::cold, gnu::noinline]] bool memory_breaks(Card& card, Function& function, unsigned index,
                                                const Transfer& transfer, std::uint64_t step) {
  const Block& block = function.blocks[function.streams[index].head];
  const auto* ends = block.cb.header.opcode == Opcode::Fill ? nullptr : &block.cb.payload.dma;
  for (const bool source : {true, false}) {
    const ResolvedEnd& end = source ? transfer.source : transfer.destination;
    if (!end.device) continue;
    const hal::PhysicalAddress begin = end.address + block.progress;
    hal::PhysicalAddress place;
    if (!memory_fails(card, function, block.cb.header, begin, begin + step, place)) continue;
    const wire::Endpoint& named = ends == nullptr ? block.cb.payload.fill.destination
                                  : source        ? ends->source
                                                  : ends->destination;
    wire::FaultRecord record{};
    record.access = source ? wire::FaultAccess::Load : wire::FaultAccess::Store;
    record.region_ordinal = function.regions.find(named.region_id, named.generation).value_or(wire::kNoRegionOrdinal);
    record.offset = named.offset + (place - end.address);
    end_head(function, index, {Outcome::Fault, {Status::UncorrectableMemory}, hal::now(), record});
    return true;
  }
  return false;
}

// ---- transfers ----------------------------------------------------------------------------------------------------------

bool carries_checksum(const ControlBlock& cb) {
  return cb.header.opcode == Opcode::Dma && (cb.payload.dma.flags & wire::kDmaChecksum) != 0;
}

// What has arrived in the card is read back; on the way out of it, or inside it, the source is what is summed.
void sum_step(Block& block, const Transfer& transfer, std::uint64_t step) {
  const bool to_card = !transfer.source.device;
  const std::byte* bytes = (to_card ? transfer.destination : transfer.source).bytes + block.progress - step;
  block.checksum = hal::checksum(block.checksum, bytes, step);
}

// The end of a transfer whose bytes have all been moved.
void end_transfer(Function& function, unsigned index, const Transfer& transfer, std::uint64_t now) {
  Block& block = function.blocks[function.streams[index].head];
  const bool compared = carries_checksum(block.cb) && !transfer.source.device;
  const bool right = block.checksum == block.cb.payload.dma.checksum && !mutated(Mutant::RightChecksum);
  if (!compared || right || mutated(Mutant::DmaChecksum)) {
    return end_head(function, index, {Outcome::Ok, {}, now});
  }
  if (block.retries == wire::kDmaRetries || mutated(Mutant::DmaRetry)) {
    return end_head(function, index, {Outcome::Fault, {Status::ChecksumMismatch, Field::DmaChecksum}, now});
  }
  ++block.retries;
  block.progress = 0;
  block.checksum = 0;
}

std::uint64_t step_of(const Card& card, const Block& block, std::uint64_t bytes) {
  const std::uint64_t longest = carries_checksum(block.cb) ? kChecksumStepBytes
                                : card.contended()         ? kContendedStepBytes
                                                           : kDmaStepBytes;
  return std::min(bytes - block.progress, longest);
}

// One step of a transfer that is in order, or broken by `shot`.
void make_step(Card& card, Function& function, unsigned index, const Transfer& transfer,
               const std::optional<Shot>& shot) {
  Stream& stream = function.streams[index];
  Block& block = function.blocks[stream.head];
  const std::uint64_t step = step_of(card, block, transfer.bytes);
  if (transfer.destination.device &&
      !card.pool.mark_written(function.id, transfer.destination.address + block.progress, step)) {
    return end_head(function, index, {Outcome::Fault, {Status::MemoryBudget, Field::DmaDestination}, hal::now()});
  }
  if (card.faults.armed(FaultPoint::Memory)) [[unlikely]]
    if (memory_breaks(card, function, index, transfer, step)) return;
  const std::uint64_t began = shot ? hal::now() : 0;
  move_step(card, function, block, transfer, step);
  if (shot && shot->action == FaultAction::Corrupt) {
    transfer.destination.bytes[block.progress - step + shot->argument % step] ^= std::byte{0xff};
  }
  if (carries_checksum(block.cb)) sum_step(block, transfer, step);
  const std::uint64_t now = hal::now();
  card.stepped_at = now;
  const bool slow = shot && shot->action == FaultAction::Slow;
  // A slow last step is not over yet: the transfer ends when its stream goes on (step_transfer).
  if (block.progress == transfer.bytes && !slow) end_transfer(function, index, transfer, now);
  if (stream.phase != Stream::Phase::Moving) return;  // it has ended
  const std::uint64_t budget = block.cb.header.budget;
  const bool late = now - block.start_time > budget || mutated(Mutant::TransferInTime);
  if (budget != 0 && late && !mutated(Mutant::TransferBudget)) {
    return end_head(function, index, {Outcome::Timeout, {Status::BudgetExpired, Field::Budget}, now});
  }
  if (slow) stall(function, index, now + (now - began) * (shot->argument - 1));
}

// Of a mutant: a FILL over a region's end, as far as it fits.
void fill_what_fits(Function& function, const ControlBlock& cb) {
  if (!mutated(Mutant::RefusedWhole) || cb.header.opcode != Opcode::Fill) return;
  const auto fits = resolve_end(function, cb.payload.fill.destination, wire::kStickBytes);
  if (fits) hal::fill(fits->bytes, cb.payload.fill.pattern, wire::kStickBytes);
}

void step_transfer(Card& card, Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  Block& block = function.blocks[stream.head];
  const auto transfer = resolve_transfer(function, block.cb);
  const bool first = stream.phase == Stream::Phase::Idle;
  if (!transfer) {
    fill_what_fits(function, block.cb);
    // Before the first byte a bad address is a refusal; afterwards (the region went away) it is a fault.
    return end_head(function, index, {first ? Outcome::Rejected : Outcome::Fault, transfer.error(), hal::now()});
  }
  if (first) {
    block.start_time = hal::now();
    publish_started(function, block);
    stream.phase = Stream::Phase::Moving;
  }
  if (block.progress == transfer->bytes) [[unlikely]] {  // its last step was slow
    return end_transfer(function, index, *transfer, hal::now());
  }
  std::optional<Shot> shot;
  if (card.faults.armed(FaultPoint::DmaStep)) [[unlikely]] {
    shot = card.faults.occur(FaultPoint::DmaStep, occurrence_of(function, block.cb.header));
    if (shot && step_breaks(function, index, *shot)) return;
  }
  make_step(card, function, index, *transfer, shot);
}

// FaultPoint::Memory at what a launch is said to touch: image, correction, segments. The launch is prepared, and ends
// FAULT before its first slice.
[[gnu::cold, gnu::noinline]] void break_launch(Card& card, Function& function, unsigned index, const ControlBlock& cb) {
  const wire::ComputePayload& compute = cb.payload.compute;
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
  if (compute.correction_bytes != 0) {
    touch(compute.correction.region_id, compute.correction.generation, compute.correction.offset,
          compute.correction_bytes);
  }
  for (const wire::Segment& segment : compute.segments) {
    if (segment.access != wire::kSegmentUnused) {
      touch(segment.region_id, segment.generation, segment.offset, segment.bytes);
    }
  }
}

void start_launch(Card& card, Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  Block& block = function.blocks[stream.head];
  Verdict why;
  const Launches::Start start = card.launches.start(function, index, block, stream.launch, why);
  card.stepped_at = hal::now();
  switch (start) {
    case Launches::Start::Unfinished: function.checks_images = true; return;
    case Launches::Start::Started:
      block.image = {};
      block.start_time = card.stepped_at;
      hal::note(block.start_time, wire::RecordedEventKind::Launch, index, function.id);
      publish_started(function, block);
      ++function.stats.stats.launches;
      stream.phase = Stream::Phase::Computing;
      function.runnable.remove(index, stream.high_priority);
      if (card.faults.armed(FaultPoint::Memory)) [[unlikely]]
        break_launch(card, function, index, block.cb);
      card.launches.release(stream.launch);
      return;
    case Launches::Start::NoRoom:
      function.runnable.remove(index, stream.high_priority);  // until retry_waiting_launch
      function.launches_waiting.add(index, stream.high_priority);
      function.checks_images = true;
      return;
    case Launches::Start::Refused: return end_head(function, index, {Outcome::Rejected, why, card.stepped_at});
  }
}

void step_stream(Card& card, Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  Block& block = function.blocks[stream.head];
  if (stream.poisoned && !mutated(Mutant::Poison)) {
    return end_head(function, index, {Outcome::Aborted, {Status::StreamPoisoned}, hal::now()});
  }
  if (!block.verdict.ok()) return end_head(function, index, {Outcome::Rejected, block.verdict, hal::now()});
  if (card.faults.armed(FaultPoint::RegionEntry) && stream.phase == Stream::Phase::Idle) [[unlikely]]
    damage_entries(function, block.cb);
  switch (block.cb.header.opcode) {
    case Opcode::Dma:
    case Opcode::Fill: return step_transfer(card, function, index);
    case Opcode::Compute: return start_launch(card, function, index);
    default: break;
  }
  const std::uint64_t now = hal::now();
  block.start_time = now;
  publish_started(function, block);
  end_head(function, index, {Outcome::Ok, {}, now});
}

}  // namespace

bool fetch_blocks(Card& card, Function& function, unsigned budget) {
  PackedQueue& queue = function.queue(wire::kControlBlockQueue);
  if (!function.running() || function.reset_running) return false;
  unsigned fetched = 0;
  Chain chain;
  // One-descriptor chains can be more than there are blocks; those wait in the ring.
  while (budget-- != 0 && !function.blocks.empty() && queue.pop(chain)) {
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

namespace {

// What a quantum is charged with: bytes of transfers, and of launches that were made ready (only `function` steps now).
std::uint64_t charged_so_far(const Card& card, const Function& function) {
  const auto& stats = function.stats.stats;
  return stats.bytes_to_device + stats.bytes_from_device + stats.bytes_on_device + card.spaces.prepared_bytes();
}

}  // namespace

bool run_streams(Card& card, Function& function, unsigned budget) {
  bool any = false;
  if (function.stalls_end != kNever && function.running()) [[unlikely]]
    any |= wake_stalled(function);
  // Who waits is called by the end of a launch. One that was called and then reset has called nobody.
  while (function.running() && !function.runnable.any() && function.launches_waiting.any() &&
         !card.launches.active(function.id)) {
    retry_waiting_launch(function);
  }
  if (!function.runnable.any()) return any;
  hal::mark(wire::Waypoint::Dispatch);
  const std::uint64_t charged_before = charged_so_far(card, function);
  // Read only when a step was long: a quantum of empty blocks is over by their number.
  std::uint64_t turn_ends = kNever;
  if (card.contended()) turn_ends = hal::now() + kTurnTicks * function.weight;
  const std::uint64_t populated_before = card.pool.populated_granules();
  const unsigned budget_before = budget;
  const std::uint64_t most = kTurnBytes * function.weight;
  while (budget-- != 0 && function.running() && function.runnable.any()) {
    step_stream(card, function, function.runnable.next());
    any = true;
    const std::uint64_t charged = charged_so_far(card, function) - charged_before;
    if (charged == 0) continue;
    if (turn_ends == kNever) turn_ends = card.stepped_at + kUncontendedTurnTicks;
    // Memory that is touched for the first time is a page fault of the machine that emulates us: 0.1 ms, 5 ms were seen.
    if (mutated(Mutant::QuantumBytes)) continue;
    if (charged >= most || card.stepped_at >= turn_ends || card.pool.populated_granules() != populated_before) {
      card.look_at_all = true;
      break;
    }
  }
  if (budget == ~0u) card.look_at_all = true;  // used up
  const std::uint64_t charged = charged_so_far(card, function) - charged_before;
  card.served.bytes += charged;
  card.note_work(budget_before - budget + charged / kBytesOfAStep);
  return any;
}

void finish_head(Function& function, unsigned stream, Outcome outcome, Verdict why) {
  end_head(function, stream, {outcome, why, hal::now()});
}

void retry_waiting_launch(Function& function) {
  if (!function.launches_waiting.any() || !function.running()) return;
  const unsigned index = function.launches_waiting.next();
  const Stream& stream = function.streams[index];
  function.launches_waiting.remove(index, stream.high_priority);
  if (stream.head != kNoBlock && stream.phase != Stream::Phase::Computing) {
    function.runnable.add(index, stream.high_priority);
  }
}

void launch_ended(Function& function, const LaunchResult& result) {
  function.stats.stats.kernel_ticks += result.kernel_ticks;
  Stream& stream = function.streams[result.stream];
  if (result.warned && function.running()) {
    post_stream_event(function, wire::EventKind::WatchdogWarning, result.stream, Status::None, result.slices);
  }
  // A whole-function reset dropped the stream's blocks: nothing completes any more.
  if (stream.launch != result.launch || !function.running()) return;
  const bool aborted = result.why.status == Status::Stopped && mutated(Mutant::KernelStopped);
  const Outcome outcome = aborted ? Outcome::Aborted : result.outcome;
  end_head(function, result.stream, {outcome, result.why, result.end_time, result.fault, result.slices});
  if (stream.settling()) settle_stream_reset(function, result.stream);
}

Cancelled cancel_block(Card& card, Function& function, unsigned index, std::uint64_t sequence) {
  Stream& stream = function.streams[index];
  std::uint16_t before = kNoBlock;
  std::uint16_t at = stream.head;
  while (at != kNoBlock && function.blocks[at].cb.header.sequence != sequence) {
    before = at;
    at = function.blocks[at].next;
  }
  if (at == kNoBlock) {
    const bool fetched = sequence < stream.next_sequence;
    return fetched || !function.queue(wire::kControlBlockQueue).ready() ? Cancelled::Ended : Cancelled::NotFetched;
  }
  if (stream.phase != Stream::Phase::Idle && at == stream.head) {
    // What ran may have left half of its work behind: a fault like any other.
    if (stream.phase == Stream::Phase::Computing) {
      if (mutated(Mutant::CancelRunning)) return Cancelled::Ended;
      return card.launches.stop(stream.launch) ? Cancelled::Yes : Cancelled::Ended;
    }
    end_head(function, index, {Outcome::Fault, {Status::Stopped}, hal::now()});
    return Cancelled::Yes;
  }
  remove_block(function, index, before, at);
  complete(function, at, {Outcome::Aborted, {Status::Stopped}, hal::now()});
  return Cancelled::Yes;
}

void settle_stream_reset(Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  const Outcome left = mutated(Mutant::AbortAtReset) ? Outcome::Ok : Outcome::Aborted;
  while (stream.head != kNoBlock) finish_head(function, index, left, {Status::Stopped});
  stream.state = stream.state == Stream::State::Closing ? Stream::State::Closed : Stream::State::Open;
  stream.poisoned = stream.poisoned && mutated(Mutant::PoisonEnds);
  function.runnable.remove(index, stream.high_priority);
  function.launches_waiting.remove(index, stream.high_priority);
  // Sequence numbers start again: a word of the old incarnation would make a later death call unstarted blocks started.
  wire::store_release(function.at<std::uint64_t>(wire::kStartedSequences.offset)[index], std::uint64_t{0});
}

}  // namespace fw
