// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "host_driver/transport/host_faults.hpp"

namespace flex {

// What finds faults in the driver. A scenario must fail when the detector that it relies on is switched off, else it
// proves nothing: a blind driver is for that only. The card's are in shared/fault.hpp (wire::Detector).
enum HostDetector : std::uint32_t {
  kDetectSilence = 1u << 0,         // the heartbeat stands still: Health::Silent
  kDetectDeath = 1u << 1,           // the emulator has ended
  kDetectRestart = 1u << 2,         // epoch, generation, DEVICE_NEEDS_RESET
  kDetectBadCompletion = 1u << 3,   // a completion that is not the block's own (blind: taken as it is)
  kDetectBrokenRing = 1u << 4,      // a queue or FIFO whose rules the card broke
  kDetectNoReply = 1u << 5,         // a command without a reply, blocks without an end (blind: taken for OK, and over)
  kDetectFailedStep = 1u << 6,      // a step of bring-up (blind: taken for done)
  kDetectHostExhaustion = 1u << 7,  // no host memory, no thread (blind: the exception leaves the driver untyped)
  kDetectOwnerEnd = 1u << 8,        // the broker: an owner's socket or process has ended
};

// Faults that the driver itself can be told to commit: what a scenario injects, and what tests prove bounds with.
// Disarmed they cost one predictable branch where a bell is rung or heard.
struct FaultHooks {
  double drop_bells_to_card = 0;    // probability in [0, 1] that a bell is not rung
  double drop_bells_from_card = 0;  // probability that a heard bell is ignored
  std::uint64_t seed = 1;           // of both
  bool no_spinning = false;         // every wait sleeps at once
  bool no_timers = false;           // sleeps end by a bell, the card's death or the caller's deadline only
  std::uint32_t blind = 0;          // HostDetectors that are off
  // Counted, scripted faults (host_driver/fault). Shared by the devices of a scenario.
  std::shared_ptr<HostFaults> injector{};
  // Whose occurrences they are: wire::Target. Card and Broker's tenants fill it in when they open a function.
  std::uint32_t function = kAny;
};

// What a part of the driver keeps of them.
class FaultSite {
 public:
  FaultSite() = default;
  explicit FaultSite(const FaultHooks& hooks)
      : injector_(hooks.injector), function_(hooks.function), blind_(hooks.blind) {}

  bool armed([[maybe_unused]] HostPoint point) const noexcept {
#ifdef SPYRE_WITHOUT_FAULT_POINTS  // scripts/bench-disarmed: what the question costs
    return false;
#else
    return injector_ != nullptr && injector_->armed(point);
#endif
  }
  std::optional<HostStrike> strike(HostPoint point, HostOccurrence at = {}) const noexcept {
    at.function = function_;
    return injector_->strike(point, at);
  }
  bool sees(HostDetector detector) const noexcept { return (blind_ & detector) == 0; }
  HostFaults* injector() const noexcept { return injector_.get(); }
  std::uint32_t function() const noexcept { return function_; }

 private:
  std::shared_ptr<HostFaults> injector_;
  std::uint32_t function_ = kAny;
  std::uint32_t blind_ = 0;
};

}  // namespace flex
