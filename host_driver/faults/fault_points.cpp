// SPDX-License-Identifier: Apache-2.0
#include "host_driver/faults/fault_points.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "shared/message.hpp"
#include "shared/units.hpp"

namespace svp::fault {

namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max() / 2;
constexpr std::uint64_t kMinuteMicroseconds = 60'000'000;
constexpr std::uint64_t kMinuteMilliseconds = 60'000;
constexpr std::uint64_t kLastErrno = 4095;

struct CardRow {
  Layer layer;
  wire::FaultPoint point;
  std::string_view occurrence;
  std::uint32_t conditions;
  std::uint32_t needed;
};

constexpr std::uint32_t kOfBlock = kByFunction | kByStream | kByOpcode | kBySequence;
constexpr std::uint32_t kOfPart = kByFunction | kByStream | kBySequence | kByCore;

// What shared/fault.hpp says of each, and which of FaultSpec's conditions the point can know.
constexpr std::array<CardRow, 14> kCardRows{{
    {Layer::Firmware, wire::FaultPoint::Dispatcher, "an iteration of hart 0's loop", 0, 0},
    {Layer::Firmware, wire::FaultPoint::DmaStep, "a step of a transfer", kOfBlock, 0},
    {Layer::Firmware, wire::FaultPoint::RegionEntry, "a granted region is looked up", kByFunction | kAtRegion, 0},
    {Layer::Firmware, wire::FaultPoint::Heartbeat, "a beat is due", kByFunction, 0},
    {Layer::Firmware, wire::FaultPoint::Firmware, "an iteration of hart 0's loop", 0, 0},
    {Layer::Firmware, wire::FaultPoint::Completion, "a completion is published", kOfBlock, 0},
    {Layer::Firmware, wire::FaultPoint::AdminReply, "the reply of an executed command is published",
     kByFunction | kByCommand, 0},
    {Layer::Firmware, wire::FaultPoint::Doorbell, "a doorbell to the host", kByFunction, 0},
    {Layer::Firmware, wire::FaultPoint::FunctionReset, "a function's reset has stopped everything", kByFunction, 0},
    {Layer::Firmware, wire::FaultPoint::FirmwareHart, "a slice on a core, in firmware code", kOfPart, 0},
    {Layer::Core, wire::FaultPoint::Kernel, "a slice of a kernel", kOfPart | kByProgress | kByWaiting | kAtSegment, 0},
    {Layer::Core, wire::FaultPoint::KernelResult, "a part of a launch has ended by itself", kOfPart, 0},
    {Layer::Core, wire::FaultPoint::Array, "the compute array is about to execute a request", kOfPart | kByProgress, 0},
    {Layer::Memory, wire::FaultPoint::Memory, "a transfer or a slice touches the place",
     kByFunction | kAtRegion | kAtOffset, kByFunction | kAtRegion | kAtOffset},
}};

ActionRule card_action_rule(wire::FaultAction action) {
  const auto same = static_cast<Action>(action);
  switch (action) {
    case wire::FaultAction::Stall:
      return {same, "device ticks (100 ns); 0: until it is reset", 0, 60 * wire::kTicksPerSecond};
    case wire::FaultAction::Corrupt: return {same, "byte that is inverted, modulo what there is", 0, kNoLimit};
    case wire::FaultAction::Slow: return {same, "times as long", 2, 1'000'000};
    case wire::FaultAction::FlipScratchpad: return {same, "bit that is inverted", 0, kNoLimit};
    case wire::FaultAction::FlipSegment:
      return {same, "bit that is inverted, modulo those of the segment", 0, kNoLimit, true};
    case wire::FaultAction::FlipResult: return {same, "bit that is inverted, modulo what was made", 0, kNoLimit};
    default: return {same, {}, 0, 0};
  }
}

std::vector<ActionRule> card_actions(wire::FaultPoint point) {
  std::vector<ActionRule> actions;
  for (std::uint16_t number = 1; number <= static_cast<std::uint16_t>(wire::FaultAction::Refuse); ++number) {
    const auto action = static_cast<wire::FaultAction>(number);
    if (wire::makes_sense(point, action)) actions.push_back(card_action_rule(action));
  }
  return actions;
}

std::vector<PointRule> host_rules() {
  constexpr std::string_view kMicroseconds = "microseconds";
  const ActionRule suppress{Action::Suppress, {}, 0, 0};
  const ActionRule duplicate{Action::Duplicate, {}, 0, 0};
  const ActionRule delay{Action::Delay, kMicroseconds, 1, kMinuteMicroseconds};
  return {
      {Layer::Driver,
       Point::Allocation,
       "allocation",
       "an allocation in a call of the driver",
       kByFunction,
       0,
       {{Action::Fail, {}, 0, 0}}},
      {Layer::Driver,
       Point::SystemCall,
       "system-call",
       "a system call of the driver that may fail",
       kByFunction,
       0,
       {{Action::Fail, "errno", 1, kLastErrno}}},
      {Layer::Driver,
       Point::BringUpStep,
       "bring-up-step",
       "a step of a function's bring-up",
       kByFunction,
       0,
       {{Action::Fail, {}, 0, 0}}},
      {Layer::Driver,
       Point::AdminReply,
       "admin-reply",
       "the reply of an admin command is taken",
       kByFunction | kByCommand,
       0,
       {suppress}},
      {Layer::Transport,
       Point::DoorbellToCard,
       "bell-to-card",
       "the card is signalled",
       kByFunction,
       0,
       {suppress, duplicate, delay}},
      {Layer::Transport,
       Point::DoorbellToHost,
       "bell-to-host",
       "a doorbell of the card has arrived",
       kByFunction,
       0,
       {suppress, duplicate, delay}},
      {Layer::Transport,
       Point::Completion,
       "completion",
       "a completion is taken from the ring",
       kByFunction | kByStream | kBySequence,
       0,
       {suppress, duplicate, {Action::Corrupt, "byte that is inverted", 0, wire::kStickBytes - 1}}},
      {Layer::Transport,
       Point::Window,
       "window",
       "completions are about to be taken from the ring",
       kByFunction | kAtOffset,
       kAtOffset,
       {{Action::Corrupt, "bits of the byte at offset that are inverted", 1, 255}}},
      {Layer::Transport,
       Point::ControlFifo,
       "control-fifo",
       "a control message of the card is taken",
       kByFunction,
       0,
       {suppress,
        {Action::Corrupt, "byte that is inverted", 0, wire::kMessageBytes - 1},
        {Action::Stall, "microseconds; 0: until it is disarmed", 0, kMinuteMicroseconds}}},
  };
}

std::vector<PointRule> emulator_rules() {
  constexpr std::string_view kTime = "a millisecond since the script was armed";
  constexpr std::string_view kPause = "milliseconds; 0: until it is disarmed";
  return {
      {Layer::Emulator, Point::Stop, "stop", kTime, 0, 0, {{Action::Stall, kPause, 0, kMinuteMilliseconds}}},
      {Layer::Emulator,
       Point::FreezeHart,
       "freeze-hart",
       kTime,
       kAtHart,
       kAtHart,
       {{Action::Stall, kPause, 0, kMinuteMilliseconds}}},
      {Layer::Emulator, Point::SystemReset, "system-reset", kTime, 0, 0, {{Action::Reset, {}, 0, 0}}},
      {Layer::Emulator, Point::Kill, "kill", kTime, 0, 0, {{Action::Kill, {}, 0, 0}}},
      {Layer::Emulator, Point::SocketCut, "socket-cut", kTime, 0, 0, {{Action::Cut, {}, 0, 0}}},
  };
}

std::vector<PointRule> make_catalogue() {
  std::vector<PointRule> rules = host_rules();
  for (const CardRow& row : kCardRows) {
    rules.push_back({row.layer, static_cast<Point>(row.point), wire::name(row.point), row.occurrence, row.conditions,
                     row.needed, card_actions(row.point)});
  }
  for (PointRule& rule : emulator_rules()) rules.push_back(std::move(rule));
  return rules;
}

}  // namespace

