// SPDX-License-Identifier: Apache-2.0
// The catalogue: ways to break a card (docs/campaign.md). Ids are stable names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shared/fault.hpp"

namespace svp::campaign {

class ScenarioContext;

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
  bool reply_missing = false;  // a reply never comes, and that is what is waited for
};

struct Scenario {
  std::string_view id;  // "F14"
  Section section{};
  std::string_view title;  // a clause
  std::string_view check;  // what finds the fault; tests/mutants leaves it out
  CardShape shape{};
  void (*run)(ScenarioContext& context) = nullptr;
};

std::span<const Scenario> catalogue();
// Null: no such id. "f14" is F14.
const Scenario* find_scenario(std::string_view id);

}  // namespace svp::campaign
