// SPDX-License-Identifier: Apache-2.0
// The catalogue: forty ways to break a card (faults.md). Ids are stable names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shared/fault.hpp"

namespace flex::campaign {

class Trial;

enum class Section : std::uint8_t { Driver, Commands, Execution, Card, Tenants, Platform };

constexpr std::string_view name(Section section) {
  constexpr std::string_view kNames[] = {
      "Driver and resources", "Command validation", "Execution", "Card and firmware", "Tenants", "Platform"};
  return kNames[static_cast<std::size_t>(section)];
}

// What a scenario needs of its card. Scenarios of one shape share a card while it is whole.
struct CardShape {
  std::string_view words{};  // more boot words
  bool own_card = false;     // boots (or ends) cards by itself, or leaves one that is of no use to others
  unsigned virtual_functions = 3;
  unsigned spare_slots = 0;
};

enum class Mutant : std::uint8_t {
  None,
  LostCompletion,  // the card loses a completion of the guilty function: "exactly one outcome" does not hold
  NoEscalation,    // a rung that fails is not followed by the next
};

struct Scenario {
  std::string_view id;  // "F14"
  Section section{};
  std::string_view title;  // a clause
  // What finds the fault. In a mutation run it is switched off for real, and the scenario must fail: `card` is given to the
  // firmware as boot word `blind`, `driver` to driver and broker (FaultHooks::blind, BrokerOptions::blind). Where what is
  // tested is a promise that nobody watches over but the scenario itself, the promise is broken instead (`mutant`).
  struct Detector {
    std::string_view what;
    std::uint32_t card = 0;    // wire::Detector
    std::uint32_t driver = 0;  // flex::HostDetector
    Mutant mutant = Mutant::None;
  } detector;
  CardShape shape{};
  void (*run)(Trial& trial) = nullptr;
};

std::span<const Scenario> catalogue();
// Null: no such id. "f14" is F14.
const Scenario* find_scenario(std::string_view id);

}  // namespace flex::campaign
