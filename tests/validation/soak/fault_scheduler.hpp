// SPDX-License-Identifier: Apache-2.0
// What disturbs a soak: faults and resets of every level, each with a period of its own (milliseconds, all prime, so
// that every combination comes up). It owns M and tells the disturbances before it does anything.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "host_driver/faults/session.hpp"
#include "qemu/card.hpp"
#include "tests/validation/campaign/resources.hpp"
#include "tests/validation/soak/disturbance_tracker.hpp"

namespace svp::soak {

struct FaultSchedulerReport {
  std::map<std::string, std::uint64_t> events{};  // "firmware restart", … : how often
  struct Count {
    std::uint64_t armed = 0;
    std::uint64_t fired = 0;
  };
  std::map<std::string, Count> faults{};  // by point and action
  std::vector<std::string> complaints{};
  std::uint64_t complained = 0;
};

class FaultScheduler {
 public:
  // Regions that faults of the memory can be aimed at: (target, region id); asked when one is armed.
  using RegionOf = std::function<std::optional<std::uint64_t>(unsigned target)>;

  // Functions 1 (PF) … `functions`. Card and disturbances outlive this. Throws svp::Error when M cannot be had.
  FaultScheduler(Card& card, unsigned functions, std::uint64_t seed, DisturbanceTracker& tracker, RegionOf region_of);
  ~FaultScheduler();
  FaultScheduler(const FaultScheduler&) = delete;
  FaultScheduler& operator=(const FaultScheduler&) = delete;

  // From now on run() only waits and watches.
  void keep_quiet() { calendar_.clear(); }
  // Until `end`, or until `enough`; then everything is disarmed and the card is up. `rounds` counts those of all
  // tenants: between two events lie at least kRoundsBetween, so that on a busy machine events do not come faster than
  // work. Throws svp::Error when the card could not be brought back.
  static constexpr std::uint64_t kRoundsBetween = 12;
  void run(std::chrono::steady_clock::time_point end, const std::function<bool()>& enough,
           const std::function<std::uint64_t()>& rounds);
  // Asked of M, when run() has returned.
  campaign::CardResources card_resources();
  std::uint64_t retired_bytes();

  const FaultSchedulerReport& report() const { return report_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Event {
    const char* name;
    std::chrono::milliseconds period;
    void (FaultScheduler::*act)();
    Clock::time_point due{};
  };

  void next_fault();
  void end_fault();
  void reset_function();
  void stop_emulator();
  void trap_firmware();
  void restart_firmware() { raise(ResetLevel::Firmware); }
  void reset_card() { raise(ResetLevel::Card); }
  void power_cycle() { raise(ResetLevel::PowerCycle); }
  void kill_emulator();
  void raise(ResetLevel level);
  void open_management();
  bool arm(const fault::Fault& fault);
  unsigned any_function() { return 1 + static_cast<unsigned>(random_() % functions_); }
  void complain(const std::string& what);

  Card& card_;
  const unsigned functions_;
  DisturbanceTracker& tracker_;
  RegionOf region_of_;
  std::mt19937_64 random_;
  std::vector<Event> calendar_;
  std::unique_ptr<Device> management_;
  std::unique_ptr<fault::Session> session_;
  std::unique_ptr<DisturbanceTracker::Scope> scope_;  // of the fault that is armed
  FaultSchedulerReport report_;
};

}  // namespace svp::soak
