// SPDX-License-Identifier: Apache-2.0
#include "host_driver/exec/scheduler.hpp"

namespace flex {

Scheduler::Scheduler(Device& device, HostMemory& memory, const StagingOptions& staging, bool checksums)
    : device_(device), memory_(memory), staging_(memory, staging), checksums_(checksums) {}

Scheduler::~Scheduler() { staging_.stop(); }

StreamChannel& Scheduler::channel(std::uint32_t stream) {
  const std::lock_guard guard(mutex_);
  auto& entry = channels_[stream];
  if (entry == nullptr) entry = std::make_unique<StreamChannel>(device_, memory_, staging_, stream, checksums_);
  return *entry;
}

void Scheduler::close() {
  {
    const std::lock_guard guard(mutex_);
    for (const auto& entry : channels_) entry.second->close();
  }
  staging_.stop();
}

}  // namespace flex
