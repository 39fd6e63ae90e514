// SPDX-License-Identifier: Apache-2.0
// How far a runtime's recovery is. docs/states.md draws it.
#pragma once

#include <array>
#include <cstdint>

#include "host_driver/base/state_machine.hpp"

namespace svp {

enum class RecoveryPhase : std::uint8_t {
  Idle,
  ResettingStreams,
  ResettingQueues,
  Quiescing,       // no launch is half written when it ends
  EndingLaunches,  // the old device delivers its last; what never reached it ends
  RaisingLevel,    // the firmware or the card is reset
  OpeningDevice,
  AdoptingDevice,  // slots are reserved and streams opened on it
  Failed,          // no reset level helped; the next recovery may
};
inline constexpr std::array<std::string_view, 9> kRecoveryPhaseNames{
    "idle",          "resetting streams", "resetting queues", "quiescing", "ending launches",
    "raising level", "opening device",    "adopting device",  "failed"};
inline constexpr std::array kRecoveryPhaseEdges{
    state_edge(RecoveryPhase::Idle, RecoveryPhase::ResettingStreams, "from the stream reset on"),
    state_edge(RecoveryPhase::Idle, RecoveryPhase::ResettingQueues, "from the queue reset on"),
    state_edge(RecoveryPhase::Idle, RecoveryPhase::Quiescing, "from the function reset on"),
    state_edge(RecoveryPhase::ResettingStreams, RecoveryPhase::Idle, "helped, or refused"),
    state_edge(RecoveryPhase::ResettingStreams, RecoveryPhase::ResettingQueues, "did not help"),
    state_edge(RecoveryPhase::ResettingStreams, RecoveryPhase::Quiescing, "did not help, the device is gone"),
    state_edge(RecoveryPhase::ResettingStreams, RecoveryPhase::Failed, "did not help, the last level"),
    state_edge(RecoveryPhase::ResettingQueues, RecoveryPhase::Idle, "helped, or refused"),
    state_edge(RecoveryPhase::ResettingQueues, RecoveryPhase::Quiescing, "did not help"),
    state_edge(RecoveryPhase::ResettingQueues, RecoveryPhase::Failed, "did not help, the last level"),
    state_edge(RecoveryPhase::Quiescing, RecoveryPhase::EndingLaunches, "no launch is half written"),
    state_edge(RecoveryPhase::Quiescing, RecoveryPhase::Idle, "refused"),
    state_edge(RecoveryPhase::Quiescing, RecoveryPhase::Failed, "no memory"),
    state_edge(RecoveryPhase::EndingLaunches, RecoveryPhase::RaisingLevel, "firmware restart and above"),
    state_edge(RecoveryPhase::EndingLaunches, RecoveryPhase::OpeningDevice, "function reset"),
    state_edge(RecoveryPhase::EndingLaunches, RecoveryPhase::Quiescing, "next level"),
    state_edge(RecoveryPhase::EndingLaunches, RecoveryPhase::Failed, "the last level"),
    state_edge(RecoveryPhase::RaisingLevel, RecoveryPhase::OpeningDevice, "card is back"),
    state_edge(RecoveryPhase::RaisingLevel, RecoveryPhase::Quiescing, "next level"),
    state_edge(RecoveryPhase::RaisingLevel, RecoveryPhase::Failed, "the last level"),
    state_edge(RecoveryPhase::OpeningDevice, RecoveryPhase::AdoptingDevice, "function is up"),
    state_edge(RecoveryPhase::OpeningDevice, RecoveryPhase::Quiescing, "next level"),
    state_edge(RecoveryPhase::OpeningDevice, RecoveryPhase::Failed, "the last level"),
    state_edge(RecoveryPhase::AdoptingDevice, RecoveryPhase::Idle, "launches are accepted"),
    state_edge(RecoveryPhase::AdoptingDevice, RecoveryPhase::Quiescing, "next level"),
    state_edge(RecoveryPhase::AdoptingDevice, RecoveryPhase::Failed, "the last level"),
    state_edge(RecoveryPhase::Failed, RecoveryPhase::ResettingStreams, "again"),
    state_edge(RecoveryPhase::Failed, RecoveryPhase::ResettingQueues, "again"),
    state_edge(RecoveryPhase::Failed, RecoveryPhase::Quiescing, "again"),
};
constexpr StateTable state_table(RecoveryPhase) { return {"recovery", kRecoveryPhaseNames, kRecoveryPhaseEdges}; }

constexpr bool is_under_way(RecoveryPhase phase) {
  return phase != RecoveryPhase::Idle && phase != RecoveryPhase::Failed;
}
// When it is refused here, nothing is lost.
constexpr bool has_done_nothing(RecoveryPhase phase) {
  return phase == RecoveryPhase::ResettingStreams || phase == RecoveryPhase::ResettingQueues ||
         phase == RecoveryPhase::Quiescing;
}

}  // namespace svp
