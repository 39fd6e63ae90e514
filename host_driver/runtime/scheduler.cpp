// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/scheduler.hpp"

#include <string>
#include <utility>

namespace svp {

Scheduler::Scheduler(CurrentFunction& function, const StagingOptions& staging, RecoveryPolicy policy,
                     const SchedulerOptions& options)
    : function_(function),
      staging_options_(staging),
      rules_{.retry_aborted = policy == RecoveryPolicy::Recover,
             .first_failure = policy == RecoveryPolicy::FailFast ? &first_failure_ : nullptr,
             .checksums = options.checksums,
             .elide_corrections = options.elide_corrections,
             .lost_writes = policy == RecoveryPolicy::Recover ? &lost_writes_ : nullptr,
             .counters = &counters_,
             .host_calls = &host_calls_,
             .host_operations = &host_operations_,
             .scratchpads = &function.scratchpads()},
      staging_(std::make_unique<StagingEngine>(function.host_memory(), staging)) {
  streams_.reserve(kStreams);
}

Scheduler::~Scheduler() { staging_->stop(); }

Expected<std::uint32_t> Scheduler::open_on_card(Device& device, unsigned id) {
  if (id == 0) return 0;  // open from the start
  return device.open_stream(priority_of(id));
}

FlexStream& Scheduler::stream(unsigned id, StreamRecoverer& recoverer) {
  // Also during a recovery, which holds the lock throughout.
  if (OpenStream* ready = by_id_[id].load(std::memory_order_acquire)) return ready->stream;
  const auto held = hold();
  if (OpenStream* ready = by_id_[id].load(std::memory_order_relaxed)) return ready->stream;
  const auto on_card = open_on_card(*function_.device(), id);
  if (!on_card) throw Error(on_card.error());
  streams_.push_back(std::make_unique<OpenStream>(id, function_, recoverer, *staging_, host_work_, *on_card, rules_));
  // Before it is found without the lock: nobody launches on it meanwhile.
  if (failed_recovery_) streams_.back()->channel.fail_recovery(*failed_recovery_);
  by_id_[id].store(streams_.back().get(), std::memory_order_release);
  return streams_.back()->stream;
}

std::vector<FlexStream*> Scheduler::opened() const {
  std::vector<FlexStream*> streams;
  for (const auto& entry : by_id_) {
    if (OpenStream* const open = entry.load(std::memory_order_acquire)) streams.push_back(&open->stream);
  }
  return streams;
}

unsigned Scheduler::next_id(StreamPriority priority) {
  const bool high = priority == StreamPriority::High;
  const unsigned next = next_[high ? 1 : 0].fetch_add(1, std::memory_order_relaxed) % kStreamsPerPool;
  return 1 + next + (high ? kStreamsPerPool : 0);
}

unsigned Scheduler::next_host_id(unsigned of) {
  return kFirstHostStream + next_host_.fetch_add(1, std::memory_order_relaxed) % of;
}

void Scheduler::close() {
  {
    const auto held = hold();
    for (const auto& open : streams_) open->channel.close();
  }
  staging_->stop();
}

void Scheduler::end_everything() {
  // Without the lock: destructors of the caller's run here, and no stream comes or goes any more.
  host_calls_.finish();  // what they waited for has ended with the device
  host_operations_.finish();
  staging_->drop_drains();
  for (const auto& open : streams_) open->channel.end_at_close();
}

void Scheduler::fail_recovery(const ErrorInfo& why) {
  failed_recovery_ = why;
  for (const auto& open : streams_) open->channel.fail_recovery(why);
}

void Scheduler::end_recovery() {
  failed_recovery_.reset();
  first_failure_.clear();
}

void Scheduler::move_memory() {
  // The old staging ends when the new one is there; no channel has a chunk of it.
  const auto old = std::exchange(staging_, std::make_unique<StagingEngine>(function_.host_memory(), staging_options_));
  for (const auto& open : streams_) open->channel.move_memory(function_.host_memory(), *staging_);
}

}  // namespace svp
