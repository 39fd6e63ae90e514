// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/card_description.hpp"

#include <array>
#include <limits>
#include <utility>

#include "host_driver/base/strict_json.hpp"
#include "host_driver/discovery/runtime_folder.hpp"
#include "shared/boot_arguments.hpp"

namespace svp {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxFileBytes = 64 * 1024;
constexpr std::size_t kMaxReason = 256;
constexpr std::size_t kMaxText = 1024;  // what replaces a byte that is no text is longer than that
constexpr std::uint64_t kMaxPid = std::numeric_limits<pid_t>::max();
constexpr std::uint64_t kAnySigned = std::numeric_limits<std::int64_t>::max();

constexpr std::array kStates{CardState::Running,  CardState::Dead,       CardState::Cycling,
                             CardState::Stopping, CardState::Recovering, CardState::Wedged};
constexpr std::array kUses{FunctionUse::Free, FunctionUse::Owned, FunctionUse::Retiring, FunctionUse::NoSlot,
                           FunctionUse::Stuck};

template <typename T, std::size_t N>
T choice(StrictObject& object, const char* key, const std::array<T, N>& known) {
  const std::string word = object.text(key, kMaxText);
  for (const T value : known) {
    if (word == name(value)) return value;
  }
  object.refuse(key, "has an unknown value");
}

Json json_of(const FunctionDescription& function) {
  return {{"target", function.target}, {"use", name(function.use)}, {"owner", function.owner},
          {"slot", function.slot},     {"serial", function.serial}, {"violations", function.violations}};
}

FunctionDescription read_function(const Json& json, const std::string& path, wire::Target expected) {
  StrictObject object(json, path);
  FunctionDescription function;
  function.target = static_cast<wire::Target>(object.number("target", kMaxPid));
  if (function.target != expected) object.refuse("target", "is not " + std::to_string(expected));
  function.use = choice(object, "use", kUses);
  function.owner = static_cast<pid_t>(object.number("owner", kMaxPid));
  if ((function.use == FunctionUse::Owned) != (function.owner != 0)) object.refuse("owner", "contradicts \"use\"");
  function.slot = static_cast<unsigned>(object.number("slot", kMostSlots - 1));
  function.serial = static_cast<std::uint32_t>(object.number("serial", std::numeric_limits<std::uint32_t>::max()));
  function.violations = object.number("violations", kAnyNumber);
  object.finish();
  return function;
}

RetirementTimes read_retirements(const Json& json, const std::string& path) {
  StrictObject object(json, path);
  RetirementTimes times;
  times.count = object.number("count", kAnyNumber);
  times.last = std::chrono::microseconds(object.number("last_us", kAnySigned));
  times.max = std::chrono::microseconds(object.number("max_us", kAnySigned));
  object.finish();
  return times;
}

void read_slots(const Json& json, const std::string& path, CardDescription& card) {
  StrictObject object(json, path);
  card.slots_total = static_cast<unsigned>(object.number("total", kMostSlots));
  card.slots_used = static_cast<unsigned>(object.number("used", card.slots_total));
  card.slots_left = static_cast<unsigned>(object.number("left", card.slots_total));
  object.finish();
}

CardDescription read_card(const Json& json) {
  StrictObject object(json, "card");
  CardDescription card;
  card.name = object.text("name", kMaxCardName);
  if (!check_card_name(card.name)) object.refuse("name", "is not a card's name");
  card.broker = static_cast<pid_t>(object.number("broker", kMaxPid));
  card.emulator = static_cast<pid_t>(object.number("emulator", kMaxPid));
  card.abi = static_cast<std::uint32_t>(object.number("abi", std::numeric_limits<std::uint32_t>::max()));
  card.state = choice(object, "state", kStates);
  card.state_reason = object.text("state_reason", kMaxText);
  card.cores = static_cast<unsigned>(object.number("cores", kMostCores));
  card.array = static_cast<std::uint32_t>(object.number("array", std::numeric_limits<std::uint32_t>::max()));
  card.memory_bytes = object.number("memory_bytes", kAnyNumber);
  card.window_bytes = object.number("window_bytes", kAnyNumber);
  read_slots(object.member("slots"), object.path_of("slots"), card);
  card.created = static_cast<std::int64_t>(object.number("created", kAnySigned));
  card.power_cycles = object.number("power_cycles", kAnyNumber);
  card.retirements = read_retirements(object.member("retirements"), object.path_of("retirements"));
  const Json& functions = object.list("functions", 1 + wire::boot::kMaxVirtualFunctions);
  if (functions.empty()) object.refuse("functions", "is empty");
  wire::Target target = wire::kTargetPhysical;
  for (const Json& function : functions) {
    const std::string path = object.path_of("functions") + "[" + std::to_string(target - wire::kTargetPhysical) + "]";
    card.functions.push_back(read_function(function, path, target++));
  }
  object.finish();
  return card;
}

}  // namespace

std::string_view name(CardState state) {
  switch (state) {
    case CardState::Running: return "running";
    case CardState::Dead: return "dead";
    case CardState::Cycling: return "power-cycling";
    case CardState::Stopping: return "stopping";
    case CardState::Recovering: return "recovering";
    case CardState::Wedged: return "wedged";
  }
  return "unknown state";
}

std::string_view name(FunctionUse use) {
  switch (use) {
    case FunctionUse::Free: return "free";
    case FunctionUse::Owned: return "owned";
    case FunctionUse::Retiring: return "retiring";
    case FunctionUse::NoSlot: return "no-slot";
    case FunctionUse::Stuck: return "stuck";
  }
  return "unknown use";
}

std::string to_json(const CardDescription& card, int indent) {
  Json functions = Json::array();
  for (const auto& function : card.functions) functions.push_back(json_of(function));
  const Json json{{"name", card.name},
                  {"broker", card.broker},
                  {"emulator", card.emulator},
                  {"abi", card.abi},
                  {"state", name(card.state)},
                  {"state_reason", card.state_reason.substr(0, kMaxReason)},
                  {"cores", card.cores},
                  {"array", card.array},
                  {"memory_bytes", card.memory_bytes},
                  {"window_bytes", card.window_bytes},
                  {"slots", {{"total", card.slots_total}, {"used", card.slots_used}, {"left", card.slots_left}}},
                  {"created", card.created},
                  {"power_cycles", card.power_cycles},
                  {"retirements",
                   {{"count", card.retirements.count},
                    {"last_us", card.retirements.last.count()},
                    {"max_us", card.retirements.max.count()}}},
                  {"functions", std::move(functions)}};
  return dump(json, indent);
}

Expected<CardDescription> parse_card_description(std::string_view text) {
  try {
    return read_card(parse_strict(text, kMaxFileBytes, "card"));
  } catch (const BadMember& bad) {
    return std::unexpected(
        ErrorInfo{.layer = Layer::Driver,
                  .source = bad.path,
                  .outcome = wire::Outcome::Rejected,
                  .recoverable = true,
                  .next_step = "use the same version of the program for card and tenant",
                  .message = "the description of a card is not usable: " + bad.path + " " + bad.what});
  }
}

}  // namespace svp
