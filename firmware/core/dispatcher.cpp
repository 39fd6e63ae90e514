// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/dispatcher.hpp"

#include <algorithm>

#include "firmware/core/card.hpp"
#include "firmware/core/control_block_check.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory.hpp"
#include "firmware/hal/record.hpp"
#include "shared/memory_order.hpp"
#include "shared/timeouts.hpp"

namespace fw {

using wire::ControlBlock;
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
  count(function.stats, ending.outcome);
  if (ending.outcome != Outcome::Ok && is_violation(ending.outcome, ending.why.status)) {
    note_violation(function, ending.why.status);
  }
  wire::store_shared_words(function.at<std::uint64_t>(block.completion),
                           reinterpret_cast<const std::uint64_t*>(&completion), kStickWords);
  function.queue(wire::kControlBlockQueue).push_used(block.chain_id, block.chain_slots, wire::kStickBytes);
  function.blocks.give(index);
}

void poison(Function& function, unsigned index, Status status) {
  Stream& stream = function.streams[index];
  if (stream.poisoned || stream.resetting) return;
  stream.poisoned = true;
  hal::note(wire::RecordedEventKind::StreamPoisoned, index, function.id | static_cast<std::uint64_t>(status) << 32);
  wire::DeviceEvent event{};
  event.kind = wire::EventKind::StreamPoisoned;
  event.stream = index;
  event.incarnation = stream.incarnation;
  event.status = status;
  event.time = hal::now();
  post_event(function, event);
}

// Takes the head block off its stream and completes it.
void end_head(Function& function, unsigned index, const Ending& ending) {
  Stream& stream = function.streams[index];
  const std::uint16_t block = stream.head;
  stream.head = function.blocks[block].next;
  if (stream.head == kNoBlock) stream.tail = kNoBlock;
  --stream.count;
  stream.phase = Stream::Phase::Idle;
  complete(function, block, ending);
  if (stream.head == kNoBlock) {
    function.runnable.remove(index, stream.high_priority);
  } else {
    function.runnable.add(index, stream.high_priority);
  }
  if (ending.outcome != Outcome::Ok) poison(function, index, ending.why.status);
}

// ---- fetching -----------------------------------------------------------------------------------------------------------

bool chain_usable(const Chain& chain) {
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
void reject_chain(Function& function, const Chain& chain) {
  ++function.stats.stats.ring_violations;
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
  wire::DeviceEvent event{};
  event.kind = wire::EventKind::RingViolation;
  event.status = Status::BadChain;
  event.time = hal::now();
  post_event(function, event);
}

// Copies the block once. The first stick says how long it is; a longer claim than the chain holds is judged afterwards.
void copy_block(Function& function, const Chain& chain, ControlBlock& to) {
  wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&to), function.at<std::uint64_t>(chain.readable.offset),
                          chain.readable.bytes / 8);
}

// Whether the block names a stream of this function as it is now; only such a block may poison one.
Verdict check_address(const Function& function, const wire::ControlBlockHeader& header) {
  if (header.generation != function.generation) return {Status::StaleGeneration, Field::Generation};
  if (header.stream >= wire::kStreamsPerFunction || !function.streams[header.stream].open) {
    return {Status::UnknownStream, Field::Stream};
  }
  if (header.incarnation != function.streams[header.stream].incarnation) {
    return {Status::StaleIncarnation, Field::Incarnation};
  }
  return {};
}

void reject_now(Function& function, std::uint16_t index, const Verdict& why) {
  function.blocks[index].start_time = 0;
  complete(function, index, {Outcome::Rejected, why, hal::now()});
}

Verdict judge(const Card& card, const Function& function, const Stream& stream, const ControlBlock& cb) {
  if (stream.count >= wire::kStreamCredits) return {Status::StreamCreditsExceeded, Field::Stream};
  if (const Verdict v = check_form(cb, function.crc_negotiated(), card.core_mask()); !v.ok()) return v;
  if (cb.header.sequence != stream.next_sequence) return {Status::BadSequence, Field::Sequence};
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
  block.verdict = check_frame(block.cb.header, chain.readable.bytes);
  if (!block.verdict.ok()) return reject_now(function, index, block.verdict);
  if (const Verdict v = check_address(function, block.cb.header); !v.ok()) return reject_now(function, index, v);
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
}

// An end of a transfer after resolution: a pointer into the window or into card memory.
struct ResolvedEnd {
  std::byte* bytes;
  hal::PhysicalAddress address;  // regions only
  bool device;
};

