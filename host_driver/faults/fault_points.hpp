// SPDX-License-Identifier: Apache-2.0
// The catalogue of fault points (base/fault_point.hpp): in which layer, what an occurrence is, which actions make sense
// there, what their argument means and which conditions a trigger may have. The card's points are those of
// shared/fault.hpp and nothing is said twice: which pairs make sense is asked there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/base/fault_point.hpp"
#include "shared/fault.hpp"

namespace svp::fault {

// Conditions of a trigger, and places, that a point knows besides first, every, shots and not_before.
enum Condition : std::uint32_t {
  kByFunction = 1u << 0,
  kByStream = 1u << 1,
  kByOpcode = 1u << 2,   // name of a control block's opcode
  kByCommand = 1u << 3,  // "opcode" is the name of an admin command
  kBySequence = 1u << 4,
  kAtRegion = 1u << 5,
  kAtOffset = 1u << 6,
  kAtHart = 1u << 7,
  kByCore = 1u << 8,
  kByProgress = 1u << 9,
  kAtSegment = 1u << 10,  // of one action: ActionRule::segment
  kByWaiting = 1u << 11,
};

struct ActionRule {
  Action action;
  std::string_view argument;  // what it means, with its unit; empty: takes none
  std::uint64_t min = 0;
  std::uint64_t max = 0;
  bool segment = false;  // it needs one
};

struct PointRule {
  Layer layer;
  Point point;
  std::string_view name;
  std::string_view occurrence;
  std::uint32_t conditions;  // Condition
  std::uint32_t needed;      // of these, what must be said
  std::vector<ActionRule> actions;
};

// Every point, in the order of their layers; the same object every time.
const std::vector<PointRule>& catalogue();

const PointRule& rule_of(Point point);
const PointRule* find_point(Layer layer, std::string_view name);
const ActionRule* find_action(const PointRule& rule, Action action);
std::string_view name(Action action);
std::optional<Action> action_called(std::string_view name);
std::optional<Layer> layer_called(std::string_view name);

enum class Home : std::uint8_t { Card, Host, Emulator };  // who carries it out
Home home_of(Point point);
// Of those at home on the card.
wire::FaultPoint card_point(Point point);
wire::FaultAction card_action(Action action);

}  // namespace svp::fault
