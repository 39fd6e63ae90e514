// SPDX-License-Identifier: Apache-2.0
// From a mapped window to DRIVER_OK: the driver's half of the VIRTIO status machine (VIRTIO 1.4 §3.1.1, protocol §3).
// Every step has a name, one way forward and one way to fail; an error names the step, the POST code and the next step.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/base/timeouts.hpp"
#include "host_driver/transport/control_channel.hpp"
#include "host_driver/transport/doorbells.hpp"
#include "host_driver/transport/packed_queue.hpp"
#include "host_driver/transport/window.hpp"
#include "shared/message.hpp"
#include "shared/virtio.hpp"

namespace svp {

enum class BringUpStep : std::uint8_t {
  WaitForCard,  // the window's magic appears and the card reports POST "ready"
  CheckAbi,     // both sides were built from the same contract
  Identify,     // GET_DEVICE_INFO: our device, enough queues
  Reset,        // status 0
  Acknowledge,  // status ACKNOWLEDGE
  Driver,       // status DRIVER
  Features,     // what both know; the mandatory ones are there
  FeaturesOk,   // status FEATURES_OK, read back
  ReadConfig,   // function, generation, epoch, limits
  SetUpQueues,  // SET_VQUEUE for each
  DriverOk,     // status DRIVER_OK
  PostEvents,   // buffers for device events
  Ready,        // end
  Failed,       // end
};
inline constexpr unsigned kBringUpSteps = static_cast<unsigned>(BringUpStep::Failed) + 1;

constexpr std::string_view name(BringUpStep step) {
  constexpr std::array<std::string_view, kBringUpSteps> kNames{
      "wait for the card", "check the ABI version", "identify",      "reset",     "ACKNOWLEDGE", "DRIVER", "features",
      "FEATURES_OK",       "read configuration",    "set up queues", "DRIVER_OK", "post events", "ready",  "failed"};
  const auto index = static_cast<unsigned>(step);
  return index < kBringUpSteps ? kNames[index] : std::string_view("unknown step");
}

// The one transition function.
constexpr BringUpStep next_step(BringUpStep step, bool succeeded) {
  if (step == BringUpStep::Ready || step == BringUpStep::Failed) return step;
  if (!succeeded) return BringUpStep::Failed;
  return static_cast<BringUpStep>(static_cast<unsigned>(step) + 1);
}

// What bring-up leaves behind.
struct FunctionLink {
  wire::DeviceConfig config{};
  std::uint64_t features = 0;
  std::vector<PackedQueue> queues;  // by wire::Queue
};

class BringUp {
 public:
  // All outlive this object. `optional_features`: which of wire::kOptionalFeatures to accept.
  BringUp(Window& window, ControlChannel& channel, Doorbells& doorbells, int exit_fd, const Timeouts& timeouts,
          std::uint64_t optional_features);

  // Before a card has set up its windows its boot is seen by the console only: how many POST codes that has shown.
  // New ones begin the wait anew, as a new code in the window does. Asked when the wait begins and when it would end;
  // at most as often as a boot has codes, because a firmware that restarts for ever shows new ones for ever.
  static constexpr unsigned kMostBootWaits = 11;
  void watch_boot(std::function<std::uint64_t()> codes_shown) { codes_shown_ = std::move(codes_shown); }

  // Runs to Ready or Failed. After a failure the card is told (status FAILED) if it still answers.
  Expected<FunctionLink> run();
  BringUpStep step() const { return step_; }

 private:
  Expected<void> perform(BringUpStep step);
  Expected<void> wait_for_card();
  bool console_shows_more();
  Expected<void> check_abi();
  Expected<void> identify();
  Expected<void> reset();
  Expected<void> add_status(std::uint32_t bit);
  // What several steps ask for and nothing decides in between is sent together: a round trip may be two wake-ups.
  void announce_features();
  void announce_acceptance(const wire::FeatureBlocks& wanted);
  void announce_queues();
  void tell_failure();
  Expected<void> negotiate_features();
  Expected<void> confirm_features();
  Expected<void> read_config();
  Expected<void> check_config() const;
  Expected<void> set_up_queues();
  Expected<void> post_events();
  ErrorInfo failure(std::string message, std::string next, wire::Outcome outcome = wire::Outcome::Rejected) const;
  ErrorInfo in_step(ErrorInfo error) const;
  Expected<void> perform_unless_told_to_fail(BringUpStep step);

  Window& window_;
  ControlChannel& channel_;
  Doorbells& doorbells_;
  int exit_fd_;
  const Timeouts& timeouts_;
  std::uint64_t optional_features_;
  std::function<std::uint64_t()> codes_shown_;  // empty: nobody reads the console
  std::uint64_t codes_known_ = 0;
  unsigned boot_waits_ = 0;
  BringUpStep step_ = BringUpStep::WaitForCard;
  std::uint32_t status_ = 0;
  FunctionLink link_;
};

}  // namespace svp
