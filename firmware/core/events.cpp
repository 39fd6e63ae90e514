// SPDX-License-Identifier: Apache-2.0
// EVENT_SIGNAL and EVENT_WAIT. A wait is looked at when it comes to the head of its stream and whenever something of
// the awaited stream changes; each look decides anew whether it is fulfilled, has failed, or goes on.
//
// A cycle: each of its streams is held back by a wait for a signal that stands behind the wait of the next one. Every
// stream waits for at most one other, so that there is one way to follow. It is found when it closes: by a wait, or by
// a signal that is queued behind one.
#include <optional>

#include "firmware/core/steps.hpp"
#include "firmware/hal/hart.hpp"

namespace fw {

using wire::Field;
using wire::Outcome;
using wire::Status;

namespace {

void step_signal(Function& function, unsigned index) {
  Block& block = function.streams.head(index);
  const std::uint64_t value = block.cb.payload.event.value;
  const std::uint64_t now = hal::now();
  if (value <= function.streams.timeline(index).value()) {
    return end_head(function, index, {Outcome::Rejected, {Status::EventRegressed, Field::EventValue}, now});
  }
  block.start_time = now;
  publish_started(function, block);
  function.streams.signal(index, value);
  end_head(function, index, {Outcome::Ok, {}, now});
}

class CycleRecord {
 public:
  CycleRecord() { record_.region_ordinal = wire::kNoRegionOrdinal; }
  void add(unsigned stream) {
    if (length_ < 8) {
      record_.offset |= std::uint64_t{stream} << length_ * 8;
    } else if (length_ < wire::kCycleStreams) {
      record_.pc |= std::uint64_t{stream} << (length_ - 8) * 8;
    }
    record_.argument = ++length_;
  }
  const wire::FaultRecord& record() const { return record_; }

 private:
  wire::FaultRecord record_{};
  unsigned length_ = 0;
};

// The cycle that the wait at the head of `first` closes. A cycle that it is no part of has been found before.
std::optional<wire::FaultRecord> cycle_from(StreamTable& streams, unsigned first) {
  CycleRecord cycle;
  unsigned at = first;
  for (unsigned step = 0; step < wire::kStreamsPerFunction; ++step) {
    cycle.add(at);
    const wire::EventPayload& wait = streams.head(at).cb.payload.event;
    if (wait.stream == at) return cycle.record();  // whatever signals it comes behind it
    if (streams.timeline(wait.stream).queued() < wait.value) return {};
    if (wait.stream == first) return cycle.record();
    if (streams[wait.stream].phase != Stream::Phase::Waiting) return {};
    at = wait.stream;
  }
  return {};
}

enum class Look : std::uint8_t { Fulfilled, Failed, Unknown, GoesOn };

Look look_at(const StreamTable& streams, const wire::EventPayload& event) {
  const Stream& awaited = streams[event.stream];
  const Timeline& timeline = streams.timeline(event.stream);
  if (event.incarnation > awaited.incarnation) return Look::Unknown;
  if (event.incarnation == awaited.incarnation) {
    if (event.value <= timeline.value()) return Look::Fulfilled;
    if (awaited.state() == StreamState::Closed) return Look::Unknown;
    return awaited.state() == StreamState::Open ? Look::GoesOn : Look::Failed;
  }
  // How far the incarnation before the present one came is known.
  const bool last = event.incarnation + 1 == awaited.incarnation;
  return last && event.value <= timeline.value_before() ? Look::Fulfilled : Look::Failed;
}

void step_wait(Function& function, unsigned index) {
  StreamTable& streams = function.streams;
  Block& block = streams.head(index);
  const std::uint64_t waits_since = block.start_time;
  streams.withdraw_wait(index);
  const wire::EventPayload& event = block.cb.payload.event;
  const std::uint64_t now = hal::now();
  const auto end = [&](Outcome outcome, Status status) {
    end_head(function, index, {outcome, {status, Field::EventStream, event.stream}, now});
  };
  const Look look = look_at(streams, event);
  if (look == Look::Unknown) return end(Outcome::Rejected, Status::UnknownStream);
  if (look == Look::Failed) return end(Outcome::Aborted, Status::EventFailed);
  block.start_time = waits_since != 0 ? waits_since : now;
  if (look == Look::Fulfilled) {
    publish_started(function, block);
    return end_head(function, index, {Outcome::Ok, {}, now});
  }
  if (const auto cycle = cycle_from(streams, index)) {
    return end_head(function, index, {Outcome::Fault, {Status::EventDeadlock, Field::EventStream}, now, *cycle});
  }
  streams.park(index, event.stream);
}

}  // namespace

void step_event(Function& function, unsigned index) {
  const bool signals = function.streams.head(index).cb.header.opcode == wire::Opcode::EventSignal;
  signals ? step_signal(function, index) : step_wait(function, index);
}

}  // namespace fw