const std::vector<PointRule>& catalogue() {
  static const std::vector<PointRule> rules = make_catalogue();
  return rules;
}

const PointRule& rule_of(Point point) {
  const auto found = std::ranges::find(catalogue(), point, &PointRule::point);
  if (found == catalogue().end()) {
    throw InvalidArgument("point", "there is no fault point " + std::to_string(static_cast<unsigned>(point)),
                          "take one of enum Point");
  }
  return *found;
}

const PointRule* find_point(Layer layer, std::string_view name) {
  const auto found =
      std::ranges::find_if(catalogue(), [&](const PointRule& r) { return r.layer == layer && r.name == name; });
  return found == catalogue().end() ? nullptr : &*found;
}

const ActionRule* find_action(const PointRule& rule, Action action) {
  const auto found = std::ranges::find(rule.actions, action, &ActionRule::action);
  return found == rule.actions.end() ? nullptr : &*found;
}

std::string_view name(Action action) {
  switch (action) {
    case Action::Fail: return "fail";
    case Action::Delay: return "delay";
    case Action::Reset: return "reset";
    case Action::Kill: return "kill";
    case Action::Cut: return "cut";
    default: return wire::name(static_cast<wire::FaultAction>(action));
  }
}

std::optional<Action> action_called(std::string_view wanted) {
  for (const PointRule& rule : catalogue()) {
    for (const ActionRule& known : rule.actions) {
      if (name(known.action) == wanted) return known.action;
    }
  }
  return std::nullopt;
}

std::optional<Layer> layer_called(std::string_view wanted) {
  for (const Layer layer :
       {Layer::Driver, Layer::Transport, Layer::Firmware, Layer::Core, Layer::Memory, Layer::Emulator}) {
    if (svp::name(layer) == wanted) return layer;
  }
  return std::nullopt;
}

Home home_of(Point point) {
  const auto number = static_cast<std::uint16_t>(point);
  if (number >= static_cast<std::uint16_t>(Point::Stop)) return Home::Emulator;
  return number >= static_cast<std::uint16_t>(Point::Allocation) ? Home::Host : Home::Card;
}

wire::FaultPoint card_point(Point point) { return static_cast<wire::FaultPoint>(point); }

wire::FaultAction card_action(Action action) { return static_cast<wire::FaultAction>(action); }

}  // namespace svp::fault
