// SPDX-License-Identifier: Apache-2.0
// `spyre devices`: what a program sees that is started with this environment.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/timeline.hpp"
#include "host_driver/discovery/device_list.hpp"

namespace cli {

namespace {

struct Row {
  svp::EnumeratedDevice device;
  // Empty: a MOCK device, or a card that ended since it was enumerated.
  std::optional<svp::CardDescription> card;
  std::optional<svp::FunctionDescription> function;
};

std::vector<Row> rows_of(const svp::Enumeration& list, const std::vector<svp::CardDescription>& cards) {
  std::vector<Row> rows;
  for (const auto& device : list.devices) {
    Row row{device, std::nullopt, std::nullopt};
    const auto card = std::ranges::find(cards, device.card, &svp::CardDescription::name);
    if (card != cards.end()) {
      row.card = *card;
      const auto function = std::ranges::find(card->functions, device.function, &svp::FunctionDescription::target);
      if (function != card->functions.end()) row.function = *function;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string_view state_of(const Row& row, svp::DeviceMode mode) {
  if (row.card) return svp::name(row.card->state);
  return mode == svp::DeviceMode::Mock ? "embedded" : "gone";
}

nlohmann::ordered_json make_json(const std::vector<Row>& rows, svp::DeviceMode mode) {
  auto devices = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    nlohmann::ordered_json device = {{"index", i},
                                     {"card", row.device.card},
                                     {"function", svp::function_name(row.device.function)},
                                     {"state", state_of(row, mode)}};
    if (row.card) {
      device["cores"] = row.card->cores;
      device["memory_bytes"] = row.card->memory_bytes;
      device["spare_slots"] = row.card->slots_left;
      device["state_reason"] = row.card->state_reason;
    }
    if (row.function) {
      device["use"] = svp::name(row.function->use);
      device["owner"] =
          row.function->owner == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(row.function->owner);
    }
    devices.push_back(std::move(device));
  }
  return {{"count", rows.size()}, {"devices", std::move(devices)}};
}

// One line per card that does not run, with what it says about it.
void print_troubles(const std::vector<Row>& rows) {
  std::string_view last;
  for (const Row& row : rows) {
    if (!row.card || row.card->state_reason.empty() || row.card->name == last) continue;
    last = row.card->name;
    fmt::print("{} is {}: {}\n", row.card->name, svp::name(row.card->state), row.card->state_reason);
  }
}

void print_table(const std::vector<Row>& rows, const svp::Enumeration& list) {
  const std::string_view mode = svp::name(list.mode);
  if (rows.empty() && list.found == 0) {
    fmt::print("no device (FLEX_DEVICE={}); start a card with: spyre boot --name card0\n", mode);
    return;
  }
  if (rows.empty()) {
    fmt::print("no device (FLEX_DEVICE={}): SPYRE_DEVICES and AIU_WORLD_SIZE hide all {}\n", mode, list.found);
    return;
  }
  fmt::print("{:>5}  {:<32}  {:<8}  {:<9}  {:>5}  {:>9}  {}\n", "index", "card", "function", "state", "cores", "memory",
             "owner");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    std::string owner = "-";
    if (row.function && row.function->use == svp::FunctionUse::Owned) {
      owner = fmt::format("pid {}", row.function->owner);
    } else if (row.function && row.function->use != svp::FunctionUse::Free) {
      owner = svp::name(row.function->use);
    }
    fmt::print("{:>5}  {:<32}  {:<8}  {:<9}  {:>5}  {:>9}  {}\n", i, row.device.card,
               svp::function_name(row.device.function), state_of(row, list.mode),
               row.card ? std::to_string(row.card->cores) : "-",
               row.card ? format_bytes(static_cast<double>(row.card->memory_bytes)) : "-", owner);
  }
  print_troubles(rows);
}

}  // namespace

int devices(const DevicesOptions& options) {
  const auto list = svp::value_or_throw(svp::enumerate_afresh());
  std::vector<svp::CardDescription> cards;
  if (list.mode != svp::DeviceMode::Mock) cards = svp::value_or_throw(svp::running_cards());
  const auto rows = rows_of(list, cards);
  if (options.json) {
    print_json(make_json(rows, list.mode));
  } else {
    print_table(rows, list);
  }
  return 0;
}

}  // namespace cli
