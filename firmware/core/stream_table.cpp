// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/stream_table.hpp"

#include <utility>

#include "firmware/core/event_grants.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

void StreamTable::reset(bool first_open) {
  // First: nobody is in a list any more when a stream's state changes.
  const bool late = mutated(Mutant::ResetForgets);
  if (!late) timelines_ = {};
  for (Stream& stream : streams_) {
    const bool banned = stream.banned && mutated(Mutant::BanEnds);
    stream = Stream{};
    stream.banned = banned;
    stream.incarnation = 1;
  }
  if (first_open) set_state(0, StreamState::Open);
  if (late) timelines_ = {};
  runnable_ = StreamSet{};
  waiting_ = StreamSet{};
  checks_images_ = false;
  stalls_end_ = kNever;
  blocks_.init();
}

void StreamTable::remove(unsigned s, std::uint16_t before, std::uint16_t block) {
  Stream& stream = streams_[s];
  if (before == kNoBlock) withdraw_wait(s);
  const std::uint16_t next = blocks_[block].next;
  (before == kNoBlock ? stream.head : blocks_[before].next) = next;
  if (stream.tail == block) stream.tail = before;
  --stream.count;
  if (before != kNoBlock) return;
  // It was the head, which perhaps waited for room on the cores.
  waiting_.remove(s, stream.high_priority);
  settle_runnable(s);
}

void StreamTable::call_waiting() {
  const unsigned s = waiting_.next();
  const Stream& stream = streams_[s];
  waiting_.remove(s, stream.high_priority);
  if (stream.head != kNoBlock && stream.phase != Stream::Phase::Computing) resume(s);
}

void StreamTable::note_queued_signal(unsigned stream, std::uint64_t value) {
  timelines_[stream].note_queued(value);
  if (streams_[stream].phase == Stream::Phase::Waiting) resume(stream);
}

void StreamTable::open_timeline(unsigned stream) {
  if (timelines_[stream].first_grant != kNoEventGrant) grants_->revoke_timeline(function_, stream);
  // Streams that waited for the stream that was are in no list afterwards: they look again, and find it gone.
  BoundedWalk walk(wire::kStreamsPerFunction);
  while (timelines_[stream].first_waiter != kNoWaiter && !mutated(Mutant::OpenWithdraws)) {
    walk.step();
    const unsigned waiter = timelines_[stream].first_waiter;
    withdraw_wait(waiter);
    resume(waiter);
  }
  timelines_[stream] = {};
  timelines_[stream].opened_in = streams_[stream].incarnation;
}

std::uint8_t& StreamTable::first_beside(unsigned waiter) {
  const wire::EventPayload& event = head(waiter).cb.payload.event;
  const bool granted = (event.flags & wire::kEventGranted) != 0;
  return granted ? grants_->first_waiter(function_, event.grant) : timelines_[event.stream].first_waiter;
}

void StreamTable::park(unsigned waiter) {
  Stream& stream = streams_[waiter];
  stream.phase = Stream::Phase::Waiting;
  timelines_[waiter].next_waiter = std::exchange(first_beside(waiter), static_cast<std::uint8_t>(waiter));
  hold(waiter);
  const wire::EventPayload& event = head(waiter).cb.payload.event;
  if ((event.flags & wire::kEventGranted) != 0) grants_->note_wait(function_, event.grant, event.value);
  // Only its budget ends it then: wake_stalled().
  if (blocks_[stream.head].cb.header.budget != 0) stall(waiter, kNever);
}

void StreamTable::end_wait(unsigned waiter) {
  Stream& stream = streams_[waiter];
  if (stream.phase != Stream::Phase::Waiting) return;
  BoundedWalk walk(wire::kStreamsPerFunction);
  std::uint8_t* at = &first_beside(waiter);
  for (; *at != waiter; ++looks_) {
    if (*at == kNoWaiter) hal::panic("a stream that waits is in no list");
    walk.step();
    at = &timelines_[*at].next_waiter;
  }
  *at = timelines_[waiter].next_waiter;
  stream.phase = Stream::Phase::Idle;
  stream.stalled_until = 0;
}

void StreamTable::withdraw_wait(unsigned waiter) {
  if (streams_[waiter].phase != Stream::Phase::Waiting) return;
  blocks_[streams_[waiter].head].start_time = 0;
  end_wait(waiter);
}

void StreamTable::withdraw_all_waits() {
  for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) {
    Stream& stream = streams_[s];
    if (stream.phase != Stream::Phase::Waiting) continue;
    // Only this function's streams are in the list, and none of them stays there.
    first_beside(s) = kNoWaiter;
    blocks_[stream.head].start_time = 0;
    stream.phase = Stream::Phase::Idle;
    stream.stalled_until = 0;
  }
}

void StreamTable::call_waiters(unsigned awaited, std::uint64_t value) {
  BoundedWalk walk(wire::kStreamsPerFunction);
  for (unsigned s = timelines_[awaited].first_waiter; s != kNoWaiter; s = timelines_[s].next_waiter, ++looks_) {
    walk.step();
    if (blocks_[streams_[s].head].cb.payload.event.value <= value) resume(s);
  }
  if (timelines_[awaited].first_grant != kNoEventGrant) {
    looks_ += grants_->call_waiters(timelines_[awaited].first_grant, value);
  }
}

void StreamTable::count_queued_signals(unsigned s) {
  timelines_[s].forget_queued();
  for (std::uint16_t b = streams_[s].head; b != kNoBlock; b = blocks_[b].next) {
    if (blocks_[b].signals != 0) timelines_[s].note_queued(blocks_[b].signals);
  }
}

void StreamTable::restart_image_checks(hal::PhysicalAddress address, std::uint64_t bytes) {
  checks_images_ = false;
  for (const Stream& stream : streams_) {
    if (stream.head == kNoBlock) continue;
    ImageCheck& check = blocks_[stream.head].image;
    if (check.overlaps(address, bytes)) check = {};
    checks_images_ |= check.summed != 0;
  }
}

}  // namespace fw
