// SPDX-License-Identifier: Apache-2.0
// A script of faults: what breaks where, when and how often. The same script and seed break the same things.
//
//   auto script = fault::Script(7)
//       .add({.point = fault::Point::CardDmaStep, .action = fault::Action::Corrupt,
//             .trigger = {.first = 3, .function = wire::target_of_virtual(1)}, .argument = 17})
//       .add({.point = fault::Point::Kill, .action = fault::Action::Kill,
//             .trigger = {.first = fault::Number::random(50, 200)}});
//
// On disk: script_json.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/faults/fault_points.hpp"
#include "shared/admin.hpp"

namespace svp::fault {

// A number that is known, or one that the script's seed decides.
struct Number {
  std::uint64_t low = 0;
  std::uint64_t high = 0;  // included

  constexpr Number() = default;
  constexpr Number(std::uint64_t value) : low(value), high(value) {}  // NOLINT(google-explicit-constructor)
  static constexpr Number random(std::uint64_t low, std::uint64_t high) {
    Number number;
    number.low = low;
    number.high = high;
    return number;
  }
  constexpr bool fixed() const { return low == high; }
  friend constexpr bool operator==(const Number&, const Number&) = default;
};

// As a script says it: wire::FaultTrigger has the rule; here a condition may be left out and a number left to the seed.
struct Trigger {
  Number first = 1;          // from 1
  std::uint64_t every = 0;   // 0: never again after the first
  std::uint64_t shots = 1;   // the fault's lifetime; 0: no limit
  Number not_before_us = 0;  // microseconds since the script was armed
  std::optional<wire::Target> function{};
  std::optional<std::uint32_t> stream{};
  std::optional<std::uint32_t> opcode{};    // wire::Opcode or wire::AdminCommand, as the point says
  std::optional<std::uint64_t> sequence{};  // from 1
  std::optional<std::uint32_t> core{};
  std::optional<std::uint32_t> progress{};  // number of what the kernel is at, or wire::kSomeProgress
  std::optional<std::uint32_t> waiting{};   // other cores of the launch that wait at the barrier; from 1
  friend bool operator==(const Trigger&, const Trigger&) = default;
};

struct Fault {
  Point point = Point::CardDispatcher;
  Action action = Action::Stall;
  Trigger trigger{};
  Number argument{};                      // what the catalogue says of the action
  std::optional<std::uint64_t> region{};  // region_id as the function knows it
  std::optional<Number> offset{};         // bytes
  std::optional<std::uint32_t> hart{};
  std::optional<std::uint32_t> segment{};  // row of the block's segment table
  friend bool operator==(const Fault&, const Fault&) = default;
};

// The trigger of a drawn fault, as card, driver and emulator carry it out. `not_before`: its not_before_us in the clock
// of who does.
wire::FaultTrigger carried_out(const Trigger& trigger, std::uint64_t not_before);

// Why a fault makes no sense: the member at fault as JSON calls it, and what is wrong.
struct Refusal {
  std::string member;
  std::string what;
};
std::optional<Refusal> refuse(const Fault& fault);

// Card, driver and emulator carry so many each.
inline constexpr std::size_t kMaxFaultsPerHome = wire::kFaultRows;

class Script {
 public:
  explicit Script(std::uint64_t seed = 1) : seed_(seed) {}

  // Throws InvalidArgument: a pair or a condition that makes no sense, a number out of range, too many faults.
  Script& add(const Fault& fault);

  std::uint64_t seed() const { return seed_; }
  const std::vector<Fault>& faults() const { return faults_; }
  // Whether another fault of this home has room.
  bool has_room(Home home) const;
  // The script with every random number drawn. The k-th number depends on the seed and on k only.
  Script drawn() const;
  Script with_seed(std::uint64_t seed) const;

  friend bool operator==(const Script&, const Script&) = default;

 private:
  std::uint64_t seed_;
  std::vector<Fault> faults_;
};

// "M", "PF", "VF3", as scripts and evidence call functions.
std::string function_text(wire::Target target);
std::optional<wire::Target> function_called(std::string_view text);
// Of the point's kind: control blocks or admin commands.
std::optional<std::uint32_t> opcode_called(const PointRule& rule, std::string_view text);
std::string opcode_text(const PointRule& rule, std::uint32_t opcode);

}  // namespace svp::fault
