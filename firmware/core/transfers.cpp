// SPDX-License-Identifier: Apache-2.0
// DMA and FILL, in steps. Both ends are resolved at every step: a region may be released between two of them.
#include <algorithm>
#include <expected>
#include <optional>

#include "firmware/core/card.hpp"
#include "firmware/core/charges.hpp"
#include "firmware/core/dispatcher.hpp"
#include "firmware/core/fault_actions.hpp"
#include "firmware/core/steps.hpp"
#include "firmware/core/transfer.hpp"
#include "firmware/hal/array.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::ControlBlock;
using wire::FaultAction;
using wire::FaultPoint;
using wire::Field;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

std::expected<ResolvedEnd, Status> resolve_end(Function& function, const wire::Endpoint& end, std::uint64_t bytes) {
  if (end.kind == wire::EndpointKind::HostMemory) {
    // A mutant leaves the window's header alone: a driver that finds that broken finds nothing else.
    const bool in_window =
        end.offset >= wire::kCompletions.offset && wire::range_inside(end.offset, bytes, function.window().size());
    if (!wire::host_memory(function.window().size()).contains(end.offset, bytes) &&
        !(in_window && mutated(Mutant::HostRange))) {
      if (mutated(Mutant::HostEnd)) return ResolvedEnd{function.window().data() + wire::kHostMemoryOffset, 0, false};
      return std::unexpected(Status::NotHostMemory);
    }
    return ResolvedEnd{function.window().data() + end.offset, 0, false};
  }
  const auto place = function.regions.resolve(end.region_id, end.generation, end.offset, bytes);
  if (!place) return std::unexpected(place.error());
  return ResolvedEnd{hal::pointer(place->address), place->address, true};
}

