// SPDX-License-Identifier: Apache-2.0
// EVENT_SIGNAL and EVENT_WAIT. A wait is looked at when it comes to the head of its stream and whenever something of
// the awaited stream changes; each look decides anew whether it is fulfilled, has failed, or goes on.
//
// The awaited stream may be of another function: by a grant (event_grants.hpp), which every look finds anew.
//
// A cycle: each of its streams is held back by a wait for a signal that stands behind the wait of the next one. Every
// stream waits for at most one other, so that there is one way to follow. It is found when it closes: by a wait, or by
// a signal that is queued behind one.
#include <expected>
#include <optional>

#include "firmware/core/card.hpp"
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

// Of the function whose stream closes the cycle: it learns nothing of the streams of others.
class CycleRecord {
 public:
  explicit CycleRecord(std::uint32_t function) : function_(function) {
    record_.region_ordinal = wire::kNoRegionOrdinal;
  }
  void add(const StreamPlace& place) {
    if (place.function != function_) return;
    const std::uint64_t stream = place.stream;
    if (length_ < 8) {
      record_.offset |= stream << length_ * 8;
    } else if (length_ < wire::kCycleStreams) {
      record_.pc |= stream << (length_ - 8) * 8;
    }
    record_.argument = ++length_;
  }
  const wire::FaultRecord& record() const { return record_; }

 private:
  const std::uint32_t function_;
  wire::FaultRecord record_{};
  unsigned length_ = 0;
};

bool is_granted(const wire::EventPayload& event) { return (event.flags & wire::kEventGranted) != 0; }

// Whose timeline the wait of a function is for. Error: of its grant.
std::expected<StreamPlace, Status> awaited_by(const Card& card, std::uint32_t function,
                                              const wire::EventPayload& event) {
  if (!is_granted(event)) return StreamPlace{function, event.stream};
  return card.event_grants.find(function, {event.grant, event.epoch});
}

// The cycle that the wait at the head of `first` closes. A cycle that it is no part of has been found before. One that
// goes through other functions is found as well, when it is of no more waits than a function has streams: a walk costs
// everybody time.
std::optional<wire::FaultRecord> cycle_from(Card& card, const StreamPlace& first) {
  CycleRecord cycle(first.function);
  StreamPlace at = first;
  StreamTable& own = card.functions[first.function].streams;
  for (unsigned step = 0; step < wire::kStreamsPerFunction; ++step) {
    own.note_looks(1);
    cycle.add(at);
    const wire::EventPayload& wait = card.functions[at.function].streams.head(at.stream).cb.payload.event;
    const auto next = awaited_by(card, at.function, wait);
    if (!next) return {};
    if (*next == at) return cycle.record();  // whatever signals it comes behind it
    const StreamTable& streams = card.functions[next->function].streams;
    const Timeline& timeline = streams.timeline(next->stream);
    // A wait that has its end already, and was not stepped since, holds nothing back.
    if (wait.value <= timeline.value() || wait.incarnation != streams[next->stream].incarnation) return {};
    if (timeline.queued() < wait.value) return {};
    if (*next == first) return cycle.record();
    if (streams[next->stream].phase != Stream::Phase::Waiting) return {};
    at = *next;
  }
  return {};
}

enum class Look : std::uint8_t { Fulfilled, Failed, Unknown, GoesOn };

Look look_at(const StreamTable& streams, unsigned stream, const wire::EventPayload& event) {
  const Stream& awaited = streams[stream];
  const Timeline& timeline = streams.timeline(stream);
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

// How the wait ends, when nothing of its timeline is looked at: its grant is not there.
void end_ungranted(Function& function, unsigned index, Status status, std::uint64_t now) {
  const std::uint64_t grant = function.streams.head(index).cb.payload.event.grant;
  // It may have been revoked while the block was on its way: no error of the block.
  const Outcome outcome = status == Status::GrantRevoked ? Outcome::Aborted : Outcome::Rejected;
  end_head(function, index, {outcome, {status, Field::EventGrant, grant}, now});
}

void step_wait(Card& card, Function& function, unsigned index) {
  StreamTable& streams = function.streams;
  Block& block = streams.head(index);
  const std::uint64_t waits_since = block.start_time;
  streams.withdraw_wait(index);
  const wire::EventPayload& event = block.cb.payload.event;
  const std::uint64_t now = hal::now();
  const auto place = awaited_by(card, function.id(), event);
  if (!place) return end_ungranted(function, index, place.error(), now);
  const Verdict names = is_granted(event) ? Verdict{Status::None, Field::EventGrant, event.grant}
                                          : Verdict{Status::None, Field::EventStream, event.stream};
  const auto end = [&](Outcome outcome, Status status) {
    end_head(function, index, {outcome, {status, names.field, names.argument}, now});
  };
  const Look look = look_at(card.functions[place->function].streams, place->stream, event);
  if (look == Look::Unknown) return end(Outcome::Rejected, Status::UnknownStream);
  if (look == Look::Failed) return end(Outcome::Aborted, Status::EventFailed);
  block.start_time = waits_since != 0 ? waits_since : now;
  if (look == Look::Fulfilled) {
    publish_started(function, block);
    return end_head(function, index, {Outcome::Ok, {}, now});
  }
  if (const auto cycle = cycle_from(card, {function.id(), index})) {
    return end_head(function, index, {Outcome::Fault, {Status::EventDeadlock, names.field}, now, *cycle});
  }
  streams.park(index);
}

}  // namespace

void step_event(Card& card, Function& function, unsigned index) {
  const bool signals = function.streams.head(index).cb.header.opcode == wire::Opcode::EventSignal;
  function.streams.note_looks(kLooksOfAnEvent);
  signals ? step_signal(function, index) : step_wait(card, function, index);
  charge_looks(function);
}

}  // namespace fw
