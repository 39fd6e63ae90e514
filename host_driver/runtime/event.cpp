// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/event.hpp"

#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/base/timeouts.hpp"
#include "host_driver/ras/state_log.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/runtime/stream_records.hpp"

namespace svp {

void Event::end(const wire::Completion& completion) noexcept {
  outcome_ = completion.outcome;
  time_ = completion.start_time;
  const bool well = completion.outcome == wire::Outcome::Ok;
  ras::unlogged(place_.stream, stage_.change(well ? EventStage::Signalled : EventStage::Failed));
}

void Event::add_waiter(StreamChannel& channel) {
  const std::lock_guard lock(waiters_mutex_);
  if (!is_with_card()) waiters_.push_back(&channel);
}

bool Event::note_with_card() noexcept {
  const std::lock_guard lock(waiters_mutex_);
  if (with_card_.exchange(true, std::memory_order_release) || waiters_.empty()) return false;
  self_ = shared_from_this();
  return true;
}

void Event::tell_waiters() noexcept {
  const auto self = std::move(self_);
  // Nobody is added any more.
  for (StreamChannel* channel : waiters_) channel->awaited_event_came();
}

void Event::write_wait(wire::ControlBlock& block) const {
  block.payload = {};
  block.header.opcode = wire::Opcode::EventWait;
  switch (stage()) {
    case EventStage::Signalled: block.header.opcode = wire::Opcode::Nop; return;
    case EventStage::Failed:  // no stream has an incarnation 0: the card ends it as a wait for what is lost
      block.payload.event.value = place_.value;
      block.payload.event.stream = place_.stream;
      return;
    case EventStage::Recorded:
      block.payload.event.value = place_.value;
      block.payload.event.stream = place_.stream;
      block.payload.event.incarnation = place_.incarnation;
      return;
  }
}

void require_context_of(const Event& event) {
  if (!event.link()->is_cut()) return;
  throw InvalidArgument("event", "the context that the event was recorded in has ended",
                        "wait for it on the host: Synchronize() of the event");
}

spyre::SharedEvent Event::share() const {
  require_own_process();
  if (!link_->is_cut()) return stream_->share(*this);
  throw Error(refused_by_driver("event", "the context that the event was recorded in has ended",
                                "record the event again, in another context"));
}

void Event::require_own_process() const {
  if (!process_.is_this()) throw Error(made_by_the_parent("the event"));
}

bool Event::Query() const {
  require_own_process();
  if (link_->is_cut()) return true;
  if (stage() == EventStage::Recorded) (void)stream_->look();
  return stream_->launch_ended(place_.launch);
}

bool Event::wait_until(Clock::time_point deadline) const {
  require_own_process();
  return link_->is_cut() || stream_->wait_for_launch(place_.launch, deadline);
}

void Event::require_ended_well() const {
  if (stage() == EventStage::Signalled) return;
  if (!link_->is_cut()) {
    if (const auto error = stream_->error()) throw *error;
  }
  throw Error({.layer = Layer::Driver,
               .source = "stream " + std::to_string(place_.stream),
               .outcome = outcome_,
               .recoverable = true,
               .next_step = "record the event again",
               .message = "the event of launch " + std::to_string(place_.launch) + " ended " +
                          std::string(wire::name(outcome_)) + ": its stream failed before it, or was reset"});
}

void Event::Synchronize() const {
  while (!wait_until(Clock::now() + kLookForRecovery)) {
  }
  require_ended_well();
}

void Event::Synchronize(Clock::time_point deadline) const {
  if (!wait_until(deadline)) {
    throw TimeoutError({.layer = Layer::Driver,
                        .source = "stream " + std::to_string(place_.stream),
                        .outcome = wire::Outcome::Timeout,
                        .next_step = "wait again, or Reset() the stream",
                        .message = "the event had not ended by the deadline"});
  }
  require_ended_well();
}

std::chrono::nanoseconds Event::since(const Event& start) const {
  for (const Event* event : {&start, this}) {
    if (event->stage() == EventStage::Signalled) continue;
    throw InvalidArgument(event == this ? "event" : "start", "the event has not been signalled",
                          "wait for it first; record it again when its stream failed");
  }
  constexpr std::int64_t kNanosecondsPerTick = 1'000'000'000 / static_cast<std::int64_t>(wire::kTicksPerSecond);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(time_ - start.time_) * kNanosecondsPerTick);
}

}  // namespace svp
