// SPDX-License-Identifier: Apache-2.0
// Waiting for a stream, asking for its errors, and resetting it.
#include <string>
#include <utility>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/recovery/busy.hpp"
#include "host_driver/runtime/host_calls.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/trace/recorder.hpp"

namespace svp {

using wire::Outcome;
using wire::Status;

bool StreamChannel::wait(std::uint64_t number, TimePoint deadline) {
  const auto device = [&] {
    const std::lock_guard guard(mutex_);
    return device_;
  }();
  if (HostCalls::inside_operation() && ended() < number) {
    throw Error({.layer = Layer::Driver,
                 .source = "stream " + std::to_string(stream()),
                 .next_step = "wait in a function of LaunchHost(), or on another thread",
                 .message = "a host operation tried to wait for a stream"});
  }
  if (HostCalls::inside(*this) && ended() < number) {
    throw Error({.layer = Layer::Driver,
                 .source = "stream " + std::to_string(stream()),
                 .next_step = "wait on another thread, or for another stream",
                 .message = "a host function tried to wait for its own stream"});
  }
  switch (device->wait_until([&] { return ended() >= number || needing_recovery() != nullptr; }, deadline)) {
    case WaitStatus::Done: return true;
    case WaitStatus::TimedOut: return false;
    case WaitStatus::Refused:
      throw Error({.layer = Layer::Driver,
                   .source = "stream " + std::to_string(stream()),
                   .next_step = "wait on another thread",
                   .message = "a completion handler tried to wait for its own stream"});
    case WaitStatus::Failed: break;
  }
  // The card is gone: nobody else may tell what never reached it.
  Locked lock(*this);
  if (ended() < number && in_flight_.empty() && device == device_) {
    ErrorInfo gone{.layer = Layer::Emulator,
                   .source = "card",
                   .outcome = Outcome::Lost,
                   .recoverable = false,
                   .next_step = "start a new card",
                   .message = "the card is gone"};
    note_card_gone(device->failure().value_or(std::move(gone)));
  }
  return quiet_.wait_for(lock, kCopiesAfterDeath, [&] { return ended() >= number || needing_recovery() != nullptr; });
}

void StreamChannel::poll() {
  const auto device = [&] {
    const std::lock_guard guard(mutex_);
    return device_;
  }();
  device->poll();
}

std::optional<StreamError> StreamChannel::error() const {
  const std::lock_guard guard(mutex_);
  if (failure_) return current_error();
  return unreported_;
}

std::optional<StreamError> StreamChannel::take_error(std::uint64_t since) {
  const std::lock_guard guard(mutex_);
  if (unreported_) return std::exchange(unreported_, std::nullopt);
  if (failure_) return current_error();
  return since != recoveries() ? last_error_ : std::nullopt;
}

Expected<void> StreamChannel::begin_reset(StreamActivity kind, std::optional<TimePoint> deadline) {
  Locked lock(*this);
  auto free = deadline ? free_for_reset_by(lock, *deadline) : free_for_reset();
  if (free) {
    set_activity(kind);
  } else {
    pump();
  }
  return free;
}

Expected<void> StreamChannel::free_for_reset() const {
  const StreamActivity activity = activity_.get();
  if (activity == StreamActivity::Closed)
    return std::unexpected(refused_now(" is closed", "open another device", false));
  if (is_recovering(activity))
    return std::unexpected(refused_now(" is being recovered", "wait until recover() has returned"));
  if (!is_reset_under_way(activity)) return {};
  ErrorInfo busy = refused_now(" is being reset already", "wait for the other Reset() to return");
  busy.status = Status::Busy;
  return std::unexpected(std::move(busy));
}

// Who sends again what had not started has to know what has: a HostOperation of it may be under way. Until it has
// returned no other one begins.
Expected<void> StreamChannel::free_for_reset_by(std::unique_lock<std::mutex>& lock, TimePoint deadline) {
  const auto operates = [&] { return on_host_ == OnHost::Operation; };
  ++resets_waiting_;
  quiet_.wait_until(lock, deadline, [&] {
    return is_recovering(activity_.get()) || (!is_reset_under_way(activity_.get()) && !operates());
  });
  --resets_waiting_;
  if (auto free = free_for_reset(); !free || !operates()) return free;
  ErrorInfo busy = refused_now(" runs a host operation that does not end", "let it return, then recover again");
  busy.status = Status::Busy;
  return std::unexpected(std::move(busy));
}

void StreamChannel::leave_reset() {
  set_activity(after_reset(activity_.get()));
  quiet_.notify_all();
}

void StreamChannel::cancel_reset() {
  const Locked lock(*this);
  leave_reset();
  go_on();
}

// The card has reset the stream, or has not.
Expected<void> StreamChannel::end_reset(std::unique_lock<std::mutex>& lock, const Expected<void>& result,
                                        StreamActivity kind) {
  const bool retry = kind == StreamActivity::Retrying;
  ++resets_;
  slots_.forget();
  if (in_flight_.empty()) drop_waiting();
  if (!retry || !result) drop_kept();
  quiet_.wait_for(lock, kCopiesAfterReset, [&] { return chunks_ == 0; });
  if (!result) {
    note_card_gone(result.error());
    leave_reset();
    return result;
  }
  leave_reset();
  if (retry && failure_ && !unreported_) unreported_ = current_error();
  if (kind == StreamActivity::Resetting) unreported_.reset();  // the owner has reset the stream: that is over
  set_usable();
  if (retry) send_kept_again();
  pump();
  return {};
}

void StreamChannel::set_usable() {
  failure_.reset();
  card_error_.reset();
  set_condition([](StreamCondition now) {
    return now == StreamCondition::Usable ? std::nullopt : std::optional(StreamCondition::Usable);
  });
}

Expected<void> StreamChannel::reset_as(StreamActivity kind, std::optional<TimePoint> deadline) {
  trace::Span traced(trace::Kind::Reset);
  if (auto* fields = traced.fields()) {
    *fields = {.kind = trace::Kind::Reset, .card = trace_card(), .stream = stream(), .text = "stream"};
  }
  if (auto begun = begin_reset(kind, deadline); !begun) return begun;
  staging_->cancel_requests(*this);
  const auto device = [&] {
    const std::lock_guard guard(mutex_);
    return device_;
  }();
  const auto result = device->reset_stream(stream());
  if (!result && refused_as_busy(result.error())) {
    cancel_reset();
    return result;
  }
  auto ended = [&] {
    Locked lock(*this);
    return end_reset(lock, result, kind);
  }();
  device->wake_waiters();  // the host itself ended what the card never had
  return ended;
}

}  // namespace svp
