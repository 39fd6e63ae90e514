// SPDX-License-Identifier: Apache-2.0
// A stream's part in the reset levels above its own (Runtime::recover() is the order).
#include <utility>

#include "host_driver/runtime/stream_channel.hpp"

namespace svp {

bool StreamChannel::poisoned() const {
  const std::lock_guard guard(mutex_);
  return failure_.has_value();
}

bool StreamChannel::device_gone() const {
  const std::lock_guard guard(mutex_);
  return gone() || device_->health() == Health::Dead || device_->health() == Health::NeedsReset;
}

// ---- queue reset: the same device goes on ---------------------------------------------------------------------------

Expected<void> StreamChannel::begin_queue_reset(TimePoint deadline) {
  if (auto begun = begin_reset(StreamActivity::QueueReset, deadline); !begun) return begun;
  staging_->cancel_requests(*this);
  return {};
}

void StreamChannel::cancel_queue_reset() { cancel_reset(); }

StreamChannel::Ended StreamChannel::end_queue_reset(const Expected<void>& result) {
  std::shared_ptr<Device> device;
  const Ended ended = [&] {
    Locked lock(*this);
    device = device_;
    return end_queue_reset_now(lock, result);
  }();
  device->wake_waiters();  // the host itself ended what the card never had
  return ended;
}

StreamChannel::Ended StreamChannel::end_queue_reset_now(std::unique_lock<std::mutex>& lock,
                                                        const Expected<void>& result) {
  if (in_flight_.empty()) {
    drop_waiting();
    drop_kept();
  }
  last_error_.reset();
  if (failure_) last_error_ = current_error();
  if (rules_.retry_aborted && !unreported_) unreported_ = last_error_;
  (void)end_reset(lock, result, StreamActivity::QueueReset);
  recoveries_.fetch_add(1, std::memory_order_release);
  return std::exchange(ended_by_recovery_, {});
}

// ---- another device -------------------------------------------------------------------------------------------------

Expected<void> StreamChannel::begin_recovery(TimePoint deadline) {
  {
    std::unique_lock lock(mutex_);
    if (const auto quiescing = begin_quiescing(activity_.get())) set_activity(*quiescing);
    const auto quiet = [&] { return writing_ == 0 && !is_reset_under_way(activity_.get()); };
    if (!quiet_.wait_until(lock, deadline, quiet)) {
      lock.unlock();
      staging_->cancel_requests(*this);  // else some may be left, and go_on() makes them anew
      lock.lock();
      if (const auto before = cancel_quiescing(activity_.get())) set_activity(*before);
      go_on();
      return std::unexpected(ErrorInfo{.layer = Layer::Driver,
                                       .source = "stream " + std::to_string(stream()),
                                       .outcome = wire::Outcome::Rejected,
                                       .recoverable = true,
                                       .next_step = "let the other thread return, then recover again",
                                       .message = "another thread has been launching on stream " +
                                                  std::to_string(stream()) + " or resetting it all the time",
                                       .status = wire::Status::Busy});
    }
    if (activity_.get() == StreamActivity::Quiescing) set_activity(StreamActivity::Recovering);
  }
  staging_->cancel_requests(*this);
  return {};
}

Expected<StreamChannel::Ended> StreamChannel::end_everything(TimePoint deadline) {
  Locked lock(*this);
  if (in_flight_.empty()) {
    drop_waiting();
    drop_kept();
  }
  if (!quiet_.wait_until(lock, deadline, [&] { return chunks_ == 0 && launches_.empty(); })) {
    return std::unexpected(ErrorInfo{.layer = Layer::Driver,
                                     .source = "stream " + std::to_string(stream()),
                                     .outcome = wire::Outcome::Indeterminate,
                                     .recoverable = true,
                                     .next_step = "recover again",
                                     .message = "copies of stream " + std::to_string(stream()) +
                                                " between pinned and pageable memory, or its host function, have "
                                                "not ended"});
  }
  return std::exchange(ended_by_recovery_, {});
}

void StreamChannel::move_memory(HostMemory& memory, StagingEngine& staging) {
  const std::lock_guard guard(mutex_);
  staging_ = &staging;
  set_chunk_units_aside(staging.chunks());
  corrections_.emplace(memory);
}

void StreamChannel::end_recovery(std::shared_ptr<Device> device, std::uint32_t stream) {
  // Outside of the lock: it waits for deliveries, and those take the lock. Nothing is in flight yet.
  device->set_credit_sink(stream, this);
  std::shared_ptr<SlotMemory> slots;  // of the device before; let go of without the lock
  const std::lock_guard guard(mutex_);
  slots = slots_.replace(nullptr);
  last_error_.reset();
  if (failure_) last_error_ = current_error();
  if (rules_.retry_aborted && !unreported_) unreported_ = last_error_;
  ++resets_;
  std::swap(device_, device);
  stream_.store(stream, std::memory_order_relaxed);
  set_activity(StreamActivity::Open);
  set_usable();
  recoveries_.fetch_add(1, std::memory_order_release);
}

void StreamChannel::cancel_recovery() {
  const Locked lock(*this);
  set_activity(StreamActivity::Open);
  go_on();
}

void StreamChannel::fail_recovery(const ErrorInfo& why) {
  const std::lock_guard guard(mutex_);
  if (activity_.get() == StreamActivity::Recovering) set_activity(StreamActivity::Open);
  set_condition([](StreamCondition now) {
    return now == StreamCondition::Gone ? std::nullopt : std::optional(StreamCondition::Gone);
  });
  if (!failure_) {
    failure_.emplace();
    failure_->stream = stream();
    failure_->outcome = wire::Outcome::Lost;
    failure_->job = "none";
  }
  card_error_ = why;
  record_failure(&why);
}

}  // namespace svp
