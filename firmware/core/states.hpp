// SPDX-License-Identifier: Apache-2.0
// The states of the card, of a function's reset, of a stream and of a launch, and the changes between them.
#pragma once

#include "firmware/core/state_machine.hpp"
#include "shared/post_codes.hpp"

namespace fw {

// Steps of a boot, and what it comes to. On the console and in the windows' headers these are POST codes.
enum class CardState : std::uint8_t { Off, Memory, RegionPool, Slots, Cores, Functions, SelfTest, Ready, Failed };
inline constexpr StateTable<CardState, 9, 15> kCardStates{
    "card",
    wire::kCardStateNames,
    {{{CardState::Off, CardState::Memory, "hart 0 starts"},
      {CardState::Memory, CardState::RegionPool, "boot words understood"},
      {CardState::RegionPool, CardState::Slots, "persistent memory checked"},
      {CardState::Slots, CardState::Cores, "M has its window"},
      {CardState::Cores, CardState::Functions, "address spaces and queues are set up"},
      {CardState::Functions, CardState::SelfTest, "requested, or the previous boot failed"},
      {CardState::Functions, CardState::Ready, "every function has its window"},
      {CardState::SelfTest, CardState::Ready, "passed"},
      {CardState::Off, CardState::Failed, "the step failed"},
      {CardState::Memory, CardState::Failed, "the step failed"},
      {CardState::RegionPool, CardState::Failed, "the step failed"},
      {CardState::Slots, CardState::Failed, "the step failed"},
      {CardState::Cores, CardState::Failed, "the step failed"},
      {CardState::Functions, CardState::Failed, "the step failed"},
      {CardState::SelfTest, CardState::Failed, "the step failed"}}}};
constexpr wire::PostCode post_code(CardState state) {
  switch (state) {
    case CardState::Off: return wire::PostCode::None;
    case CardState::Memory: return wire::PostCode::Memory;
    case CardState::RegionPool: return wire::PostCode::RegionPool;
    case CardState::Slots: return wire::PostCode::Slots;
    case CardState::Cores: return wire::PostCode::Cores;
    case CardState::Functions: return wire::PostCode::Functions;
    case CardState::SelfTest: return wire::PostCode::SelfTest;
    case CardState::Ready: return wire::PostCode::Ready;
    case CardState::Failed: return wire::PostCode::Failed;
  }
  return wire::PostCode::None;
}

// Released: nothing of the old owner runs, what it held is released; the answer waits until the reset is paid for.
enum class ResetState : std::uint8_t { None, OfQueue, Stopping, Released };
inline constexpr StateTable<ResetState, 4, 6> kResetStates{
    "function reset",
    wire::kResetStateNames,
    {{{ResetState::None, ResetState::OfQueue, "RESET_VQUEUE"},
      {ResetState::OfQueue, ResetState::None, "its streams have settled: answered"},
      {ResetState::None, ResetState::Stopping, "status 0, FUNCTION_RESET or SLOT_RETIRE"},
      {ResetState::OfQueue, ResetState::Stopping, "overtaken by a reset of the function"},
      {ResetState::Stopping, ResetState::Released, "every kernel has left U-mode"},
      {ResetState::Released, ResetState::None, "paid for: state as new, answered"}}}};

// Closed and empty are one: a stream is closed when its last block has ended, and opened only from Closed.
enum class StreamState : std::uint8_t { Closed, Open, Poisoned, Resetting, Closing };
inline constexpr StateTable<StreamState, 5, 9> kStreamStates{
    "stream",
    wire::kStreamStateNames,
    {{{StreamState::Closed, StreamState::Open, "STREAM_OPEN"},
      {StreamState::Open, StreamState::Poisoned, "a block ended other than OK"},
      {StreamState::Open, StreamState::Resetting, "STREAM_RESET or RESET_VQUEUE"},
      {StreamState::Poisoned, StreamState::Resetting, "STREAM_RESET or RESET_VQUEUE"},
      {StreamState::Open, StreamState::Closing, "STREAM_CLOSE"},
      {StreamState::Poisoned, StreamState::Closing, "STREAM_CLOSE"},
      {StreamState::Resetting, StreamState::Open, "its last block has ended"},
      {StreamState::Resetting, StreamState::Closing, "STREAM_CLOSE joins"},
      {StreamState::Closing, StreamState::Closed, "its last block has ended"}}}};

// Condemned: failed before it ran; it has still to be released, because a launch ends where its parts end. Stopping: it
// has failed (the first error is kept), and its parts leave at their next slice boundary.
enum class LaunchState : std::uint8_t { Free, Prepared, Condemned, Running, Stopping, Ended };
inline constexpr StateTable<LaunchState, 6, 9> kLaunchStates{
    "launch",
    {"free", "prepared", "condemned", "running", "stopping", "ended"},
    {{{LaunchState::Free, LaunchState::Prepared, "it has a place in the table"},
      {LaunchState::Prepared, LaunchState::Free, "no room for all its parts"},
      {LaunchState::Prepared, LaunchState::Running, "released: its parts are queued"},
      {LaunchState::Prepared, LaunchState::Condemned, "stopped, or a memory error"},
      {LaunchState::Condemned, LaunchState::Stopping, "released: its parts are queued"},
      {LaunchState::Running, LaunchState::Stopping, "fault, watchdog or stopped by its owner"},
      {LaunchState::Running, LaunchState::Ended, "the last part has exited"},
      {LaunchState::Stopping, LaunchState::Ended, "the last part has left"},
      {LaunchState::Ended, LaunchState::Free, "collected by hart 0"}}}};

}  // namespace fw
