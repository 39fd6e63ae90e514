// SPDX-License-Identifier: Apache-2.0
// The timeline of a stream: the value of its last EVENT_SIGNAL, and who waits for a larger one. Events order streams on
// the card: a wait holds its stream back, never a hart. Streams of other functions wait by grants (event_grants.hpp).
// Hart 0 only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "firmware/hal/hart.hpp"
#include "shared/window.hpp"

namespace fw {

inline constexpr std::uint8_t kNoWaiter = 0xff;
static_assert(wire::kStreamsPerFunction < kNoWaiter);
inline constexpr std::uint16_t kNoEventGrant = 0xffff;

// A walk along a list of waits or grants: one that leads back into itself ends in a panic, not in an endless loop of
// hart 0. `longest` is how many entries such a list can have: a function's streams of those that wait, one per function
// of a timeline's grants.
class BoundedWalk {
 public:
  explicit BoundedWalk(unsigned longest) : left_(longest) {}
  // Before each entry is passed.
  void step() {
    if (left_-- == 0) hal::panic("a list of waits leads back into itself");
  }

 private:
  unsigned left_;
};

class Timeline {
 public:
  std::uint64_t value() const { return value_; }
  // What it had come to when the present incarnation of the stream began.
  std::uint64_t value_before() const { return value_before_; }
  // The stream signals up to this value by itself: such signals have been executed, or stand in its queue.
  std::uint64_t queued() const { return queued_; }

  void signal(std::uint64_t value) { value_ = value; }
  void note_queued(std::uint64_t value) { queued_ = std::max(queued_, value); }
  void forget_queued() { queued_ = value_; }
  void begin_incarnation() { value_before_ = queued_ = value_; }

  // By a stream, or perhaps by one of another function.
  bool awaited() const { return first_waiter != kNoWaiter || first_grant != kNoEventGrant; }

  // Lists of StreamTable: the streams that wait for this timeline, and who comes behind its own stream in such a list,
  // or in one of a grant.
  std::uint8_t first_waiter = kNoWaiter;
  std::uint8_t next_waiter = kNoWaiter;
  std::uint16_t first_grant = kNoEventGrant;  // list of EventGrants: the grants of this timeline

  // The incarnation in which the stream was opened: an earlier one had another timeline.
  std::uint32_t opened_in = 1;

 private:
  std::uint64_t value_ = 0;
  std::uint64_t value_before_ = 0;
  std::uint64_t queued_ = 0;
};

}  // namespace fw
