// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/raw/unawaited.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "shared/command_buffer.hpp"
#include "shared/memory_order.hpp"
#include "shared/trace.hpp"
#include "shared/units.hpp"
#include "tests/support/buffer_entry.hpp"

namespace raw {

using wire::AdminCommand;
using wire::Outcome;

namespace {

constexpr std::uint64_t kRegionBytes = 2 * wire::kMiB;
constexpr std::uint64_t kFillBytes = 64 * wire::kKiB;
// In host memory, behind the images.
constexpr std::uint64_t kTransferAt = wire::kHostMemoryOffset + 1 * wire::kMiB;
constexpr std::uint64_t kBufferAt = kTransferAt + kFillBytes;
constexpr std::uint64_t kPatchAt = kBufferAt + wire::kMaxBufferBlocks * wire::kBufferBlockBytes;
constexpr std::uint64_t kSecondCore = 2;
constexpr std::uint64_t kTwoCores = 3;

[[noreturn]] void fail(const std::string& what) { throw Broken("un-awaited requests: " + what); }

}  // namespace

UnawaitedRequests::UnawaitedRequests(RawDriver& driver, std::vector<Image> images, std::uint64_t seed, unsigned streams)
    : driver_(driver), images_(std::move(images)), random_(seed), attacked_streams_(streams) {}

void UnawaitedRequests::begin() {
  if (!driver_.bring_up()) fail("the function does not come up");
  begin_trace();
  pending_.clear();
  regions_.clear();
  buffers_.clear();
  grants_.clear();
  streams_.assign(attacked_streams_, {});
  streams_[0] = {1, 1, true};
  if (attacked_streams_ > kFewStreams) open_streams();
  if (const auto region = driver_.acquire(kRegionBytes)) regions_.push_back(*region);
  if (images_.empty()) return;
  const auto program = driver_.acquire(kRegionBytes, wire::RegionType::Program);
  if (!program) fail("no Program region");
  program_ = *program;
  std::uint64_t at = 0;
  for (Image& image : images_) {
    image.offset = at;
    at += wire::align_up(image.bytes.size(), wire::kStickBytes);
    load_image(image);
  }
}

// Nothing was submitted since the reset: what comes into the ring is of the function's last owner.
void UnawaitedRequests::begin_trace() {
  constexpr unsigned kPumps = 64;  // entries that a core has left come into the ring now and then
  auto request = driver_.admin_request(AdminCommand::Trace);
  request.arguments.trace.on = 1;
  if (driver_.admin(request).outcome != Outcome::Ok) fail("a trace was refused");
  for (unsigned i = 0; i < kPumps; ++i) driver_.pump();
  const auto* ring = driver_.at<wire::TraceEntry>(wire::kTraceRing.offset);
  for (std::uint64_t place = 0; place < wire::kTraceEntries; ++place) {
    if (wire::load_acquire(ring[place].number) != 0) fail("a new trace holds an entry of the function's last owner");
  }
  if (below(2) == 0) return;
  request.arguments.trace.on = 0;
  if (driver_.admin(request).outcome != Outcome::Ok) fail("a trace does not end");
}

void UnawaitedRequests::open_streams() {
  for (unsigned s = 1; s < attacked_streams_; ++s) {
    const auto opened = driver_.open_stream(below(2) != 0);
    if (!opened || opened->id != s) fail("a function that was reset does not open its streams in their order");
    streams_[s] = {opened->incarnation, 1, true};
  }
}

void UnawaitedRequests::know_grant(const GrantHandle& grant, const StreamHandle& awaited) {
  grants_.push_back({grant, awaited});
}

void UnawaitedRequests::load_image(Image& image) {
  std::memcpy(driver_.at<std::byte>(wire::kHostMemoryOffset), image.bytes.data(), image.bytes.size());
  StreamHandle stream{0, streams_[0].incarnation, streams_[0].next_sequence++};
  const auto end = driver_.run(driver_.dma(stream, RawDriver::host(wire::kHostMemoryOffset),
                                           RawDriver::device(program_, image.offset), image.bytes.size()));
  if (end.outcome != Outcome::Ok) fail("an image was not loaded: " + std::string(wire::name(end.status)));
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

StreamHandle UnawaitedRequests::guess(unsigned stream) {
  const Known& known = streams_[stream];
  const bool as_told = below(3) == 0;
  const std::uint32_t ahead = as_told ? 0 : 1 + (below(8) == 0);
  return {stream, known.incarnation + ahead, as_told ? known.next_sequence : 1};
}

wire::ControlBlock UnawaitedRequests::make_launch(StreamHandle& stream) {
  const Image& image = images_[below(static_cast<unsigned>(images_.size()))];
  constexpr std::uint64_t kMasks[] = {0, 0, 0, 0, 0, kSecondCore, kSecondCore, kTwoCores};
  return driver_.compute(stream, program_, image.offset, image.bytes.size(), kMasks[below(std::size(kMasks))]);
}

wire::ControlBlock UnawaitedRequests::make_dma(StreamHandle& stream, bool ahead) {
  const RegionHandle& region = regions_[below(static_cast<unsigned>(regions_.size()))];
  auto block = driver_.dma(stream, RawDriver::host(kTransferAt), RawDriver::device(region, below(4) * kFillBytes),
                           ahead ? wire::kMaxCorrectionBytes : kFillBytes);
  if (ahead) block.payload.dma.flags |= wire::kDmaAhead;
  driver_.seal(block);
  return block;
}

wire::ControlBlock UnawaitedRequests::make_transfer(StreamHandle& stream) {
  if (below(2) == 0) return make_dma(stream, below(2) == 0);
  return driver_.fill(stream, regions_[below(static_cast<unsigned>(regions_.size()))], 0, kFillBytes, random_());
}

// Mostly what is fulfilled soon or never; some wait for as long as their budget.
wire::ControlBlock UnawaitedRequests::make_event(StreamHandle& stream) {
  const unsigned kind = below(8);
  if (kind < 3) return driver_.event_signal(stream, streams_[stream.id].signalled += below(3));
  const std::uint64_t budget = below(4) == 0 ? 1 + below(1000) : 0;
  if (kind < 5 && !grants_.empty()) {
    // Mostly the last one: the others may be gone.
    const Granted& granted = below(4) != 0 ? grants_.back() : grants_[below(static_cast<unsigned>(grants_.size()))];
    return driver_.granted_wait(stream, granted.grant, granted.awaited, 1 + below(8), budget);
  }
  const unsigned awaited = below(attacked_streams_);
  const std::uint64_t value = std::max<std::uint64_t>(1, streams_[awaited].signalled + below(4) - 1);
  return driver_.event_wait(stream, guess(awaited), value, budget);
}

wire::ControlBlock UnawaitedRequests::make_call(StreamHandle& stream) {
  const Buffer& buffer = buffers_[below(static_cast<unsigned>(buffers_.size()))];
  wire::ControlBlock block{};
  block.header.opcode = buffer.launch && below(4) != 0 ? wire::Opcode::Prepared : wire::Opcode::Call;
  block.payload.call = {.buffer = buffer.id, .reserved0 = 0, .epoch = buffer.epoch, .signal_base = 0, .reserved = {}};
  if (block.header.opcode == wire::Opcode::Call) block.payload.call.signal_base = streams_[stream.id].signalled;
  return driver_.addressed(stream, block);
}

wire::ControlBlock UnawaitedRequests::make_patch(StreamHandle& stream) {
  const Buffer& buffer = buffers_[below(static_cast<unsigned>(buffers_.size()))];
  const wire::ControlBlock entry = make_entry();
  std::memcpy(driver_.at<std::byte>(kPatchAt), &entry, sizeof entry);
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Patch;
  block.payload.patch = {.buffer = buffer.id,
                         .block = below(buffer.blocks),
                         .epoch = buffer.epoch,
                         .offset = kPatchAt,
                         .bytes = wire::kBufferBlockBytes,
                         .reserved = {}};
  return driver_.addressed(stream, block);
}

wire::ControlBlock UnawaitedRequests::make_block(StreamHandle& stream) {
  const unsigned kind = below(16);
  if (kind < 6 && !images_.empty()) return make_launch(stream);
  if (kind < 9 && !regions_.empty()) return make_transfer(stream);
  if (kind < 12) return make_event(stream);
  if (kind < 14 && !buffers_.empty()) return make_call(stream);
  if (kind < 15 && !buffers_.empty()) return make_patch(stream);
  return driver_.nop(stream);
}

wire::ControlBlock UnawaitedRequests::make_entry() {
  StreamHandle nowhere;
  const unsigned kind = below(8);
  wire::ControlBlock block = driver_.nop(nowhere);
  if (kind < 2 && !images_.empty()) {
    block = make_launch(nowhere);
  } else if (kind < 5 && !regions_.empty()) {
    block = driver_.fill(nowhere, regions_[below(static_cast<unsigned>(regions_.size()))], 0, kFillBytes, random_());
  } else if (kind == 5) {
    block = driver_.event_signal(nowhere, 1 + below(3));
  } else if (kind == 6) {
    block = driver_.event_wait(nowhere, guess(below(attacked_streams_)), 1 + below(4), 1 + below(1000));
  }
  return svp::test::buffer_entry(block);
}

bool UnawaitedRequests::room_for_block() {
  return driver_.block_slot_free() && driver_.ring(wire::kControlBlockQueue).room_for(2);
}

void UnawaitedRequests::submit(const wire::ControlBlock& block) {
  const std::uint16_t slot = driver_.submit(block);
  const wire::Opcode opcode = block.header.opcode;
  opcode_of_[slot] = opcode;
  by_grant_[slot] = opcode == wire::Opcode::EventWait && block.payload.event.flags != 0;
  on_two_cores_[slot] = opcode == wire::Opcode::Compute && block.payload.compute.core_mask == kTwoCores;
  ++blocks_;
}

void UnawaitedRequests::submit_burst() {
  const unsigned stream = below(attacked_streams_);
  const StreamHandle guessed = guess(stream);
  Known& known = streams_[stream];
  if (guessed.incarnation == known.incarnation) {
    StreamHandle told = guessed;
    // A DMA behind a kernel may be moved ahead.
    if (below(4) == 0 && !images_.empty() && !regions_.empty() && room_for_block()) submit(make_launch(told));
    if (told.next_sequence != guessed.next_sequence && room_for_block()) submit(make_dma(told, true));
    for (unsigned blocks = 1 + below(4); blocks > 0 && room_for_block(); --blocks) submit(make_block(told));
    known.next_sequence = told.next_sequence;
    return;
  }
  // Copies of one block: whichever is fetched first after the incarnation has changed is the one that fits.
  for (unsigned copies = 1 + below(below(4) == 0 ? 60 : 4); copies > 0 && room_for_block(); --copies) {
    StreamHandle copy = guessed;
    submit(make_block(copy));
  }
}

void UnawaitedRequests::take_blocks() {
  for (const Ended& end : driver_.collect()) {
    if (end.written != wire::kStickBytes) fail("a block was given back without a completion");
    if (end.completion.outcome != Outcome::Ok) continue;
    ++blocks_ok_;
    ++ended_ok_[static_cast<unsigned>(opcode_of_[end.slot])];
    granted_waits_ok_ += by_grant_[end.slot] ? 1 : 0;
    two_core_launches_ok_ += on_two_cores_[end.slot] ? 1 : 0;
  }
}

// ---- requests -------------------------------------------------------------------------------------------------------

wire::AdminRequest UnawaitedRequests::make_region_request() {
  if (!regions_.empty() && below(2) == 0) {
    auto request = driver_.admin_request(AdminCommand::RegionRelease);
    request.arguments.region_release = {regions_.back().id, regions_.back().generation};
    regions_.pop_back();
    return request;
  }
  auto request = driver_.admin_request(AdminCommand::RegionAcquire);
  request.arguments.region_acquire = {kRegionBytes, wire::RegionType::Tensor};
  return request;
}

wire::AdminRequest UnawaitedRequests::make_buffer_request() {
  if (!buffers_.empty() && below(2) == 0) {
    auto request = driver_.admin_request(AdminCommand::BufferDestroy);
    const Buffer& buffer = buffers_[below(static_cast<unsigned>(buffers_.size()))];
    request.arguments.buffer_destroy = {buffer.id, 0, buffer.epoch};
    if (below(4) != 0) std::erase_if(buffers_, [&](const Buffer& one) { return one.epoch == buffer.epoch; });
    return request;
  }
  const std::uint32_t blocks = below(2) == 0 ? 1 : 1 + below(wire::kMaxBufferBlocks);
  entries_launch_ = blocks == 1 && !images_.empty();
  for (std::uint32_t i = 0; i < blocks; ++i) {
    StreamHandle nowhere;
    const wire::ControlBlock entry = entries_launch_ ? svp::test::buffer_entry(make_launch(nowhere)) : make_entry();
    std::memcpy(driver_.at<std::byte>(kBufferAt + i * sizeof entry), &entry, sizeof entry);
  }
  auto request = driver_.admin_request(AdminCommand::BufferCreate);
  request.arguments.buffer_create = {kBufferAt, blocks, 0};
  return request;
}

wire::AdminRequest UnawaitedRequests::make_other_request() {
  switch (below(4)) {
    case 0: {
      auto request = driver_.admin_request(AdminCommand::Trace);
      request.arguments.trace.on = below(3) != 0;
      return request;
    }
    case 1: {
      auto request = driver_.admin_request(AdminCommand::SelfTest);  // of a function that may not ask for one: refused
      request.arguments.self_test = {wire::SelfTestKind::Echo, 1 + below(100), kTransferAt};
      return request;
    }
    case 2: return driver_.admin_request(AdminCommand::Query);
    default: {
      auto request = driver_.admin_request(AdminCommand::EventRevoke);  // M's: refused
      request.arguments.event_revoke = {};
      return request;
    }
  }
}

wire::AdminRequest UnawaitedRequests::make_request() {
  const StreamHandle guessed = guess(below(attacked_streams_));
  const unsigned kind = below(16);
  if (kind < 4) return driver_.stream_request(AdminCommand::StreamClose, guessed);
  if (kind < 6) return driver_.stream_request(AdminCommand::StreamReset, guessed);
  if (kind < 9) {
    auto request = driver_.admin_request(AdminCommand::StreamOpen);
    request.arguments.stream_open.priority = below(2);
    return request;
  }
  if (kind < 10) {
    auto request = driver_.admin_request(AdminCommand::Cancel);
    request.arguments.cancel = {guessed.id, guessed.incarnation, guessed.next_sequence};
    return request;
  }
  if (kind < 12) return make_region_request();
  return kind < 14 ? make_buffer_request() : make_other_request();
}

void UnawaitedRequests::send(const wire::AdminRequest& request) {
  pending_.push_back(
      {driver_.send_admin(request), request.command, request.arguments.buffer_create.blocks, entries_launch_});
  ++requests_;
}

void UnawaitedRequests::send_request() {
  if (driver_.admin_slot_free()) send(make_request());
}

void UnawaitedRequests::note_reply(const Pending& pending, const wire::AdminReply& reply) {
  if (reply.outcome != Outcome::Ok) return;
  const auto& values = reply.values;
  const bool names_stream = pending.command == AdminCommand::StreamOpen || pending.command == AdminCommand::StreamReset;
  if (names_stream && values.stream.stream < attacked_streams_) {
    streams_[values.stream.stream] = {values.stream.incarnation, 1, true};
  } else if (pending.command == AdminCommand::StreamClose && values.stream.stream < attacked_streams_) {
    streams_[values.stream.stream].open = false;
    streams_[values.stream.stream].incarnation = values.stream.incarnation;
  } else if (pending.command == AdminCommand::RegionAcquire) {
    regions_.push_back({values.region.region_id, values.region.generation, values.region.bytes});
  } else if (pending.command == AdminCommand::BufferCreate) {
    buffers_.push_back({values.buffer.buffer, values.buffer.epoch, pending.blocks, pending.launch});
  }
}

void UnawaitedRequests::take_replies() {
  std::erase_if(pending_, [&](const Pending& pending) {
    const auto reply = driver_.take_admin(pending.slot);
    if (reply) note_reply(pending, *reply);
    return reply.has_value();
  });
}

// ---- resets ---------------------------------------------------------------------------------------------------------

void UnawaitedRequests::reset_queue() {
  ++queue_resets_;
  if (!driver_.reset_queue(wire::kControlBlockQueue)) fail("a queue reset was refused");
  take_blocks();
  driver_.forget_blocks();  // those that were not fetched: nobody ends them but the driver
  if (!driver_.set_queue(wire::kControlBlockQueue)) fail("a queue did not come back");
}

// All streams wait for one, which is closed and opened anew: its waiters, more than a quantum looks at, may all be
// waiting when it opens.
void UnawaitedRequests::reopen_awaited() {
  // Behind the queue's reset nothing else is in the streams, each of which is one incarnation further.
  reset_queue();
  take_replies();
  for (Known& known : streams_) {
    if (!known.open) continue;
    ++known.incarnation;
    known.next_sequence = 1;
  }
  const unsigned awaited = 1 + below(attacked_streams_ - 1);
  if (!streams_[awaited].open) return;
  ++reopenings_;
  const StreamHandle target{awaited, streams_[awaited].incarnation, 1};
  const std::uint64_t value = streams_[awaited].signalled + 1;
  for (unsigned s = 0; s < attacked_streams_ && room_for_block(); ++s) {
    Known& known = streams_[s];
    if (s == awaited || !known.open) continue;
    StreamHandle stream{s, known.incarnation, known.next_sequence++};
    submit(driver_.event_wait(stream, target, value, below(8) == 0 ? 1 + below(1000) : 0));
  }
  for (unsigned pumps = below(8); pumps > 0; --pumps) driver_.pump();
  if (!driver_.admin_slot_free()) return;
  send(driver_.stream_request(AdminCommand::StreamClose, target));
  for (unsigned pumps = below(3); pumps > 0; --pumps) driver_.pump();
  if (driver_.admin_slot_free()) send(driver_.admin_request(AdminCommand::StreamOpen));
}

void UnawaitedRequests::step() {
  const unsigned what = below(1000);
  if (what == 0) {
    ++function_resets_;
    begin();
  } else if (what < 8) {
    reset_queue();
  } else if (what < 16 && attacked_streams_ > kFewStreams) {
    reopen_awaited();
  } else if (what < 450) {
    submit_burst();
  } else if (what < 700) {
    send_request();
  } else {
    driver_.pump();
  }
  take_replies();
  take_blocks();
}

void UnawaitedRequests::drain() {
  for (const Pending& pending : pending_) {
    const auto reply = driver_.wait_admin(pending.slot);
    if (!reply) fail("no reply to " + std::string(wire::name(pending.command)));
    note_reply(pending, *reply);
  }
  pending_.clear();
  end_streams();
  reset_queue();
}

// What was submitted for the next incarnation may begin behind a reset: until nothing does.
void UnawaitedRequests::end_streams() {
  constexpr unsigned kMostRounds = 200;
  for (unsigned round = 0; round < kMostRounds && driver_.blocks_under_way() != 0; ++round) {
    for (unsigned s = 0; s < attacked_streams_; ++s) {
      // Replies that overtook each other may have left an older incarnation behind.
      for (std::uint32_t ahead = 0; ahead < 4; ++ahead) {
        StreamHandle stream{s, streams_[s].incarnation + ahead, 1};
        if (driver_.reset_stream(stream).outcome != Outcome::Ok) continue;
        streams_[s] = {stream.incarnation, 1, true};
        break;
      }
    }
    driver_.pump();
    take_blocks();
  }
  if (driver_.blocks_under_way() == 0) return;
  fail(std::to_string(driver_.blocks_under_way()) + " blocks never ended");
}

}  // namespace raw
