// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/raw/unawaited.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "shared/units.hpp"

namespace raw {

using wire::AdminCommand;
using wire::Outcome;

namespace {

constexpr std::uint64_t kRegionBytes = 2 * wire::kMiB;
constexpr std::uint64_t kFillBytes = 64 * wire::kKiB;

[[noreturn]] void fail(const std::string& what) { throw Broken("un-awaited requests: " + what); }

}  // namespace

UnawaitedRequests::UnawaitedRequests(RawDriver& driver, std::vector<Image> images, std::uint64_t seed)
    : driver_(driver), images_(std::move(images)), random_(seed) {}

void UnawaitedRequests::begin() {
  if (!driver_.bring_up()) fail("the function does not come up");
  pending_.clear();
  regions_.clear();
  streams_.assign(kStreams, {});
  streams_[0] = {1, 1, true};
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

wire::ControlBlock UnawaitedRequests::make_block(StreamHandle& stream) {
  const unsigned kind = below(8);
  if (kind < 5 && !images_.empty()) {
    const Image& image = images_[below(static_cast<unsigned>(images_.size()))];
    return driver_.compute(stream, program_, image.offset, image.bytes.size(), 0);
  }
  if (kind < 7 && !regions_.empty()) {
    const RegionHandle& region = regions_[below(static_cast<unsigned>(regions_.size()))];
    return driver_.fill(stream, region, 0, kFillBytes, random_());
  }
  return driver_.nop(stream);
}

void UnawaitedRequests::submit_burst() {
  const unsigned stream = below(kStreams);
  // Copies of one block: whichever is fetched first after the incarnation has changed is the one that fits.
  const StreamHandle guessed = guess(stream);
  const bool advances = guessed.incarnation == streams_[stream].incarnation;
  for (unsigned copies = 1 + below(below(4) == 0 ? 60 : 4); copies > 0 && driver_.block_slot_free(); --copies) {
    if (!driver_.ring(wire::kControlBlockQueue).room_for(2)) return;
    StreamHandle copy = guessed;
    driver_.submit(make_block(copy));
    ++blocks_;
    if (advances) {
      ++streams_[stream].next_sequence;
      return;
    }
  }
}

void UnawaitedRequests::take_blocks() {
  for (const Ended& end : driver_.collect()) {
    if (end.written != wire::kStickBytes) fail("a block was given back without a completion");
    if (end.completion.outcome == Outcome::Ok) ++blocks_ok_;
  }
}

// ---- requests -------------------------------------------------------------------------------------------------------

wire::AdminRequest UnawaitedRequests::make_request() {
  const unsigned stream = below(kStreams);
  const StreamHandle guessed = guess(stream);
  switch (below(10)) {
    case 0:
    case 1:
    case 2: return driver_.stream_request(AdminCommand::StreamClose, guessed);
    case 3:
    case 4: return driver_.stream_request(AdminCommand::StreamReset, guessed);
    case 5:
    case 6: {
      auto request = driver_.admin_request(AdminCommand::StreamOpen);
      request.arguments.stream_open.priority = below(2);
      return request;
    }
    case 7: {
      auto request = driver_.admin_request(AdminCommand::Cancel);
      request.arguments.cancel = {guessed.id, guessed.incarnation, guessed.next_sequence};
      return request;
    }
    case 8:
      if (!regions_.empty()) {
        auto request = driver_.admin_request(AdminCommand::RegionRelease);
        request.arguments.region_release = {regions_.back().id, regions_.back().generation};
        regions_.pop_back();
        return request;
      }
      [[fallthrough]];
    default: {
      auto request = driver_.admin_request(AdminCommand::RegionAcquire);
      request.arguments.region_acquire = {kRegionBytes, wire::RegionType::Tensor};
      return request;
    }
  }
}

void UnawaitedRequests::send_request() {
  if (!driver_.admin_slot_free()) return;
  const wire::AdminRequest request = make_request();
  pending_.push_back({driver_.send_admin(request), request.command});
  ++requests_;
}

void UnawaitedRequests::note_reply(const Pending& pending, const wire::AdminReply& reply) {
  if (reply.outcome != Outcome::Ok) return;
  const auto& values = reply.values;
  const bool names_stream = pending.command == AdminCommand::StreamOpen || pending.command == AdminCommand::StreamReset;
  if (names_stream && values.stream.stream < kStreams) {
    streams_[values.stream.stream] = {values.stream.incarnation, 1, true};
  } else if (pending.command == AdminCommand::StreamClose && values.stream.stream < kStreams) {
    streams_[values.stream.stream].open = false;
    streams_[values.stream.stream].incarnation = values.stream.incarnation;
  } else if (pending.command == AdminCommand::RegionAcquire) {
    regions_.push_back({values.region.region_id, values.region.generation, values.region.bytes});
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

void UnawaitedRequests::step() {
  const unsigned what = below(1000);
  if (what == 0) {
    ++function_resets_;
    begin();
  } else if (what < 8) {
    reset_queue();
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
    for (unsigned s = 0; s < kStreams; ++s) {
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
