// SPDX-License-Identifier: Apache-2.0
// A stream's functions on the host: each begins when everything launched before it has ended well, and what stands
// behind it is sent when it has returned.
#include <exception>
#include <memory>
#include <string>
#include <utility>

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

// ---- with mutex_ held

// The head of pending_ is one.
void StreamChannel::start_host_call() {
  Unit& unit = *pending_.head;
  if (launches_.head != unit.launch) return;  // something before it has not ended
  pending_.pop();
  runs_host_call_ = true;
  resets_before_call_ = resets_;
  unit.call->channel = this;
  unit.call->unit = &unit;
  rules_.host_calls->run(*unit.call);
}

namespace {

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return std::string(": ") + error.what();
  } catch (...) {
    return ", no std::exception";
  }
}

}  // namespace

void StreamChannel::fail_host_call(Unit& unit, const std::exception_ptr& why) {
  const bool usable = !failure_ && activity_.get() == StreamActivity::Open;
  if (usable && resets_ == resets_before_call_) {
    failure_.emplace();
    failure_->stream = stream();
    failure_->launch = unit.launch->number;
    failure_->outcome = Outcome::Fault;
    set_condition(after_error);
    try {
      failure_->job = "host function";
      card_error_ = ErrorInfo{
          .layer = Layer::Driver,
          .source = "stream " + std::to_string(stream()),
          .outcome = Outcome::Fault,
          .recoverable = true,
          .next_step = "repair the function, then reset the stream",
          .message = "the host function of launch " + std::to_string(unit.launch->number) + " threw" + text_of(why)};
    } catch (const std::bad_alloc&) {
      card_error_.reset();
    }
    record_failure(card_error_ ? &*card_error_ : nullptr);
  }
  end_unit(unit, ending(Outcome::Fault, Status::None));
}

// ---- on the function's thread

void StreamChannel::host_call_ended(HostCall& call, std::exception_ptr why) noexcept {
  std::shared_ptr<Device> device;
  {
    const Locked lock(*this);
    device = device_;
    const DriverCall marked = device_->driver_call();
    runs_host_call_ = false;
    if (why == nullptr) {
      end_unit(*call.unit, ending(Outcome::Ok, Status::None));
    } else {
      fail_host_call(*call.unit, why);
      why = nullptr;  // the program's exception, and what it holds
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

}  // namespace svp
