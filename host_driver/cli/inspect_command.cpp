// SPDX-License-Identifier: Apache-2.0
// `spyre inspect`: everything that a card tells about itself.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/timeline.hpp"
#include "host_driver/discovery/attach.hpp"
#include "host_driver/discovery/runtime_folder.hpp"

namespace cli {

namespace {

void print_card(const svp::CardDescription& card, const std::filesystem::path& folder) {
  const auto row = [](const char* name, const std::string& value) { fmt::print("  {:<14} {}\n", name, value); };
  fmt::print("{}\n", card.name);
  row("state", std::string(svp::name(card.state)) + (card.state_reason.empty() ? "" : ": " + card.state_reason));
  row("folder", folder.string());
  row("broker", fmt::format("pid {}", card.broker));
  row("emulator", card.emulator == 0 ? "none" : fmt::format("pid {}", card.emulator));
  row("started", fmt::format("{:%F %T}", fmt::localtime(static_cast<std::time_t>(card.created))));
  row("contract", fmt::format("version {}", card.abi));
  row("cores", std::to_string(card.cores));
  row("array", card.array == 0 ? "none" : fmt::format("version {}", card.array));
  row("memory", format_bytes(static_cast<double>(card.memory_bytes)));
  row("window", format_bytes(static_cast<double>(card.window_bytes)));
  row("slots", fmt::format("{} of {} in use, {} spare", card.slots_used, card.slots_total, card.slots_left));
  row("power cycles", std::to_string(card.power_cycles));
  row("retirements", fmt::format("{}, the last took {}, the longest {}", card.retirements.count,
                                 format_time_us(static_cast<double>(card.retirements.last.count())),
                                 format_time_us(static_cast<double>(card.retirements.max.count()))));
  fmt::print("\n  {:<8}  {:<9}  {:>8}  {:>5}  {:>6}  {:>10}\n", "function", "use", "owner", "slot", "serial",
             "violations");
  for (const auto& function : card.functions) {
    fmt::print("  {:<8}  {:<9}  {:>8}  {:>5}  {:>6}  {:>10}\n", svp::function_name(function.target),
               svp::name(function.use), function.owner == 0 ? "-" : std::to_string(function.owner), function.slot,
               function.serial, function.violations);
  }
}

}  // namespace

int inspect(const InspectOptions& options) {
  const auto folder = svp::value_or_throw(svp::card_path(options.card));
  const auto card = svp::value_or_throw(svp::describe_card(options.card));
  if (!options.json) {
    print_card(card, folder);
    return kOk;
  }
  auto json = nlohmann::ordered_json::parse(svp::to_json(card));
  json["folder"] = folder.string();
  print_json(json);
  return kOk;
}

}  // namespace cli
