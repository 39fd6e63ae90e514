// SPDX-License-Identifier: Apache-2.0
// A recording of an event: a place in a stream, which the card signals on the stream's timeline
// (shared/control_block.hpp, EventPayload) when everything before it has ended. Shared by the program's handle, the
// signal's launch and the waits for it. It is ended by its stream's channel, at the latest when the context ends; it
// may outlive both.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <spyre/event.hpp>
#include <utility>
#include <vector>

#include "host_driver/base/process.hpp"
#include "host_driver/runtime/stream_states.hpp"
#include "shared/control_block.hpp"

namespace svp {

class ChannelLink;
class FlexStream;
class StreamChannel;

class Event : public std::enable_shared_from_this<Event> {
 public:
  using Clock = std::chrono::steady_clock;

  // FlexStream::Record().
  Event(FlexStream& stream, std::shared_ptr<ChannelLink> link) : stream_(&stream), link_(std::move(link)) {}

  // ---- for programs. Thread-safe. In a forked child they throw Error.

  // Whether everything before it has ended, with whatever outcome, and what is done on the host for it. Does not block,
  // but for a recovery that RecoveryPolicy::Recover makes due.
  bool Query() const;
  // Until then. Throws StreamError when its stream failed before it, Error when it was ended otherwise; again
  // and again.
  void Synchronize() const;
  // The same with a bound: TimeoutError, and everything goes on.
  void Synchronize(Clock::time_point deadline) const;
  // From `start` to this one, by the card's clock; negative when that was signalled later. Throws InvalidArgument when
  // one of the two has not ended, or not well.
  std::chrono::nanoseconds since(const Event& start) const;

  // For a stream of another function. Throws Error: the stream's context has ended or recovers, or nobody can grant.
  spyre::SharedEvent share() const;

  EventStage stage() const { return stage_.get(std::memory_order_acquire); }
  // Never null. When the link is cut, the stream is gone.
  const std::shared_ptr<ChannelLink>& link() const { return link_; }
  const FlexStream& stream() const { return *stream_; }

  // ---- for the channel that it is recorded on, under its lock

  // Before anybody else knows it.
  struct Place {
    std::uint32_t stream = 0;  // of the card
    std::uint32_t incarnation = 0;
    std::uint64_t value = 0;       // on the stream's timeline
    std::uint64_t launch = 0;      // its number in the stream
    std::uint64_t recoveries = 0;  // of the stream: with the next one the timeline is another
  };
  void put(const Place& place) { place_ = place; }
  void end(const wire::Completion& completion) noexcept;
  // The signal is with the card, or the event has ended. True, once: there are waiters to be told, with no lock held.
  bool note_with_card() noexcept;
  void tell_waiters() noexcept;
  const Place& place() const { return place_; }
  Event* next = nullptr;  // of those whose waiters are to be told

  // ---- for channels that wait for it

  // The channel is told when a wait may be sent, if that is not so already.
  void add_waiter(StreamChannel& channel);
  bool is_with_card() const { return with_card_.load(std::memory_order_acquire); }
  // What the card is sent for a wait, by what is known now: nothing to wait for, a wait that fails, or the wait itself.
  void write_wait(wire::ControlBlock& block) const;

 private:
  void require_own_process() const;
  bool wait_until(Clock::time_point deadline) const;
  void require_ended_well() const;

  FlexStream* const stream_;  // as long as the link is not cut
  const std::shared_ptr<ChannelLink> link_;
  const OwnerProcess process_;
  Place place_;
  // Written before the stage.
  wire::Outcome outcome_ = wire::Outcome::Ok;
  std::uint64_t time_ = 0;  // device ticks
  AtomicStateMachine<EventStage> stage_;
  std::mutex waiters_mutex_;
  std::atomic<bool> with_card_{false};  // changed with waiters_mutex_ held
  std::vector<StreamChannel*> waiters_;
  std::shared_ptr<Event> self_;  // while waiters are to be told
};

// Throws InvalidArgument: the event's context has ended, and with it what a stream could wait for.
void require_context_of(const Event& event);

}  // namespace svp
