// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/base/unique_fd.hpp"
#include "host_driver/transport/fault_hooks.hpp"
#include "shared/virtio.hpp"

namespace svp {

class EventLoop;

struct DeviceOptions {
  // Of the card, for records of errors (host_driver/ras).
  std::string card_name = "embedded";
  // Readable when the card has died (its emulator ended). Without it a death is noticed by nothing but silence.
  UniqueFd exit_fd{};
  // "signal 9 (Killed)": asked once, after exit_fd became readable, for the text of errors. May be empty; may wait for
  // Timeouts::death_report until the answer is known.
  std::function<std::string()> how_card_ended{};
  // "PANIC hart 0: loop stands still": asked once, after the firmware has restarted itself, for the text of errors.
  // Empty, or an empty text: nobody knows. Does not wait.
  std::function<std::string()> why_card_restarted{};
  // Whoever opens it can start the card's emulator again (Context::recover()); else its death is for good.
  bool restartable = false;
  // Whether a debugger holds the card now: bring-up and requests wait for as long. Empty: none can.
  std::function<bool()> held_by_debugger{};
  // How many POST codes the card's console has shown (BringUp::watch_boot()). Empty: the card is known to have booted.
  std::function<std::uint64_t()> boot_codes_shown{};
  // Shared by several devices of a process; empty: the device makes its own.
  std::shared_ptr<EventLoop> loop{};
  // Which of wire::kOptionalFeatures to accept when the card offers them.
  std::uint64_t optional_features = wire::kFeatureEventIdx;
  // For programs that serve several functions by one thread and poll() or wait on each of them in turn: while nobody
  // does, the card rings no doorbell for completions, which cost more than small jobs. What nobody asks for is still
  // delivered, by the driver's tick (Timeouts::tick). A thread that sleeps in a wait is woken as ever.
  bool polled = false;
  // False: whoever opens it watches the emulator and records its death himself, if it was one and no orderly end.
  bool records_death = true;
  Timeouts timeouts{};
  FaultHooks faults{};
};

// What whoever opens a function of a card, embedded or long-lived, decides about its device.
struct OpenOptions {
  std::uint64_t optional_features = wire::kFeatureEventIdx;
  bool polled = false;  // see DeviceOptions
  bool records_death = true;
  FaultHooks faults{};
};

}  // namespace svp
