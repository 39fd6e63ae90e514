// SPDX-License-Identifier: Apache-2.0
// The lifecycles that a broker keeps: its card, the card's functions, its clients. docs/states.md draws them. What
// others are told of them (CardState, FunctionUse: card.json, "describe") has fewer states.
#pragma once

#include <array>
#include <cstdint>

#include "host_driver/base/state_machine.hpp"
#include "host_driver/discovery/card_description.hpp"

namespace svp {

enum class CardPhase : std::uint8_t {
  Booting,  // for the first time
  Running,
  Dead,          // the emulator ended by itself, or its firmware does not answer
  Cycling,       // a power cycle: until its boot has ended nothing else can happen to the card
  Recovering,    // the firmware restarted, or is being reset
  Wedged,        // it kept dying
  StoppingBoot,  // to be stopped when the boot has ended
  Stopping,
  Stopped,
};
inline constexpr std::array<std::string_view, 9> kCardPhaseNames{
    "booting", "running", "dead", "power-cycling", "recovering", "wedged", "stopping, booting", "stopping", "stopped"};
inline constexpr std::array kCardPhaseEdges{
    state_edge(CardPhase::Booting, CardPhase::Running, "boot ended"),
    state_edge(CardPhase::Running, CardPhase::Dead, "emulator ended, or firmware does not answer"),
    state_edge(CardPhase::Running, CardPhase::Wedged, "emulator ended once too often"),
    state_edge(CardPhase::Running, CardPhase::Recovering, "restarted, or escalation begins"),
    state_edge(CardPhase::Running, CardPhase::Cycling, "power cycle"),
    state_edge(CardPhase::Running, CardPhase::Stopping, "stop"),
    state_edge(CardPhase::Dead, CardPhase::Dead, "emulator ended as well"),
    state_edge(CardPhase::Dead, CardPhase::Wedged, "died once too often"),
    state_edge(CardPhase::Dead, CardPhase::Recovering, "escalation begins"),
    state_edge(CardPhase::Dead, CardPhase::Cycling, "power cycle"),
    state_edge(CardPhase::Dead, CardPhase::Stopping, "stop"),
    state_edge(CardPhase::Cycling, CardPhase::Running, "boot ended"),
    state_edge(CardPhase::Cycling, CardPhase::Dead, "boot failed"),
    state_edge(CardPhase::Cycling, CardPhase::StoppingBoot, "stop"),
    state_edge(CardPhase::Recovering, CardPhase::Recovering, "next reset level"),
    state_edge(CardPhase::Recovering, CardPhase::Running, "attached again"),
    state_edge(CardPhase::Recovering, CardPhase::Wedged, "died once too often"),
    state_edge(CardPhase::Recovering, CardPhase::Cycling, "no reset helped"),
    state_edge(CardPhase::Recovering, CardPhase::Stopping, "stop"),
    state_edge(CardPhase::Wedged, CardPhase::Wedged, "emulator ended as well"),
    state_edge(CardPhase::Wedged, CardPhase::Stopping, "stop"),
    state_edge(CardPhase::StoppingBoot, CardPhase::Stopping, "boot ended"),
    state_edge(CardPhase::Stopping, CardPhase::Stopped, "emulator gone"),
};
constexpr StateTable state_table(CardPhase) { return {"broker's card", kCardPhaseNames, kCardPhaseEdges}; }

enum class FunctionPhase : std::uint8_t {
  Free,
  Owned,
  Retiring,  // its last owner is gone; the card stops what it left behind
  Unbound,   // that is done; it waits for a window
  Binding,   // a window is being bound to it
  NoSlot,    // no further peer, or no window
  Stuck,     // the card refused or did not answer, or has ended
};
inline constexpr std::array<std::string_view, 7> kFunctionPhaseNames{"free",    "owned",   "retiring", "unbound",
                                                                     "binding", "no slot", "stuck"};
inline constexpr std::array kFunctionPhaseEdges{
    state_edge(FunctionPhase::Free, FunctionPhase::Owned, "handed out"),
    state_edge(FunctionPhase::Free, FunctionPhase::Stuck, "card ended"),
    state_edge(FunctionPhase::Owned, FunctionPhase::Free, "the owner was never told"),
    state_edge(FunctionPhase::Owned, FunctionPhase::Retiring, "owner gone"),
    state_edge(FunctionPhase::Owned, FunctionPhase::Stuck, "card ended"),
    state_edge(FunctionPhase::Retiring, FunctionPhase::Retiring, "again, after a restart"),
    state_edge(FunctionPhase::Retiring, FunctionPhase::Free, "stopped, and a window bound"),
    state_edge(FunctionPhase::Retiring, FunctionPhase::Unbound, "stopped, no window yet"),
    state_edge(FunctionPhase::Retiring, FunctionPhase::Stuck, "card refused, or ended"),
    state_edge(FunctionPhase::Unbound, FunctionPhase::Binding, "window and peer are there"),
    state_edge(FunctionPhase::Unbound, FunctionPhase::NoSlot, "no window or peer will come"),
    state_edge(FunctionPhase::Unbound, FunctionPhase::Stuck, "card ended"),
    state_edge(FunctionPhase::Binding, FunctionPhase::Free, "bound"),
    state_edge(FunctionPhase::Binding, FunctionPhase::Unbound, "no thread for it, or its window was used"),
    state_edge(FunctionPhase::Binding, FunctionPhase::Retiring, "again, after a restart"),
    state_edge(FunctionPhase::Binding, FunctionPhase::Stuck, "card refused, or ended"),
    state_edge(FunctionPhase::NoSlot, FunctionPhase::Stuck, "card ended"),
    state_edge(FunctionPhase::Stuck, FunctionPhase::Stuck, "card ended"),
};
constexpr StateTable state_table(FunctionPhase) {
  return {"broker's function", kFunctionPhaseNames, kFunctionPhaseEdges};
}

enum class ClientPhase : std::uint8_t {
  Silent,   // has not said what it wants; Timeouts::hello runs
  Waiting,  // for a function that is being retired, or for the card
  Owner,
  Served,  // its command is being carried out
};
inline constexpr std::array<std::string_view, 4> kClientPhaseNames{"silent", "waiting", "owner", "served"};
inline constexpr std::array kClientPhaseEdges{
    state_edge(ClientPhase::Silent, ClientPhase::Waiting, "asks for a function"),
    state_edge(ClientPhase::Silent, ClientPhase::Served, "gives a command"),
    state_edge(ClientPhase::Waiting, ClientPhase::Owner, "gets a function"),
};
constexpr StateTable state_table(ClientPhase) { return {"broker's client", kClientPhaseNames, kClientPhaseEdges}; }

// ---- what others are told -------------------------------------------------------------------------------------------

constexpr CardState told(CardPhase phase) {
  switch (phase) {
    case CardPhase::Booting:
    case CardPhase::Running: return CardState::Running;
    case CardPhase::Dead: return CardState::Dead;
    case CardPhase::Cycling: return CardState::Cycling;
    case CardPhase::Recovering: return CardState::Recovering;
    case CardPhase::Wedged: return CardState::Wedged;
    case CardPhase::StoppingBoot:
    case CardPhase::Stopping:
    case CardPhase::Stopped: break;
  }
  return CardState::Stopping;
}
constexpr bool is_stopping(CardPhase phase) { return told(phase) == CardState::Stopping; }

constexpr FunctionUse told(FunctionPhase phase) {
  switch (phase) {
    case FunctionPhase::Free: return FunctionUse::Free;
    case FunctionPhase::Owned: return FunctionUse::Owned;
    case FunctionPhase::Retiring:
    case FunctionPhase::Unbound:
    case FunctionPhase::Binding: return FunctionUse::Retiring;
    case FunctionPhase::NoSlot: return FunctionUse::NoSlot;
    case FunctionPhase::Stuck: break;
  }
  return FunctionUse::Stuck;
}

}  // namespace svp
