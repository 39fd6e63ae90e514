// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "host_driver/base/host_faults.hpp"

namespace svp {

// Faults that the driver itself can be told to commit: what a scenario injects, and what tests prove bounds with.
// Disarmed they cost one predictable branch where a doorbell is signalled or received.
struct FaultHooks {
  double drop_doorbells_to_card = 0;    // probability in [0, 1] that a doorbell is not signalled
  double drop_doorbells_from_card = 0;  // probability that a received doorbell is ignored
  std::uint64_t seed = 1;               // of both
  bool no_spinning = false;             // every wait sleeps at once
  bool no_timers = false;               // sleeps end by a doorbell, the card's death or the caller's deadline only
  // Counted, scripted faults (host_driver/faults). Shared by the devices of a scenario.
  std::shared_ptr<HostFaults> injector{};
  // Whose occurrences they are: wire::Target. Card and Broker's tenants fill it in when they open a function.
  std::uint32_t function = kAny;
};

// What a part of the driver keeps of them.
class FaultSite {
 public:
  FaultSite() = default;
  explicit FaultSite(const FaultHooks& hooks) : injector_(hooks.injector), function_(hooks.function) {}

  bool armed([[maybe_unused]] fault::Point point) const noexcept {
#ifdef SPYRE_WITHOUT_FAULT_POINTS  // scripts/bench-disarmed: what the question costs
    return false;
#else
    return injector_ != nullptr && injector_->armed(point);
#endif
  }
  std::optional<HostShot> occur(fault::Point point, HostOccurrence at = {}) const noexcept {
    at.function = function_;
    return injector_->occur(point, at);
  }
  HostFaults* injector() const noexcept { return injector_.get(); }
  std::uint32_t function() const noexcept { return function_; }

 private:
  std::shared_ptr<HostFaults> injector_;
  std::uint32_t function_ = kAny;
};

}  // namespace svp
