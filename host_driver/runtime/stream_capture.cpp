// SPDX-License-Identifier: Apache-2.0
// Collecting what is launched on a stream instead of launching it.
#include <array>
#include <string>
#include <utility>

#include "host_driver/runtime/active_capture.hpp"
#include "host_driver/runtime/current_function.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/stream_channel.hpp"

namespace svp {
namespace {

ErrorInfo refused_by_capture(unsigned stream, const std::string& message, std::string next_step) {
  const std::string name = "stream " + std::to_string(stream);
  return {.layer = Layer::Driver,
          .source = name,
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = std::move(next_step),
          .message = name + ": " + message};
}

}  // namespace

std::shared_ptr<ActiveCapture> FlexStream::capture_of_this_thread() const {
  if (!capturing_.load(std::memory_order_acquire)) return nullptr;
  std::shared_ptr<ActiveCapture> capture;
  {
    const std::lock_guard guard(capture_mutex_);
    capture = capture_;
  }
  if (capture == nullptr || capture->owner == std::this_thread::get_id()) return capture;
  throw Error(refused_by_capture(stream_index(), "another thread captures it",
                                 "use another stream, or wait until that thread has called EndCapture()"));
}

void FlexStream::refuse_in_capture(const char* what) const {
  if (capture_of_this_thread() == nullptr) return;
  throw Error(refused_by_capture(stream_index(), std::string(what) + " cannot be captured",
                                 "call it before BeginCapture() or after EndCapture(), or on another stream"));
}

std::shared_ptr<const void> FlexStream::BeginCapture() {
  function_.require_own_process();
  if (capture_of_this_thread() != nullptr) {
    throw Error(refused_by_capture(stream_index(), "a capture is under way already", "call EndCapture() first"));
  }
  (void)recover_if_needed();
  auto capture = std::make_shared<ActiveCapture>(ActiveCapture{.recoveries = channel_.recoveries()});
  {
    StreamChannel::Reservation usable(channel_);
    channel_.reserve(usable, {}, 0, capture->recoveries);
  }
  const std::lock_guard guard(capture_mutex_);
  if (capture_ != nullptr) {
    throw Error(refused_by_capture(stream_index(), "another thread has begun a capture at the same time",
                                   "capture on another stream"));
  }
  capture_ = capture;
  capturing_.store(true, std::memory_order_release);
  return capture;
}

bool FlexStream::AbandonCapture(const std::shared_ptr<const void>& which) noexcept {
  std::shared_ptr<ActiveCapture> capture;  // let go of without the lock
  const std::lock_guard guard(capture_mutex_);
  if (capture_ == nullptr || capture_ != which) return false;
  capture.swap(capture_);
  capturing_.store(false, std::memory_order_release);
  return true;
}

std::shared_ptr<PreparedLaunches> FlexStream::EndCapture() {
  function_.require_own_process();
  const auto capture = capture_of_this_thread();
  if (capture == nullptr || !AbandonCapture(capture)) {
    throw Error(refused_by_capture(stream_index(), "no capture is under way", "call BeginCapture() first"));
  }
  check_capture(*capture);
  StreamChannel::Reservation reservation(channel_);
  channel_.reserve(reservation, {}, 0, capture->recoveries);
  return capture->writer.finish(function_);
}

// The reservation that follows throws when a recovery has come between.
void FlexStream::check_capture(const ActiveCapture& capture) {
  (void)recover_if_needed();
  if (channel_.recoveries() != capture.recoveries) {
    throw Error(refused_by_capture(stream_index(), "the context was recovered since the capture began",
                                   "end this capture; allocate and load again what the recovery has cleared, then "
                                   "capture again"));
  }
}

void FlexStream::collect(ActiveCapture& capture, const CapturedStep& step) {
  check_capture(capture);
  StreamChannel::Reservation reservation(channel_);
  channel_.reserve(reservation, {}, 0, capture.recoveries);
  capture.writer.add(function_.launch_site(channel_.stream()), {&step, 1});
}

std::uint64_t FlexStream::collect(ActiveCapture& capture, std::span<const LaunchRequest> requests) {
  std::vector<CapturedStep> steps(requests.begin(), requests.end());
  for (const LaunchRequest& request : requests) {
    if (request.options.observer == nullptr) continue;
    throw Error(refused_by_capture(stream_index(), "a launch that tells the driver its end cannot be captured",
                                   "launch it before BeginCapture() or after EndCapture(), or on another stream"));
  }
  if (capture.barrier_next && !steps.empty()) std::get<LaunchRequest>(steps[0]).options.pipeline_barrier = true;
  check_capture(capture);
  StreamChannel::Reservation reservation(channel_);
  channel_.reserve(reservation, {}, 0, capture.recoveries);
  capture.writer.add(function_.launch_site(channel_.stream()), steps);
  if (!steps.empty()) capture.barrier_next = false;
  return capture.writer.launches() - (steps.empty() ? 0 : 1);
}

std::shared_ptr<CapturedEvent> FlexStream::RecordInCapture() {
  function_.require_own_process();
  const auto capture = capture_of_this_thread();
  if (capture == nullptr) return nullptr;
  auto event = std::make_shared<CapturedEvent>();
  collect(*capture, RecordStep{event});
  return event;
}

bool FlexStream::WaitInCapture(const std::shared_ptr<CapturedEvent>& event) {
  function_.require_own_process();
  const auto capture = capture_of_this_thread();
  if (capture == nullptr) return false;
  collect(*capture, WaitStep{event});
  return true;
}

}  // namespace svp
