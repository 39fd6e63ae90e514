// SPDX-License-Identifier: Apache-2.0
// Events of a stream: recording one, and waiting for one of another stream.
#include <utility>

#include "host_driver/runtime/active_capture.hpp"
#include "host_driver/runtime/current_function.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/shared_timelines.hpp"
#include "host_driver/runtime/stream_channel.hpp"

namespace svp {

std::uint64_t StreamChannel::launch_one(std::shared_ptr<const void> keep_alive, std::uint64_t recoveries,
                                        const std::function<void(Unit&)>& write) {
  Reservation reservation(*this);
  reserve(reservation, {.blocks = 1}, 1, recoveries);
  Unit& unit = *reservation.units.head;
  unit.kind = Unit::Kind::Block;
  unit.tile = unit.step = 0;
  unit.block.header = {};
  unit.block.payload = {};
  write(unit);
  reservation.launch->observer = nullptr;
  reservation.launch->kernel = nullptr;
  reservation.launch->program = nullptr;
  reservation.launch->keep_alive = std::move(keep_alive);
  Reservation* const only = &reservation;
  return commit({&only, 1});
}

std::shared_ptr<Event> FlexStream::make_event() { return std::make_shared<Event>(*this, channel_.link()); }

std::shared_ptr<Event> FlexStream::Record() {
  function_.require_own_process();
  refuse_in_capture("an event that is needed at once");
  (void)recover_if_needed();
  const std::uint64_t recoveries = channel_.recoveries();
  auto event = make_event();
  channel_.launch_one(event, recoveries, [&](Unit& unit) {
    unit.block.header.opcode = wire::Opcode::EventSignal;
    unit.event = event.get();
  });
  return event;
}

bool FlexStream::has_to_wait_for(const std::shared_ptr<Event>& event) const {
  return event != nullptr && event->link() != channel_.link() && event->stage() != EventStage::Signalled;
}

AwaitedPlace FlexStream::awaited_place(const std::shared_ptr<Event>& event) {
  require_context_of(*event);
  if (&event->stream().function_ != &function_) return granted_wait(event->share());
  event->add_waiter(channel_);
  return event;
}

void FlexStream::Wait(const std::shared_ptr<Event>& event) {
  function_.require_own_process();
  if (const auto capture = capture_of_this_thread()) {
    if (event != nullptr) collect(*capture, WaitStep{event});
    return;
  }
  if (!has_to_wait_for(event)) return;
  (void)recover_if_needed();
  const std::uint64_t recoveries = channel_.recoveries();
  wait_for(awaited_place(event), recoveries);
}

void FlexStream::wait_for(const AwaitedPlace& place, std::uint64_t recoveries) {
  const auto* const event = std::get_if<std::shared_ptr<Event>>(&place);
  channel_.launch_one(event != nullptr ? *event : nullptr, recoveries,
                      [&](Unit& unit) { StreamChannel::write_wait(unit, place); });
}

SharedEvent FlexStream::share(const Event& event) {
  function_.require_own_process();
  const Event::Place& place = event.place();
  if (place.recoveries != channel_.recoveries()) {
    throw Error(refused_by_driver("event", "the context was recovered since the event was recorded",
                                  "record the event again, and share it then"));
  }
  const auto device = function_.device();
  const auto token = function_.shared_timelines().offer(device->config().generation, place.stream,
                                                        device->stream_incarnation(place.stream));
  const bool failed = event.stage() == EventStage::Failed;
  return to_bytes({.token = token, .incarnation = failed ? 0 : place.incarnation, .value = place.value});
}

// The card is asked at once: it does not know whether the signal is on its way.
wire::EventPayload FlexStream::granted_wait(const SharedEvent& event) {
  const EventPlace place = place_from(event);
  const TimelineGrant grant = function_.shared_timelines().redeem(place.token, function_.device()->config().generation);
  wire::EventPayload wait{};
  wait.value = place.value;
  wait.incarnation = place.incarnation;
  wait.flags = wire::kEventGranted;
  wait.grant = grant.grant;
  wait.epoch = grant.epoch;
  return wait;
}

void FlexStream::Wait(const SharedEvent& event) {
  function_.require_own_process();
  if (const auto capture = capture_of_this_thread()) return collect(*capture, WaitStep{event});
  (void)recover_if_needed();
  const std::uint64_t recoveries = channel_.recoveries();
  wait_for(granted_wait(event), recoveries);
}

// ---- the channel's part ---------------------------------------------------------------------------------------------

void StreamChannel::write_wait(Unit& unit, const AwaitedPlace& place) {
  unit.block.header.opcode = wire::Opcode::EventWait;
  if (const auto* const event = std::get_if<std::shared_ptr<Event>>(&place)) {
    unit.event = event->get();
  } else {
    unit.block.payload.event = std::get<wire::EventPayload>(place);
  }
}

// With mutex_ held.

// Where the event stands is known when nothing can come between it and its launch.
void StreamChannel::place_event(Unit& unit, std::uint64_t launch) {
  if (!is_signal(unit)) return;
  unit.event->put({.stream = stream(),
                   .incarnation = device_->stream_incarnation(stream()),
                   .value = ++signals_,
                   .launch = launch,
                   .recoveries = recoveries()});
  unit.block.payload.event.value = signals_;
}

bool StreamChannel::is_signal(const Unit& unit) {
  return unit.kind == Unit::Kind::Block && unit.block.header.opcode == wire::Opcode::EventSignal;
}

// For a stream of another function there is no event.
bool StreamChannel::is_wait(const Unit& unit) {
  if (unit.event != nullptr) return !is_signal(unit);
  return unit.kind == Unit::Kind::Block && unit.block.header.opcode == wire::Opcode::EventWait;
}

// What was read before an event is in the caller's memory when it is signalled. And a wait is sent behind its signal:
// the card may have room for neither, and what waits there has to end by what is there.
bool StreamChannel::may_be_sent(const Unit& unit) const {
  if (unit.event == nullptr) return true;
  return is_signal(unit) ? reads_ == 0 : unit.event->is_with_card();
}

void StreamChannel::note_with_card(Event& event) {
  if (!event.note_with_card()) return;
  signals_told_.push(&event);
  any_told_.store(true, std::memory_order_release);
}

void StreamChannel::tell_waiters() noexcept {
  if (place_ended_.load(std::memory_order_acquire) && place_ended_.exchange(false)) rules_.scratchpads->wake();
  if (!any_told_.load(std::memory_order_acquire)) return;
  LinkedList<Event> told;
  {
    const std::lock_guard guard(mutex_);
    told = std::exchange(signals_told_, {});
    any_told_.store(false, std::memory_order_relaxed);
  }
  while (!told.empty()) told.pop()->tell_waiters();
}

void StreamChannel::awaited_event_came() noexcept {
  {
    const std::lock_guard guard(mutex_);
    pump();
  }
  tell_waiters();
}

// A signal behind a failed launch would say that everything before it has ended well. Its event ends with the failure;
// what waits for it ends as well, and what stands behind such a wait is not sent again: it depends on what failed.
bool StreamChannel::depends_on_failure(const Unit& unit) const {
  if (is_signal(unit)) return true;
  return failure_ && failure_->opcode == wire::Opcode::EventWait;
}

}  // namespace svp
