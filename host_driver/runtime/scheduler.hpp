// SPDX-License-Identifier: Apache-2.0
// Scheduler: what FlexStream hands control blocks to. One per device: it owns the streams' queues, submission, credits,
// completions and staging. Policy today: first in, first out within a stream, as the RFC asks; between streams the card
// decides. A channel per stream keeps room for another policy between pending_ and submit.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "host_driver/runtime/staging.hpp"
#include "host_driver/runtime/stream_channel.hpp"

namespace svp {

class Scheduler {
 public:
  // `memory` outlives the scheduler. Throws OutOfMemory (staging chunks).
  Scheduler(HostMemory& memory, const StagingOptions& staging, ChannelRules rules);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // A channel for a stream that is open on the card. Thread-safe.
  StreamChannel& add_channel(std::shared_ptr<Device> device, std::uint32_t stream);

  // Refuses new work and ends the staging worker. After it the device may be closed, which ends what the card holds.
  void close();
  // After that: ends what the device never had, and what was on its way to the caller's memory.
  void end_everything();

  // Staging from a new block of host memory. All channels are being recovered and have no chunk. Throws OutOfMemory;
  // nothing changed then.
  // Returns the engine before, which channels may name until they are told.
  std::unique_ptr<StagingEngine> renew_staging();
  StagingEngine& staging() { return *staging_; }

 private:
  HostMemory& memory_;
  const StagingOptions staging_options_;
  const ChannelRules rules_;
  std::unique_ptr<StagingEngine> staging_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StreamChannel>> channels_;
};

}  // namespace svp
