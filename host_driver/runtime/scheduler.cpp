// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/scheduler.hpp"

#include <utility>

namespace svp {

Scheduler::Scheduler(HostMemory& memory, const StagingOptions& staging, ChannelRules rules)
    : memory_(memory),
      staging_options_(staging),
      rules_(rules),
      staging_(std::make_unique<StagingEngine>(memory, staging)) {}

Scheduler::~Scheduler() { staging_->stop(); }

StreamChannel& Scheduler::add_channel(std::shared_ptr<Device> device, std::uint32_t stream) {
  const std::lock_guard guard(mutex_);
  channels_.push_back(std::make_unique<StreamChannel>(std::move(device), memory_, *staging_, stream, rules_));
  return *channels_.back();
}

void Scheduler::close() {
  {
    const std::lock_guard guard(mutex_);
    for (const auto& channel : channels_) channel->close();
  }
  staging_->stop();
}

void Scheduler::end_everything() {
  // Without the lock: destructors of the caller's run here, and no channel comes or goes any more.
  staging_->drop_drains();
  for (const auto& channel : channels_) channel->end_at_close();
}

std::unique_ptr<StagingEngine> Scheduler::renew_staging() {
  return std::exchange(staging_, std::make_unique<StagingEngine>(memory_, staging_options_));
}

}  // namespace svp
