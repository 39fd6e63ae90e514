// SPDX-License-Identifier: Apache-2.0
// Runtime::recover(): which reset level, and what has to happen around a device that is replaced. The order below is what makes
// every outcome come exactly once and keeps what belongs to one life of the device out of the next:
//   no launch is half written → the old device delivers its last and is closed → what never reached it ends
//   → [reset level above the function] → a new device → regions forgotten, slots reserved, streams opened → launches are accepted
#include <algorithm>
#include <chrono>
#include <utility>

#include "host_driver/recovery/busy.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "host_driver/runtime/stream_channel.hpp"

namespace svp {

namespace {

ErrorInfo no_source() {
  return {.layer = Layer::Driver,
          .source = "runtime",
          .outcome = wire::Outcome::Rejected,
          .recoverable = false,
          .next_step = "make another runtime",
          .message = "this runtime was given a device and nothing to open it again with"};
}

}  // namespace

RecoveryReport Runtime::recover(std::optional<ResetLevel> from) {
  require_own_process();
  const std::lock_guard recovering(recover_mutex_);
  const std::lock_guard structure(streams_mutex_);
  device_->check();
  return escalate_from(from.value_or(lowest_level()), from.has_value());
}

bool Runtime::recover_now(StreamChannel& channel) {
  const std::lock_guard recovering(recover_mutex_);
  const std::lock_guard structure(streams_mutex_);
  if (!channel.needs_recovery()) return true;  // another thread was first
  if (!channel.device_gone()) {
    const auto reset = channel.reset_and_retry(quiesce_deadline());
    if (reset) return true;
    if (refused_as_busy(reset.error())) throw Error(reset.error());
  }
  (void)escalate_from(channel.device_gone() ? ResetLevel::Function : ResetLevel::Queue, false);
  return true;
}

Device::TimePoint Runtime::quiesce_deadline() const { return Device::Clock::now() + device_->timeouts().quiesce; }

ResetLevel Runtime::lowest_level() {
  const Health health = device_->health();
  const auto poisoned = [](const StreamChannel* channel) { return channel != nullptr && channel->poisoned(); };
  // Work that does not end on a card that does not beat: no stream is to blame.
  if (health == Health::Silent && std::ranges::none_of(channels_, poisoned)) return ResetLevel::Queue;
  return health == Health::Alive || health == Health::Silent ? ResetLevel::Stream : ResetLevel::Function;
}

RecoveryReport Runtime::escalate_from(ResetLevel from, bool wanted) {
  const ResetLevel highest = recovery_.highest.value_or(source_ ? source_->highest() : ResetLevel::Queue);
  RecoveryReport ended;
  auto report = escalate(from, highest, [&](ResetLevel level) {
    // A reset level that nobody asked for was reached because those below it did not help.
    return run_level(level, wanted && level == from, ended);
  });
  if (!report) {
    if (device_->failure()) {
      for (StreamChannel* channel : channels_) {
        if (channel != nullptr) channel->fail_recovery(report.error());
      }
    }
    throw Error(std::move(report.error()));
  }
  report->aborted = ended.aborted;
  report->lost = ended.lost;
  first_failure_.clear();
  recoveries_.fetch_add(1, std::memory_order_relaxed);
  return *std::move(report);
}

Expected<void> Runtime::run_level(ResetLevel level, bool wanted, RecoveryReport& report) {
  switch (level) {
    case ResetLevel::Stream: return reset_poisoned_streams();
    case ResetLevel::Queue: return reset_queues(report);
    case ResetLevel::Function:
    case ResetLevel::Firmware:
    case ResetLevel::Card:
    case ResetLevel::PowerCycle: return replace_device(level, wanted, report);
    case ResetLevel::Wedged: break;
  }
  return {};
}

// ---- the same device ------------------------------------------------------------------------------------------------

Expected<void> Runtime::reset_poisoned_streams() {
  for (StreamChannel* channel : channels_) {
    if (channel == nullptr || !channel->poisoned()) continue;
    const bool retry = recovery_.policy == RecoveryPolicy::Recover;
    const auto deadline = quiesce_deadline();
    auto reset = retry ? channel->reset_and_retry(deadline) : channel->reset_for_recovery(deadline);
    if (!reset) return reset;
  }
  return {};
}

Expected<void> Runtime::reset_queues(RecoveryReport& report) {
  const auto deadline = quiesce_deadline();
  std::vector<StreamChannel*> paused;
  paused.reserve(channels_.size());
  Expected<void> result;
  for (StreamChannel* channel : channels_) {
    if (channel == nullptr) continue;
    result = channel->begin_queue_reset(deadline);
    if (!result) break;
    paused.push_back(channel);
  }
  const bool begun = result.has_value();
  if (begun) result = device_->reset_queues();
  for (StreamChannel* channel : paused) {
    if (!begun || (!result && refused_as_busy(result.error()))) {
      channel->cancel_queue_reset();
      continue;
    }
    const auto ended = channel->end_queue_reset(result);
    report.aborted += ended.aborted;
    report.lost += ended.lost;
  }
  return result;
}

// ---- another device -------------------------------------------------------------------------------------------------

// Nothing is half written. An error leaves everything as it was.
Expected<void> Runtime::quiesce() {
  const auto deadline = quiesce_deadline();
  regions_->shut();
  for (unsigned id = 0; id < channels_.size(); ++id) {
    if (channels_[id] == nullptr) continue;
    auto quiet = channels_[id]->begin_recovery(deadline);
    if (quiet) continue;
    for (unsigned begun = 0; begun < id; ++begun) {
      if (channels_[begun] != nullptr) channels_[begun]->cancel_recovery();
    }
    regions_->open(device_);
    return quiet;
  }
  return {};
}

Expected<void> Runtime::end_everything(RecoveryReport& report) {
  if (auto quiet = quiesce(); !quiet) return quiet;
  device_->close();
  const auto deadline = quiesce_deadline();
  for (StreamChannel* channel : channels_) {
    if (channel == nullptr) continue;
    const auto ended = channel->end_everything(deadline);
    if (!ended) return std::unexpected(ended.error());
    report.aborted += ended->aborted;
    report.lost += ended->lost;
  }
  return {};
}

Expected<void> Runtime::replace_device(ResetLevel level, bool wanted, RecoveryReport& report) {
  if (!source_) return std::unexpected(no_source());
  if (auto ended = end_everything(report); !ended) return ended;
  if (level > ResetLevel::Function) {
    if (auto raised = source_->raise(level, wanted); !raised) return raised;
  }
  auto opened = source_->open();
  if (!opened) return std::unexpected(std::move(opened.error()));
  return adopt(*std::move(opened));
}

void Runtime::move_memory(Device& device) {
  host_memory_.move_to(device.host_memory(), device.host_memory_offset(), device.mapping());
  // The old staging ends when the new one is there; no channel has a chunk of it.
  const auto old = scheduler_->renew_staging();
  for (StreamChannel* channel : channels_) {
    if (channel != nullptr) channel->move_memory(host_memory_, scheduler_->staging());
  }
}

Expected<void> Runtime::adopt(std::shared_ptr<Device> device) {
  try {
    // On the same window host memory is the same, byte by byte, and who holds a piece of it keeps it.
    if (device->window_identity() != window_) move_memory(*device);
    {
      const std::lock_guard lock(device_mutex_);
      device_before_ = std::exchange(device_, device);
    }
    take_facts();
    allocator_->forget_regions();
    regions_->open_here(device);
    reserve_correction_slots();
    for (unsigned id = 0; id < channels_.size(); ++id) {
      if (channels_[id] == nullptr) continue;
      const auto stream = open_on_card(*device, id);
      if (!stream) return std::unexpected(stream.error());
      channels_[id]->end_recovery(device, *stream);
    }
    regions_->open(device);
    return {};
  } catch (const Error& error) {
    return std::unexpected(error.info());
  }
}

}  // namespace svp