namespace {

bool overlap(const ResolvedEnd& a, const ResolvedEnd& b, std::uint64_t bytes) {
  return a.device && b.device && a.address < b.address + bytes && b.address < a.address + bytes;
}

// Resolves both ends for the whole transfer. Done at every step: a region may be released between two of them.
// Inlined, like move_step(): each small transfer runs through both, and a call costs two look-ups of jump targets.
[[gnu::always_inline]] inline std::expected<Transfer, Verdict> resolve_transfer(Function& function,
                                                                                const ControlBlock& cb) {
  if (cb.header.opcode == Opcode::Fill) {
    const auto& fill = cb.payload.fill;
    const auto destination = resolve_end(function, fill.destination, fill.bytes);
    if (!destination) return std::unexpected(Verdict{destination.error(), Field::FillDestination});
    return Transfer{{}, *destination, fill.bytes};
  }
  if (wire::is_strided(cb)) return resolve_strided(function, cb);
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

}  // namespace

Verdict judge_transfer(Function& function, const ControlBlock& cb) {
  const auto transfer = resolve_transfer(function, cb);
  return transfer ? Verdict{} : transfer.error();
}

void count_bytes(Function& function, const ControlBlock& cb, std::uint64_t bytes, std::uint64_t cost) {
  function.charge(cost);
  auto& stats = function.counters();
  if (cb.header.opcode == Opcode::Dma && cb.payload.dma.source.kind == wire::EndpointKind::HostMemory) {
    stats.bytes_to_device += bytes;
  } else if (cb.header.opcode == Opcode::Dma && cb.payload.dma.destination.kind == wire::EndpointKind::HostMemory) {
    stats.bytes_from_device += bytes;
  } else {
    stats.bytes_on_device += bytes;
  }
}

namespace {

[[gnu::always_inline]] inline void move_step(Card& card, Function& function, Block& block, const Transfer& transfer,
                                             std::uint64_t step) {
  std::byte* to = transfer.destination.bytes + block.progress;
  if (transfer.destination.device) {
    // A cached kernel must not outlive the image it was loaded from.
    card.spaces.note_write(function.id(), transfer.destination.address + block.progress, step);
    function.streams.note_write(transfer.destination.address + block.progress, step);
  }
  if (block.cb.header.opcode == Opcode::Fill) {
    hal::fill(to, block.cb.payload.fill.pattern, step);
  } else {
    hal::mark(wire::Waypoint::Dma);
    hal::copy(to, transfer.source.bytes + block.progress, step,
              transfer.bytes < kStreamedBytes ? hal::Reuse::Soon : hal::Reuse::Late);
  }
  block.progress += step;
  count_bytes(function, block.cb, step, step);
}

// ---- broken on purpose ----------------------------------------------------------------------------------------------

// FaultPoint::DmaStep, before the step moves anything. True when the step must not go on.
[[gnu::cold, gnu::noinline]] bool step_breaks(Function& function, unsigned index, Shot shot) {
  if (shot.action == FaultAction::Stall) {
    function.streams.stall(index, shot.argument == 0 ? kNever - 1 : hal::now() + shot.argument);
    return true;
  }
  const bool aborted = shot.action == FaultAction::Slow && mutated(Mutant::TransferSlow);
  if (shot.action != FaultAction::Abort && !aborted) return false;
  end_head(function, index, {Outcome::Fault, {Status::TransferAborted}, hal::now()});
  return true;
}

}  // namespace

bool memory_breaks(Card& card, Function& function, unsigned index, const Transfer& transfer, std::int64_t in_source,
                   std::int64_t in_destination, std::uint64_t bytes) {
  const Block& block = function.streams.head(index);
  const auto* ends = block.cb.header.opcode == Opcode::Fill ? nullptr : &block.cb.payload.dma;
  for (const bool source : {true, false}) {
    const ResolvedEnd& end = source ? transfer.source : transfer.destination;
    if (!end.device) continue;
    const hal::PhysicalAddress begin = end.address + static_cast<std::uint64_t>(source ? in_source : in_destination);
    hal::PhysicalAddress place;
    if (!memory_fails(card, function, block.cb.header, begin, begin + bytes, place)) continue;
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

namespace {

// ---- steps ----------------------------------------------------------------------------------------------------------

bool carries_checksum(const ControlBlock& cb) {
  return cb.header.opcode == Opcode::Dma && (cb.payload.dma.flags & wire::kDmaChecksum) != 0;
}

// What has arrived in the card is read back; on the way out of it, or inside it, the source is what is summed.
void sum_step(Block& block, const Transfer& transfer, std::uint64_t from) {
  if (wire::is_strided(block.cb)) return sum_strided(block, transfer, from);
  const bool to_card = !transfer.source.device;
  const std::byte* bytes = (to_card ? transfer.destination : transfer.source).bytes + from;
  block.checksum = hal::checksum(block.checksum, bytes, block.progress - from);
}

// The end of a transfer whose bytes have all been moved.
void end_transfer(Function& function, unsigned index, const Transfer& transfer, std::uint64_t now) {
  Block& block = function.streams.head(index);
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

std::uint64_t longest_step(const Card& card, const Block& block) {
  if (carries_checksum(block.cb)) {
    const bool short_step = card.contended() && hal::array_version() == 0;
    return short_step ? kContendedChecksumStepBytes : kChecksumStepBytes;
  }
  return card.contended() ? kContendedStepBytes : kDmaStepBytes;
}

// False when the block has ended.
bool move_linear(Card& card, Function& function, unsigned index, const Transfer& transfer, std::uint64_t longest) {
  Block& block = function.streams.head(index);
  const std::uint64_t step = std::min(transfer.bytes - block.progress, longest);
  if (transfer.destination.device &&
      !card.pool.mark_written(function.id(), transfer.destination.address + block.progress, step)) {
    end_head(function, index, {Outcome::Fault, {Status::MemoryBudget, Field::DmaDestination}, hal::now()});
    return false;
  }
  const auto at = static_cast<std::int64_t>(block.progress);
  if (card.faults.armed(FaultPoint::Memory)) [[unlikely]]
    if (memory_breaks(card, function, index, transfer, at, at, step)) return false;
  move_step(card, function, block, transfer, step);
  return true;
}

// FaultAction::Corrupt: one of the bytes that were moved since `from`.
[[gnu::cold, gnu::noinline]] void corrupt_step(const Block& block, const Transfer& transfer, std::uint64_t from,
                                               std::uint64_t argument) {
  if (block.progress == from) return;  // nothing was moved
  const std::uint64_t byte = from + argument % (block.progress - from);
  const bool strided = wire::is_strided(block.cb);
  *(strided ? destination_byte(block, transfer, byte) : transfer.destination.bytes + byte) ^= std::byte{0xff};
}

// One step of a transfer that is in order, or broken by `shot`.
void make_step(Card& card, Function& function, unsigned index, const Transfer& transfer,
               const std::optional<Shot>& shot) {
  Stream& stream = function.streams[index];
  Block& block = function.streams.block(stream.head);
  const std::uint64_t began = shot ? hal::now() : 0;
  const std::uint64_t from = block.progress;
  const std::uint64_t longest = longest_step(card, block);
  const bool strided = wire::is_strided(block.cb);
  if (strided ? !move_strided(card, function, index, transfer, longest)
              : !move_linear(card, function, index, transfer, longest)) {
    return;
  }
  if (shot && shot->action == FaultAction::Corrupt) corrupt_step(block, transfer, from, shot->argument);
  if (carries_checksum(block.cb)) {
    sum_step(block, transfer, from);
    if (card.contended()) function.charge(charge_of_summing(block.progress - from));
  }
  const std::uint64_t now = hal::now();
  card.heart.stepped(now);
  const bool slow = shot && shot->action == FaultAction::Slow;
  // A slow last step is not over yet: the transfer ends when its stream goes on (step_transfer).
  if (block.progress == transfer.bytes && !slow) end_transfer(function, index, transfer, now);
  if (stream.phase != Stream::Phase::Moving) return;  // it has ended
  const std::uint64_t budget = block.cb.header.budget;
  const bool late = now - block.start_time > budget || mutated(Mutant::TransferInTime);
  if (budget != 0 && late && !mutated(Mutant::TransferBudget)) {
    return end_head(function, index, {Outcome::Timeout, {Status::BudgetExpired, Field::Budget}, now});
  }
  if (slow) function.streams.stall(index, now + (now - began) * (shot->argument - 1));
}

// Of a mutant: a FILL over a region's end, as far as it fits.
void fill_what_fits(Function& function, const ControlBlock& cb) {
  if (!mutated(Mutant::RefusedWhole) || cb.header.opcode != Opcode::Fill) return;
  const auto fits = resolve_end(function, cb.payload.fill.destination, wire::kStickBytes);
  if (fits) hal::fill(fits->bytes, cb.payload.fill.pattern, wire::kStickBytes);
}

}  // namespace

// Aligned as start_launch() is, and for the same reason.
[[gnu::aligned(128)]] void step_transfer(Card& card, Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  Block& block = function.streams.block(stream.head);
  const auto transfer = resolve_transfer(function, block.cb);
  const bool first = stream.phase == Stream::Phase::Idle;
  if (!transfer) {
    fill_what_fits(function, block.cb);
    // Before the first byte a bad address is a refusal; afterwards (the region went away) it is a fault.
    return end_head(function, index, {first ? Outcome::Rejected : Outcome::Fault, transfer.error(), hal::now()});
  }
  if (first) {
    function.charge(kBytesOfATransfer);
    block.start_time = hal::now();
    publish_started(function, block);
    if (wire::is_strided(block.cb)) prepare_strided(block);
    stream.phase = Stream::Phase::Moving;
    if (block.moved_ahead) [[unlikely]]
      block.progress = transfer->bytes;
  }
  // Every step moves at most what is left: a progress beyond the end would make that nearly endless.
  if (block.progress > transfer->bytes) [[unlikely]]
    hal::panic("a transfer has moved more than its bytes");
  if (block.progress == transfer->bytes) [[unlikely]] {  // its last step was slow, or it was moved ahead
    return end_transfer(function, index, *transfer, hal::now());
  }
  std::optional<Shot> shot;
  if (card.faults.armed(FaultPoint::DmaStep)) [[unlikely]] {
    shot = card.faults.occur(FaultPoint::DmaStep, occurrence_of(function, block.cb.header));
    if (shot && step_breaks(function, index, *shot)) return;
  }
  make_step(card, function, index, *transfer, shot);
}

namespace {

// Faults that the steps of a transfer look for.
constexpr std::uint64_t kTransferPoints =
    point_bit(FaultPoint::DmaStep) | point_bit(FaultPoint::Memory) | point_bit(FaultPoint::RegionEntry);

bool is_ahead(const Block& block) {
  return block.verdict.ok() && !block.moved_ahead && block.cb.header.opcode == Opcode::Dma &&
         (block.cb.payload.dma.flags & (wire::kDmaAhead | wire::kDmaChecksum)) == wire::kDmaAhead;
}

}  // namespace

namespace {

[[gnu::cold, gnu::noinline]] void note_ahead(Card& card, const Function& function, const Block& block,
                                             std::uint64_t began) {
  wire::TraceEntry entry{};
  entry.kind = wire::TraceKind::Ahead;
  entry.begin = began;
  entry.end = hal::now();
  entry.stream = block.cb.header.stream;
  entry.sequence = block.cb.header.sequence;
  entry.value = block.cb.payload.dma.bytes;
  card.traces.write(function.id(), entry);
}

}  // namespace

// What is in its way now is said when it comes to the head of its stream.
void move_ahead(Card& card, Function& function, const Stream& stream) {
  const Block& head = function.streams.block(stream.head);
  // Of a call, later blocks may use what the DMA writes.
  if (head.next == kNoBlock || head.call.buffer != nullptr || stream.state() != StreamState::Open) return;
  Block& block = function.streams.block(head.next);
  const std::uint64_t cores = head.cb.payload.compute.core_mask;
  // Of core 0 alone: hart 0 would compute nothing meanwhile.
  if (!is_ahead(block) || cores <= 1 || card.faults.armed_any(kTransferPoints)) return;
  const auto transfer = resolve_transfer(function, block.cb);
  if (!transfer) return;
  // Blocks are fetched, and moved ahead, outside of the quantum that ends with memory that is touched first.
  if (!card.pool.populated(transfer->destination.address, transfer->bytes)) return;
  if (!card.pool.mark_written(function.id(), transfer->destination.address, transfer->bytes)) return;
  const bool traced = card.traces.on(function.id());
  const std::uint64_t began = traced ? hal::now() : 0;
  move_step(card, function, block, *transfer, transfer->bytes);
  block.progress = 0;
  block.moved_ahead = true;
  if (traced) [[unlikely]]
    note_ahead(card, function, block, began);
}

namespace {

// What the time-out of the head is told to be of: of a wait, what it waited for.
Verdict budget_expired(const Stream& stream, const Block& head) {
  if (stream.phase != Stream::Phase::Waiting) return {Status::BudgetExpired, Field::Budget};
  const wire::EventPayload& event = head.cb.payload.event;
  if ((event.flags & wire::kEventGranted) != 0) return {Status::BudgetExpired, Field::EventGrant, event.grant};
  return {Status::BudgetExpired, Field::EventStream, event.stream};
}

}  // namespace

bool wake_stalled(Function& function) {
  const std::uint64_t now = hal::now();
  const std::uint64_t charged_before = function.charged();
  std::uint64_t next = kNever;
  bool ended = false;
  for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) {
    Stream& stream = function.streams[s];
    if (stream.stalled_until == 0) continue;
    if (function.charged() - charged_before >= kQuantumBytes) {
      next = now;  // the others in the next quantum
      break;
    }
    const Block& block = function.streams.block(stream.head);
    const std::uint64_t budget = mutated(Mutant::TransferBudget) ? 0 : block.cb.header.budget;
    const std::uint64_t budget_end =
        budget == 0 || budget >= kNever - block.start_time ? kNever : block.start_time + budget;
    if (now > budget_end) {
      const Verdict why = budget_expired(stream, block);
      function.streams.end_wait(s);
      end_head(function, s, {Outcome::Timeout, why, now});
      function.charge(kBytesOfAStep);
      charge_looks(function);
      ended = true;
    } else if (now >= stream.stalled_until) {
      function.streams.end_stall(s);
    } else {
      // One more, because a budget is used up when more than it has passed.
      next = std::min({next, stream.stalled_until, budget_end == kNever ? kNever : budget_end + 1});
    }
  }
  // Of those that will never go on: looked at, but not awake for.
  function.streams.look_at_stalls_at(next);
  return ended;
}

}  // namespace fw
