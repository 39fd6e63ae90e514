// SPDX-License-Identifier: Apache-2.0
// What of a stream runs on the host. Functions: each begins when everything launched before it has ended well, and what
// stands behind it is sent when it has returned. HostOperations in the stream: each begins when everything before it
// has been sent.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "host_driver/runtime/active_capture.hpp"
#include "host_driver/runtime/current_function.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/host_calls.hpp"
#include "host_driver/runtime/stream_channel.hpp"

namespace svp {

using wire::Outcome;
using wire::Status;

std::uint64_t FlexStream::LaunchHost(std::function<void()> function) {
  function_.require_own_process();
  if (!function) throw InvalidArgument("function", "an empty function was given", "give one that can be called");
  if (const auto capture = capture_of_this_thread()) {
    collect(*capture, HostStep{std::make_shared<const std::function<void()>>(std::move(function))});
    return 0;
  }
  (void)recover_if_needed();
  const std::uint64_t recoveries = channel_.recoveries();
  channel_.expect_host_calls();
  auto call = std::make_shared<HostCall>();
  call->function = std::move(function);
  return channel_.launch_one(call, recoveries, [&](Unit& unit) {
    unit.kind = Unit::Kind::HostCall;
    unit.call = call.get();
  });
}

void StreamChannel::expect_host_calls() {
  const std::lock_guard guard(mutex_);
  if (has_host_thread_) return;
  rules_.host_calls->add_thread();
  has_host_thread_ = true;
}

void StreamChannel::expect_host_operations() {
  const std::lock_guard guard(mutex_);
  if (has_operation_thread_) return;
  rules_.host_operations->add_thread();
  has_operation_thread_ = true;
}

// ---- with mutex_ held

// The head of pending_ is one.
void StreamChannel::start_host_call() {
  Unit& unit = *pending_.head;
  if (launches_.head != unit.launch) return;  // something before it has not ended
  pending_.pop();
  on_host_ = OnHost::Function;
  resets_before_call_ = resets_;
  unit.call->channel = this;
  unit.call->unit = &unit;
  rules_.host_calls->run(*unit.call);
}

namespace {

// What has thrown.
std::string text_of(const Unit& unit) {
  const std::string of = " of launch " + std::to_string(unit.launch->number);
  if (unit.kind == Unit::Kind::HostCall) return "the host function" + of;
  return "the host operation of tile " + std::to_string(unit.tile) + of;
}

}  // namespace

// The stream's first error.
void StreamChannel::note_host_failure(const Unit& unit, const char* job, const HostFailure& why) {
  failure_.emplace();
  failure_->stream = stream();
  failure_->launch = unit.launch->number;
  failure_->tile = unit.tile;
  failure_->outcome = Outcome::Fault;
  set_condition(after_error);
  try {
    failure_->job = job;
    card_error_ = ErrorInfo{.layer = Layer::Driver,
                            .source = "stream " + std::to_string(stream()),
                            .outcome = Outcome::Fault,
                            .recoverable = true,
                            .next_step = "repair the function, then reset the stream",
                            .message = text_of(unit) + " threw" + why.text};
  } catch (const std::bad_alloc&) {
    card_error_.reset();
  }
  record_failure(card_error_ ? &*card_error_ : nullptr);
}

void StreamChannel::fail_host_call(Unit& unit, const HostFailure& why) {
  const bool usable = !failure_ && activity_.get() == StreamActivity::Open;
  if (usable && resets_ == resets_before_call_) note_host_failure(unit, "host function", why);
  end_unit(unit, ending(Outcome::Fault, Status::None));
}

// The head of pending_ are the tiles of which the first one's HostOperation threw. Nothing is under way.
void StreamChannel::fail_host_operation() {
  Unit& tiles = *pending_.head;
  LaunchState& launch = *tiles.launch;
  tiles.step = 0;
  note_host_failure(tiles, launch.kernel->name().c_str(), *launch.host_failure);
  if (launch.tiles->blocks_left() == launch.tiles->blocks_per_tile()) {
    pending_.pop();
    end_unit(tiles, ending(Outcome::Fault, Status::None));
  } else {
    end_failed_tile(tiles);
  }
  drop_waiting();
  tell_failure();
}

// The tiles behind it are another record.
void StreamChannel::end_failed_tile(Unit& tiles) {
  LaunchState& launch = *tiles.launch;
  tell_observer(tiles, ending(Outcome::Fault, Status::None));
  if (launch.outcome == Outcome::Ok) launch.outcome = Outcome::Fault;
  launch.left -= launch.tiles->blocks_per_tile();
  launch.tiles->advance();
  tiles.tile = launch.tiles->next();
  tiles.step = launch.tiles->first_step();
}

// The reset that came while it ran has ended all others.
void StreamChannel::end_operation_of_before(HostCall& call) {
  LaunchState& launch = *call.unit->launch;
  launch.spare.corrections.push(call.correction);
  launch.spare.computes.push(call.compute);
  finish_unit(*call.unit, never_sent());
}

// ---- on the function's thread

void StreamChannel::host_call_ended(HostCall& call, std::optional<HostFailure> why) noexcept {
  if (call.tiles != nullptr) return host_operation_ended(call, std::move(why));
  std::shared_ptr<Device> device;
  {
    const Locked lock(*this);
    device = device_;
    const DriverCall marked = device_->driver_call();
    on_host_ = OnHost::Nothing;
    if (why) {
      fail_host_call(*call.unit, *why);
    } else {
      end_unit(*call.unit, ending(Outcome::Ok, Status::None));
    }
    if (failure_ && in_flight_.empty()) {
      drop_waiting();
      tell_failure();
    }
    pump();
    quiet_.notify_all();
  }
  device->wake_waiters();
}

void StreamChannel::host_operation_ended(HostCall& call, std::optional<HostFailure> why) noexcept {
  std::shared_ptr<Device> device;
  call.tiles.reset();  // the launch has them: it lets go of the program's function, and who waits for it waits for that
  {
    const Locked lock(*this);
    device = device_;
    const DriverCall marked = device_->driver_call();
    on_host_ = OnHost::Nothing;
    LaunchState& launch = *call.unit->launch;
    const bool was_reset = resets_ != resets_before_call_;
    if (why) launch.host_failure = std::move(why);
    if (was_reset) {
      end_operation_of_before(call);
    } else {
      put_back(call, !launch.host_failure);
    }
    // What stopped the stream meanwhile has left this to us.
    if (in_flight_.empty() && (failure_ || activity_.get() == StreamActivity::Recovering)) {
      drop_waiting();
      if (failure_) tell_failure();
    }
    pump();
    quiet_.notify_all();
  }
  device->wake_waiters();
}

}  // namespace svp
