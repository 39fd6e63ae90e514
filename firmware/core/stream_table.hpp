// SPDX-License-Identifier: Apache-2.0
// The streams of one function with their blocks, and which of them want something of hart 0. Hart 0 only.
//
// Runnable are streams whose head can make a step. A stream with a head is not runnable while its launch runs, while it
// waits for room on the cores or for an event, or while a fault holds its transfer back; one without a head never is.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "firmware/core/stream.hpp"
#include "firmware/core/timelines.hpp"

namespace fw {

class EventGrants;

class StreamTable {
 public:
  void init(std::uint32_t function, EventGrants& grants) {
    function_ = function;
    grants_ = &grants;
  }
  // As new: no blocks, every stream of incarnation 1 and closed, but stream 0 open when `first_open`.
  void reset(bool first_open);

  Stream& operator[](unsigned stream) { return streams_[stream]; }
  const Stream& operator[](unsigned stream) const { return streams_[stream]; }
  auto begin() { return streams_.begin(); }
  auto end() { return streams_.end(); }
  auto begin() const { return streams_.begin(); }
  auto end() const { return streams_.end(); }

  // Who waits for the stream looks again: it signals nothing any more, or something else.
  void set_state(unsigned stream, StreamState to) {
    fw::set_state(Machine::Stream, streams_[stream].machine, to, function_ | std::uint64_t{stream} << 32);
    if (timelines_[stream].awaited()) [[unlikely]]
      call_waiters(stream, kNever);
  }

  // ---- blocks

  bool room() const { return !blocks_.empty(); }  // for one more block
  std::uint16_t take_block() { return blocks_.take(); }
  void give_block(std::uint16_t block) { blocks_.give(block); }
  Block& block(std::uint16_t block) { return blocks_[block]; }
  Block& head(unsigned stream) { return blocks_[streams_[stream].head]; }

  // At the end of the stream that it names.
  [[gnu::always_inline]] void append(std::uint16_t block);
  // Takes the head off its stream, which goes on with the next one. The stream does not wait (end_wait()).
  [[gnu::always_inline]] std::uint16_t take_head(unsigned stream);
  // The head is another block of its command buffer now, and has not started.
  void begin_next_of_call(unsigned stream) {
    streams_[stream].phase = Stream::Phase::Idle;
    streams_[stream].launch = kNoLaunch;
    streams_[stream].stalled_until = 0;
    resume(stream);
  }
  // Takes a block that has not started out of its stream. `before` is the one in front of it, or kNoBlock.
  void remove(unsigned stream, std::uint16_t before, std::uint16_t block);

  // ---- who wants something

  bool any_runnable() const { return runnable_.any(); }
  unsigned next_runnable() { return runnable_.next(); }  // any_runnable(); it stays runnable
  void hold(unsigned stream) { runnable_.remove(stream, streams_[stream].high_priority); }
  void resume(unsigned stream) { runnable_.add(stream, streams_[stream].high_priority); }
  void hold_all() { runnable_ = StreamSet{}; }
  // Its launch finds no room on the cores.
  void wait_for_room(unsigned stream) {
    hold(stream);
    waiting_.add(stream, streams_[stream].high_priority);
  }
  bool any_waiting() const { return waiting_.any(); }
  // One that waits for room tries again, in turn; any_waiting().
  void call_waiting();
  // The stream has no head, and wants nothing.
  void rest(unsigned stream) {
    hold(stream);
    waiting_.remove(stream, streams_[stream].high_priority);
  }

  // ---- events (events.cpp)

