// SPDX-License-Identifier: Apache-2.0
// Recovery of a runtime: which reset level, and what has to happen around a device that is replaced. The order below is
// what makes every outcome come exactly once and keeps what belongs to one incarnation of the device out of the next:
//   no launch is half written → the old device delivers its last and is closed → what never reached it ends
//   → [reset level above the function] → a new device → regions forgotten, slots reserved, streams opened → launches are accepted
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "host_driver/device/device_source.hpp"
#include "host_driver/ras/state_log.hpp"
#include "host_driver/runtime/current_function.hpp"
#include "host_driver/runtime/recovery_phase.hpp"
#include "host_driver/runtime/recovery_policy.hpp"
#include "host_driver/runtime/scheduler.hpp"
#include "host_driver/runtime/stream_recoverer.hpp"

namespace svp {

class RuntimeRecovery final : public StreamRecoverer {
 public:
  // All outlive it. `source`: null when there is none.
  RuntimeRecovery(CurrentFunction& function, Scheduler& scheduler, DeviceSource* source, const RecoveryOptions& options)
      : function_(function), scheduler_(scheduler), source_(source), options_(options) {}

  // Runtime::recover().
  RecoveryReport recover(std::optional<ResetLevel> from);
  void recover_stream(StreamChannel& channel) override;

  std::uint64_t recoveries() const { return recoveries_.load(std::memory_order_relaxed); }
  const RecoveryOptions& options() const { return options_; }

 private:
  // With mutex_ held. When it ends, a recovery that is still under way has failed (an exception).
  class Attempt {
   public:
    explicit Attempt(RuntimeRecovery& recovery) : recovery_(recovery) {}
    ~Attempt() {
      if (is_under_way(recovery_.phase_.get())) recovery_.set_phase(RecoveryPhase::Failed);
    }
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;

   private:
    RuntimeRecovery& recovery_;
  };

  void set_phase(RecoveryPhase to) { ras::logged(0, phase_.change(to)); }
  // All with mutex_ and Scheduler::hold().
  RecoveryReport escalate_from(ResetLevel from, bool wanted);
  Device::TimePoint quiesce_deadline() const;  // of waiting for other threads to let go of a stream
  ResetLevel lowest_level() const;
  Expected<void> run_level(ResetLevel level, bool wanted, RecoveryReport& report);
  Expected<void> reset_poisoned_streams();
  Expected<void> reset_queues(RecoveryReport& report);
  Expected<void> replace_device(ResetLevel level, bool wanted, RecoveryReport& report);
  Expected<void> quiesce();
  Expected<void> end_everything(RecoveryReport& report);
  Expected<void> adopt(const std::shared_ptr<Device>& device);

  CurrentFunction& function_;
  Scheduler& scheduler_;
  DeviceSource* const source_;
  const RecoveryOptions options_;
  StateMachine<RecoveryPhase> phase_;
  std::mutex mutex_;  // one recovery at a time; before Scheduler::hold()
  std::atomic<std::uint64_t> recoveries_{0};
};

}  // namespace svp
