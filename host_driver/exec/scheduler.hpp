// SPDX-License-Identifier: Apache-2.0
// Scheduler: what FlexStream hands control blocks to. One per device: it owns the streams' queues, submission, credits,
// completions and staging. Policy today: first in, first out within a stream, as the RFC asks; between streams the card
// decides. A channel per stream keeps room for another policy between pending_ and submit.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "host_driver/exec/staging.hpp"
#include "host_driver/exec/stream_channel.hpp"

namespace flex {

class Scheduler {
 public:
  // Both outlive the scheduler's close(); `memory` also the scheduler. Throws OutOfMemory (staging chunks).
  Scheduler(Device& device, HostMemory& memory, const StagingOptions& staging, bool checksums);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The channel of a stream that is open on the card; made when first asked for. Thread-safe.
  StreamChannel& channel(std::uint32_t stream);

  // Refuses new work and ends the staging worker. After it the device may be destroyed, which ends what the card holds.
  void close();

 private:
  Device& device_;
  HostMemory& memory_;
  StagingEngine staging_;
  const bool checksums_;
  std::mutex mutex_;
  std::map<std::uint32_t, std::unique_ptr<StreamChannel>> channels_;
};

}  // namespace flex