std::expected<ResolvedEnd, Status> resolve_end(Function& function, const wire::Endpoint& end, std::uint64_t bytes) {
  if (end.kind == wire::EndpointKind::HostMemory) {
    if (!wire::host_memory(function.window.size()).contains(end.offset, bytes)) {
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

void move_step(Card& card, Function& function, Block& block, const Transfer& transfer, std::uint64_t step) {
  std::byte* to = transfer.destination.bytes + block.progress;
  if (transfer.destination.device) {
    // A cached kernel must not outlive the image it was loaded from.
    card.cores.note_write(function, transfer.destination.address + block.progress, step);
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

void step_transfer(Card& card, Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  Block& block = function.blocks[stream.head];
  const auto transfer = resolve_transfer(function, block.cb);
  const bool first = stream.phase == Stream::Phase::Idle;
  if (!transfer) {
    // Before the first byte a bad address is a refusal; afterwards (the region went away) it is a fault.
    return end_head(function, index, {first ? Outcome::Rejected : Outcome::Fault, transfer.error(), hal::now()});
  }
  if (first) {
    block.start_time = hal::now();
    publish_started(function, block);
    stream.phase = Stream::Phase::Moving;
  }
  const std::uint64_t longest = card.contended() ? kContendedStepBytes : kDmaStepBytes;
  const std::uint64_t step = std::min(transfer->bytes - block.progress, longest);
  if (transfer->destination.device && !card.pool.mark_written(transfer->destination.address + block.progress, step)) {
    return end_head(function, index, {Outcome::Fault, {Status::MemoryBudget, Field::DmaDestination}, hal::now()});
  }
  move_step(card, function, block, *transfer, step);
  const std::uint64_t now = hal::now();
  card.stepped_at = now;
  if (block.progress == transfer->bytes) return end_head(function, index, {Outcome::Ok, {}, now});
  const std::uint64_t budget = block.cb.header.budget;
  if (budget != 0 && now - block.start_time > budget) {
    end_head(function, index, {Outcome::Timeout, {Status::BudgetExpired, Field::Budget}, now});
  }
}

void start_launch(Card& card, Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  Block& block = function.blocks[stream.head];
  Verdict why;
  switch (card.cores.start(card, function, index, block.cb, why)) {
    case CoreManager::Start::Started:
      block.start_time = hal::now();
      hal::note(block.start_time, wire::RecordedEventKind::Launch, index, function.id);
      publish_started(function, block);
      ++function.stats.stats.launches;
      stream.phase = Stream::Phase::Computing;
      function.runnable.remove(index, stream.high_priority);
      card.cores.release(function, index);
      return;
    case CoreManager::Start::NoRoom:
      function.runnable.remove(index, stream.high_priority);  // until retry_waiting_launch
      function.launches_waiting.add(index);
      return;
    case CoreManager::Start::Refused: return end_head(function, index, {Outcome::Rejected, why, hal::now()});
  }
}

void step_stream(Card& card, Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  Block& block = function.blocks[stream.head];
  if (stream.poisoned) {
    return end_head(function, index, {Outcome::Aborted, {Status::StreamPoisoned}, hal::now()});
  }
  if (!block.verdict.ok()) return end_head(function, index, {Outcome::Rejected, block.verdict, hal::now()});
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
  bool any = false;
  Chain chain;
  // One-descriptor chains can be more than there are blocks; those wait in the ring.
  while (budget-- != 0 && !function.blocks.empty() && queue.pop(chain)) {
    any = true;
    hal::mark(wire::Waypoint::Fetch);
    if (chain_usable(chain) && completion_usable(chain)) {
      accept_chain(card, function, chain);
    } else {
      reject_chain(function, chain);
    }
  }
  return any;
}

namespace {

std::uint64_t moved_bytes(const Function& function) {
  const auto& stats = function.stats.stats;
  return stats.bytes_to_device + stats.bytes_from_device + stats.bytes_on_device;
}

}  // namespace

bool run_streams(Card& card, Function& function, unsigned budget) {
  bool any = false;
  // Who waits is called by the end of a launch. One that was called and then reset has called nobody.
  while (function.running() && !function.runnable.any() && function.launches_waiting.any() &&
         !card.cores.active(function)) {
    retry_waiting_launch(function);
  }
  if (!function.runnable.any()) return false;
  hal::mark(wire::Waypoint::Dispatch);
  const std::uint64_t moved_before = moved_bytes(function);
  const std::uint64_t turn_ends = card.contended() ? hal::now() + kTurnTicks * function.weight : ~std::uint64_t{0};
  const std::uint64_t populated_before = card.pool.populated_granules();
  const std::uint64_t most = kTurnBytes * function.weight;
  while (budget-- != 0 && function.running() && function.runnable.any()) {
    step_stream(card, function, function.runnable.next());
    any = true;
    const std::uint64_t moved = moved_bytes(function) - moved_before;
    if (moved == 0) continue;
    // Memory that is touched for the first time is a page fault of the machine that emulates us: 0.1 ms, 5 ms were seen.
    if (moved >= most || card.stepped_at >= turn_ends || card.pool.populated_granules() != populated_before) {
      card.look_at_all = true;
      break;
    }
  }
  if (budget == ~0u) card.look_at_all = true;  // used up
  return any;
}

void finish_head(Function& function, unsigned stream, Outcome outcome, Verdict why) {
  end_head(function, stream, {outcome, why, hal::now()});
}

void retry_waiting_launch(Function& function) {
  if (!function.launches_waiting.any() || !function.running()) return;
  const unsigned index = function.launches_waiting.take();
  const Stream& stream = function.streams[index];
  if (stream.head != kNoBlock && stream.phase != Stream::Phase::Computing) {
    function.runnable.add(index, stream.high_priority);
  }
}

void launch_ended(Function& function, const LaunchResult& result) {
  function.stats.stats.kernel_ticks += result.kernel_ticks;
  Stream& stream = function.streams[result.stream];
  // A whole-function reset dropped the stream's blocks: nothing completes any more.
  if (stream.phase != Stream::Phase::Computing || !function.running()) return;
  end_head(function, result.stream, {result.outcome, result.why, result.end_time, result.fault, result.slices});
  if (stream.resetting) settle_stream_reset(function, result.stream);
}

void settle_stream_reset(Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  while (stream.head != kNoBlock) finish_head(function, index, Outcome::Aborted, {Status::Stopped});
  stream.resetting = false;
  stream.poisoned = false;
  function.runnable.remove(index, stream.high_priority);
  function.launches_waiting.remove(index);
  // Sequence numbers start again: a word of the old incarnation would make a later death call unstarted blocks started.
  wire::store_release(function.at<std::uint64_t>(wire::kStartedSequences.offset)[index], std::uint64_t{0});
}

}  // namespace fw
