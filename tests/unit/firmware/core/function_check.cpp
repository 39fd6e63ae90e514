// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/firmware/core/function_check.hpp"

#include <array>
#include <map>

namespace fwtest {

namespace {

using fw::Stream;

class Check {
 public:
  Check(fw::Card& card, fw::Function& function) : card_(card), function_(function), streams_(function.streams) {}

  std::string broken() {
    for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) look_at_stream(s);
    for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) walk(streams_.timeline(s).first_waiter, false, s);
    if (!function_.manages()) {
      for (std::uint32_t g = 0; g < wire::kGrantsPerFunction; ++g) {
        walk(card_.event_grants.first_waiter(function_.id(), g), true, g);
      }
    }
    for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) {
      const unsigned wanted = streams_[s].phase == Stream::Phase::Waiting ? 1 : 0;
      expect(lists_[s] == wanted, "a stream is in one list when it waits, else in none", s);
    }
    look_at_buffers();
    if (!function_.reset.running()) look_at_launches();  // else some of it has been torn down
    return broken_;
  }

 private:
  void expect(bool holds, const char* what, unsigned number) {
    if (!holds && broken_.empty()) broken_ = std::string(what) + " (" + std::to_string(number) + ")";
  }

  void look_at_stream(unsigned s) {
    const Stream& stream = streams_[s];
    expect((stream.head == fw::kNoBlock) == (stream.count == 0), "a stream has a head when it has blocks", s);
    expect((stream.phase == Stream::Phase::Computing) == (stream.launch != fw::kNoLaunch),
           "a stream that computes has a launch", s);
    expect(stream.phase == Stream::Phase::Idle || stream.head != fw::kNoBlock, "a stream at work has a head", s);
    expect(stream.state() != fw::StreamState::Closed || stream.empty(), "a closed stream is empty", s);
    computing_ += stream.phase == Stream::Phase::Computing ? 1 : 0;
  }

  // A list of waits for one timeline of the function, or by one of its grants.
  void walk(unsigned waiter, bool granted, unsigned name) {
    for (unsigned length = 0; waiter != fw::kNoWaiter; waiter = streams_.waiter_behind(waiter), ++length) {
      const bool ends = waiter < wire::kStreamsPerFunction && length < wire::kStreamsPerFunction;
      expect(ends, "a list of waits ends", name);
      if (!ends) return;
      const bool waits = streams_[waiter].phase == Stream::Phase::Waiting;
      expect(waits, "a stream in a list of waits is waiting", waiter);
      if (!waits) return;  // it need not have a head
      const wire::EventPayload& wait = streams_.head(waiter).cb.payload.event;
      expect(((wait.flags & wire::kEventGranted) != 0) == granted && (granted ? wait.grant : wait.stream) == name,
             "a stream is in the list of what it waits for", waiter);
      ++lists_[waiter];
    }
  }

  // A command buffer has as many users as calls that have begun.
  void look_at_buffers() {
    std::map<const fw::CommandBuffer*, std::uint32_t> users;
    for (const Stream& stream : streams_) {
      for (std::uint16_t b = stream.head; b != fw::kNoBlock; b = streams_.block(b).next) {
        if (streams_.block(b).call.buffer != nullptr) ++users[streams_.block(b).call.buffer];
      }
    }
    for (const auto& [buffer, count] : users) {
      expect(buffer->users == count, "a command buffer counts the calls that use it", count);
    }
  }

  void look_at_launches() {
    expect((computing_ != 0) == card_.launches.active(function_.id()), "launches are those of streams", computing_);
    if (function_.queues[wire::kControlBlockQueue].active()) return;
    expect(computing_ == 0, "nothing runs behind a queue that was reset", computing_);
  }

  fw::Card& card_;
  fw::Function& function_;
  fw::StreamTable& streams_;
  std::array<unsigned, wire::kStreamsPerFunction> lists_{};  // by stream: in how many of them it is
  unsigned computing_ = 0;
  std::string broken_;
};

}  // namespace

std::string broken_property(fw::Card& card, fw::Function& function) { return Check(card, function).broken(); }

}  // namespace fwtest