  const Timeline& timeline(unsigned stream) const { return timelines_[stream]; }
  // STREAM_OPEN: nobody can wait for what comes. Grants of the timeline that was are revoked.
  void open_timeline(unsigned stream);
  // The next incarnation of the stream begins.
  void renew_timeline(unsigned stream) { timelines_[stream].begin_incarnation(); }
  // A signal stands in the stream's queue. A stream that waits itself may have closed a cycle: it looks again.
  [[gnu::cold, gnu::noinline]] void note_queued_signal(unsigned stream, std::uint64_t value);
  // A signal was taken out of the stream's queue again.
  [[gnu::cold, gnu::noinline]] void count_queued_signals(unsigned stream);
  void signal(unsigned stream, std::uint64_t value) {
    timelines_[stream].signal(value);
    if (timelines_[stream].awaited()) call_waiters(stream, value);
  }
  // The EVENT_WAIT at the head of `waiter` is not fulfilled: the stream is held until it is called.
  [[gnu::cold, gnu::noinline]] void park(unsigned waiter);
  // If it waits: its head is about to end, or to be looked at again.
  [[gnu::cold, gnu::noinline]] void end_wait(unsigned waiter);
  // Likewise, and the head ends as one that has not started.
  [[gnu::cold, gnu::noinline]] void withdraw_wait(unsigned waiter);
  // Likewise of all streams, without a walk along the lists for each.
  [[gnu::cold, gnu::noinline]] void withdraw_all_waits();
  // Entries of lists of waits that were looked at since the last call: what events cost besides their blocks.
  std::uint32_t take_looks() { return std::exchange(looks_, 0); }
  void note_looks(std::uint32_t looks) { looks_ += looks; }
  // Of EventGrants: the list of a timeline's grants, of a grant's waiters.
  std::uint16_t& grants_of(unsigned stream) { return timelines_[stream].first_grant; }
  std::uint8_t waiter_behind(unsigned waiter) const { return timelines_[waiter].next_waiter; }
  std::uint64_t awaited_value(unsigned waiter) { return head(waiter).cb.payload.event.value; }

  // ---- faults that hold a transfer back

  // Nothing of the stream moves until then (device ticks).
  void stall(unsigned stream, std::uint64_t until) {
    streams_[stream].stalled_until = until;
    stalls_end_ = 0;  // whoever looks next finds out
    hold(stream);
  }
  void end_stall(unsigned stream) {
    streams_[stream].stalled_until = 0;
    resume(stream);
  }
  // When the first of them has to be looked at; kNever: none has.
  std::uint64_t stalls_end() const { return stalls_end_; }
  void look_at_stalls_at(std::uint64_t ticks) { stalls_end_ = ticks; }

  // ---- checksums of images that are under way

  // Some head's image is being summed, perhaps.
  void note_image_check() { checks_images_ = true; }
  // Bytes of card memory are about to change: a checksum over them begins anew.
  void note_write(hal::PhysicalAddress address, std::uint64_t bytes) {
    if (checks_images_) restart_image_checks(address, bytes);
  }

 private:
  // Who stands first in the list that the wait at the head of `waiter` belongs in.
  std::uint8_t& first_beside(unsigned waiter);
  // Waiters for values up to this look again.
  [[gnu::cold, gnu::noinline]] void call_waiters(unsigned awaited, std::uint64_t value);
  void restart_image_checks(hal::PhysicalAddress address, std::uint64_t bytes);
  void settle_runnable(unsigned stream) { streams_[stream].head == kNoBlock ? hold(stream) : resume(stream); }

  std::uint32_t function_ = 0;
  EventGrants* grants_ = nullptr;
  std::array<Stream, wire::kStreamsPerFunction> streams_;
  std::array<Timeline, wire::kStreamsPerFunction> timelines_{};
  StreamSet runnable_;
  StreamSet waiting_;
  bool checks_images_ = false;
  std::uint64_t stalls_end_ = kNever;
  std::uint32_t looks_ = 0;
  BlockPool blocks_;
};

// In the header because every block passes both: docs/performance.md, "Counts".

inline void StreamTable::append(std::uint16_t index) {
  Block& block = blocks_[index];
  const unsigned s = block.cb.header.stream;
  Stream& stream = streams_[s];
  block.next = kNoBlock;
  if (stream.tail == kNoBlock) {
    stream.head = index;
    resume(s);
  } else {
    blocks_[stream.tail].next = index;
  }
  stream.tail = index;
  ++stream.count;
}

inline std::uint16_t StreamTable::take_head(unsigned s) {
  Stream& stream = streams_[s];
  const std::uint16_t block = stream.head;
  stream.head = blocks_[block].next;
  if (stream.head == kNoBlock) stream.tail = kNoBlock;
  --stream.count;
  stream.phase = Stream::Phase::Idle;
  stream.launch = kNoLaunch;
  stream.stalled_until = 0;
  settle_runnable(s);
  return block;
}

}  // namespace fw
