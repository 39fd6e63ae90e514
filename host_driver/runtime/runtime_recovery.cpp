// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/runtime_recovery.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "host_driver/recovery/busy.hpp"
#include "host_driver/trace/recorder.hpp"

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

RecoveryReport RuntimeRecovery::recover(std::optional<ResetLevel> from) {
  const std::lock_guard recovering(mutex_);
  const auto held = scheduler_.hold();
  const Attempt attempt(*this);
  function_.device()->check_now();
  return escalate_from(from.value_or(lowest_level()), from.has_value());
}

void RuntimeRecovery::recover_stream(StreamChannel& channel) {
  const std::lock_guard recovering(mutex_);
  const auto held = scheduler_.hold();
  if (!channel.needs_recovery()) return;  // another thread was first
  const Attempt attempt(*this);
  if (!channel.device_gone()) {
    set_phase(RecoveryPhase::ResettingStreams);
    const auto reset = channel.reset_and_retry(quiesce_deadline());
    if (reset) return set_phase(RecoveryPhase::Idle);
    if (refused_as_busy(reset.error())) {
      set_phase(RecoveryPhase::Idle);
      throw Error(reset.error());
    }
  }
  (void)escalate_from(channel.device_gone() ? ResetLevel::Function : ResetLevel::Queue, false);
}

Device::TimePoint RuntimeRecovery::quiesce_deadline() const {
  return Device::Clock::now() + function_.device()->timeouts().quiesce;
}

ResetLevel RuntimeRecovery::lowest_level() const {
  const Health health = function_.device()->health();
  const auto poisoned = [](const auto& open) { return open->channel.poisoned(); };
  // Work that does not end on a card that does not beat: no stream is to blame.
  if (health == Health::Silent && std::ranges::none_of(scheduler_.open_streams(), poisoned)) return ResetLevel::Queue;
  return health == Health::Alive || health == Health::Silent ? ResetLevel::Stream : ResetLevel::Function;
}

RecoveryReport RuntimeRecovery::escalate_from(ResetLevel from, bool wanted) {
  const ResetLevel highest = options_.highest.value_or(source_ ? source_->highest() : ResetLevel::Queue);
  RecoveryReport ended;
  auto report = escalate(from, highest, [&](ResetLevel level) {
    // A reset level that nobody asked for was reached because those below it did not help.
    return run_level(level, wanted && level == from, ended);
  });
  if (!report) {
    if (has_done_nothing(phase_.get()) && refused_as_busy(report.error())) set_phase(RecoveryPhase::Idle);
    if (function_.device()->failure()) scheduler_.fail_recovery(report.error());
    throw Error(std::move(report.error()));
  }
  report->aborted = ended.aborted;
  report->lost = ended.lost;
  scheduler_.end_recovery();
  set_phase(RecoveryPhase::Idle);
  recoveries_.fetch_add(1, std::memory_order_relaxed);
  return *std::move(report);
}

Expected<void> RuntimeRecovery::run_level(ResetLevel level, bool wanted, RecoveryReport& report) {
  trace::Span traced(trace::Kind::Reset);
  if (auto* fields = traced.fields()) *fields = {.kind = trace::Kind::Reset, .text = name(level)};
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

Expected<void> RuntimeRecovery::reset_poisoned_streams() {
  set_phase(RecoveryPhase::ResettingStreams);
  for (const auto& open : scheduler_.open_streams()) {
    StreamChannel& channel = open->channel;
    if (!channel.poisoned()) continue;
    const bool retry = options_.policy == RecoveryPolicy::Recover;
    const auto deadline = quiesce_deadline();
    auto reset = retry ? channel.reset_and_retry(deadline) : channel.reset_for_recovery(deadline);
    if (!reset) return reset;
  }
  return {};
}

Expected<void> RuntimeRecovery::reset_queues(RecoveryReport& report) {
  set_phase(RecoveryPhase::ResettingQueues);
  const auto deadline = quiesce_deadline();
  std::vector<StreamChannel*> paused;
  paused.reserve(scheduler_.open_streams().size());
  Expected<void> result;
  for (const auto& open : scheduler_.open_streams()) {
    result = open->channel.begin_queue_reset(deadline);
    if (!result) break;
    paused.push_back(&open->channel);
  }
  const bool begun = result.has_value();
  if (begun) result = function_.device()->reset_queues();
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
Expected<void> RuntimeRecovery::quiesce() {
  set_phase(RecoveryPhase::Quiescing);
  const auto deadline = quiesce_deadline();
  function_.shut_regions();
  const auto streams = scheduler_.open_streams();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    auto quiet = streams[i]->channel.begin_recovery(deadline);
    if (quiet) continue;
    for (std::size_t begun = 0; begun < i; ++begun) streams[begun]->channel.cancel_recovery();
    function_.open_regions();
    return quiet;
  }
  return {};
}

Expected<void> RuntimeRecovery::end_everything(RecoveryReport& report) {
  if (auto quiet = quiesce(); !quiet) return quiet;
  set_phase(RecoveryPhase::EndingLaunches);
  function_.device()->close();
  const auto deadline = quiesce_deadline();
  for (const auto& open : scheduler_.open_streams()) {
    const auto ended = open->channel.end_everything(deadline);
    if (!ended) return std::unexpected(ended.error());
    report.aborted += ended->aborted;
    report.lost += ended->lost;
  }
  return {};
}

Expected<void> RuntimeRecovery::replace_device(ResetLevel level, bool wanted, RecoveryReport& report) {
  if (source_ == nullptr) return std::unexpected(no_source());
  if (auto ended = end_everything(report); !ended) return ended;
  if (level > ResetLevel::Function) {
    set_phase(RecoveryPhase::RaisingLevel);
    if (auto raised = source_->raise(level, wanted); !raised) return raised;
  }
  set_phase(RecoveryPhase::OpeningDevice);
  auto opened = source_->open();
  if (!opened) return std::unexpected(std::move(opened.error()));
  set_phase(RecoveryPhase::AdoptingDevice);
  return adopt(*std::move(opened));
}

Expected<void> RuntimeRecovery::adopt(const std::shared_ptr<Device>& device) {
  try {
    // On the same window host memory is the same, byte by byte, and who holds a piece of it keeps it.
    if (function_.is_other_window(*device)) {
      function_.move_host_memory(*device);
      scheduler_.move_memory();
    }
    function_.replace(device);
    for (const auto& open : scheduler_.open_streams()) {
      const auto on_card = Scheduler::open_on_card(*device, open->id);
      if (!on_card) return std::unexpected(on_card.error());
      open->channel.end_recovery(device, *on_card);
    }
    scheduler_.forget_lost_writes();
    function_.open_regions();
    return {};
  } catch (const Error& error) {
    return std::unexpected(error.info());
  }
}

}  // namespace svp
