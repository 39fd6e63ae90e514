// SPDX-License-Identifier: Apache-2.0
// A script, armed: on the card through its management function, in the driver through OpenOptions::faults, in the
// emulator by a thread that waits for its time.
//
//   auto session = *fault::Session::begin(script);        // the driver's faults are armed; time starts
//   auto context = Context::open(card, {.device = {.faults = session->hooks()}});
//   session->arm(*card);                                  // the card's and the emulator's
//   session->arm_memory();                                // once the regions are there
//   …                                                     // let it run
//   session->disarm();
//   for (const auto& e : session->evidence()) …           // nothing fired: the scenario is INVALID
//
// Every wait is bounded by the card's Timeouts::admin and the machine's Timeouts::request. Threading: one thread, but
// for evidence(), which may be called by any.
#pragma once

#include <memory>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/device/device.hpp"
#include "host_driver/faults/evidence.hpp"
#include "host_driver/faults/script.hpp"
#include "qemu/card.hpp"

namespace svp::fault {

class Session {
 public:
  // Draws the script's random numbers and arms the driver's faults: they count from the first call that uses hooks().
  static Expected<std::unique_ptr<Session>> begin(const Script& script);
  // disarm(), whatever comes of it.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Arms the card's and the emulator's faults, but those at a place in memory. The card outlives the session.
  // `management`: M, when somebody holds it already (one owner at a time); else it is opened when a fault of the card
  // asks for it, and held until disarm(). Errors: what the card refused, or cannot do yet (Status::Unsupported), names
  // the fault; nothing of it is armed then.
  Expected<void> arm(Card& card, Device* management = nullptr);

  // Arms the faults at a place in memory, which the card finds when they are armed: their functions hold the regions by
  // then. No-op without any. Needs arm(). Errors: as arm().
  Expected<void> arm_memory();

  // `base` with the driver's faults. Devices that are opened with it share the counters.
  FaultHooks hooks(FaultHooks base = {}) const;

  // The script as it runs: with its random numbers drawn.
  const Script& script() const;
  // One per fault, in the script's order. Asks the card for what it has counted, as long as it answers.
  std::vector<Evidence> evidence();
  // Ends every fault: what is stopped or frozen goes on. The evidence stays. Errors: the card did not answer; its rows
  // are empty after its next boot.
  Expected<void> disarm();

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace svp::fault
