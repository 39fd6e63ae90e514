// SPDX-License-Identifier: Apache-2.0
// `spyre smi`: the running cards at a look; `spyre stats`: everything that a card has counted.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/signals.hpp"
#include "host_driver/cli/timeline.hpp"
#include "host_driver/cli/timeouts.hpp"
#include "host_driver/discovery/attach.hpp"
#include "host_driver/discovery/device_list.hpp"

namespace cli {

namespace {

using svp::FunctionStatistics;

// A function of a card, with what the card has counted twice. Nothing counted: the card does not run, or is not ours.
struct SmiRow {
  const svp::CardDescription* card;
  svp::FunctionDescription function;
  std::optional<FunctionStatistics> before{};
  std::optional<FunctionStatistics> now{};
  std::string no_answer{};  // why there is nothing in `now`

  double utilisation() const { return before && now ? svp::core_utilisation(*before, *now) : 0; }
};

std::optional<FunctionStatistics> counted(SmiRow& row) {
  row.no_answer.clear();
  if (row.card->state != svp::CardState::Running) {
    row.no_answer = fmt::format("the card is {}", svp::name(row.card->state));
    if (!row.card->state_reason.empty()) row.no_answer += ": " + row.card->state_reason;
    return std::nullopt;
  }
  auto statistics = svp::function_statistics(row.card->name, row.function.target);
  if (statistics) return *statistics;
  row.no_answer = statistics.error().message;
  return std::nullopt;
}

// True: a signal came. False: it did not, for so long.
bool signalled_within(std::chrono::milliseconds limit, const SignalDescriptor& signals) {
  pollfd event{signals.descriptor(), POLLIN, 0};
  return ::poll(&event, 1, static_cast<int>(limit.count())) != 0;
}

std::chrono::milliseconds loop_interval(const SmiOptions& options) {
  return std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(options.loop_seconds));
}

std::vector<SmiRow> rows_of_cards(const std::vector<svp::CardDescription>& cards) {
  std::vector<SmiRow> rows;
  for (const auto& card : cards) {
    for (const auto& function : card.functions) rows.push_back({&card, function});
  }
  return rows;
}

nlohmann::ordered_json smi_json(const std::vector<svp::CardDescription>& cards, const std::vector<SmiRow>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& card : cards) {
    nlohmann::ordered_json one = {{"card", card.name},
                                  {"state", svp::name(card.state)},
                                  {"cores", card.cores},
                                  {"array", card.array},
                                  {"memory_bytes", card.memory_bytes},
                                  {"power_cycles", card.power_cycles},
                                  {"functions", nlohmann::ordered_json::array()}};
    for (const SmiRow& row : rows) {
      if (row.card != &card) continue;
      nlohmann::ordered_json function = {
          {"function", svp::function_name(row.function.target)},
          {"use", svp::name(row.function.use)},
          {"owner", row.function.owner == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(row.function.owner)}};
      if (row.now) {
        function["utilisation"] = row.utilisation();
        for (const auto& member : svp::kStatisticsMembers) function[member.name] = *row.now.*member.value;
      } else {
        function["no_answer"] = row.no_answer;
      }
      one["functions"].push_back(std::move(function));
    }
    list.push_back(std::move(one));
  }
  return {{"cards", std::move(list)}};
}

std::string memory_text(const SmiRow& row) {
  if (!row.now) return "-";
  std::string held = format_bytes(static_cast<double>(row.now->granted_bytes));
  if (row.now->quota_bytes == 0) return held;
  return held + " of " + format_bytes(static_cast<double>(row.now->quota_bytes));
}

// Below the table: why a row has no figures, once for functions of one card that share the reason.
void print_smi_reasons(const std::vector<SmiRow>& rows) {
  std::map<std::pair<std::string, std::string>, std::string> functions;
  for (const SmiRow& row : rows) {
    if (row.now) continue;
    std::string& its = functions[{row.card->name, row.no_answer}];
    its += (its.empty() ? "" : ", ") + svp::function_name(row.function.target);
  }
  for (const auto& [of, its] : functions) fmt::print("- {} {}: no figures: {}\n", of.first, its, of.second);
}

void print_smi_table(const std::vector<SmiRow>& rows) {
  if (rows.empty()) {
    fmt::print("no card; start one with: spyre boot --name card0 --detach\n");
    return;
  }
  fmt::print("{:<16}  {:<10}  {:>5}  {:<8}  {:<9}  {:>8}  {:>24}  {:>5}  {:>10}  {:>10}\n", "card", "state", "array",
             "function", "use", "owner", "memory", "cores", "launches", "violations");
  for (const SmiRow& row : rows) {
    fmt::print("{:<16}  {:<10}  {:>5}  {:<8}  {:<9}  {:>8}  {:>24}  {:>4.0f}%  {:>10}  {:>10}\n", row.card->name,
               svp::name(row.card->state), row.card->array == 0 ? "-" : fmt::format("v{}", row.card->array),
               svp::function_name(row.function.target), svp::name(row.function.use),
               row.function.owner == 0 ? "-" : std::to_string(row.function.owner), memory_text(row),
               100 * row.utilisation(), row.now ? std::to_string(row.now->launches) : "-",
               row.now ? std::to_string(row.now->violations) : "-");
  }
  print_smi_reasons(rows);
}

// A field of RFC 4180: in quotes, whatever the message has in it.
std::string csv_text(const std::string& text) {
  if (text.empty()) return text;
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? "\"\"" : c == '\n' ? " " : std::string(1, c);
  return field + "\"";
}

void print_smi_csv(const std::vector<SmiRow>& rows, bool head) {
  if (head) {
    fmt::print("card,state,function,use,owner,utilisation");
    for (const auto& member : svp::kStatisticsMembers) fmt::print(",{}", member.name);
    fmt::print(",no_answer\n");
  }
  for (const SmiRow& row : rows) {
    fmt::print("{},{},{},{},{},{:.4f}", row.card->name, svp::name(row.card->state),
               svp::function_name(row.function.target), svp::name(row.function.use), row.function.owner,
               row.utilisation());
    for (const auto& member : svp::kStatisticsMembers) {
      fmt::print(",{}", row.now ? std::to_string(*row.now.*member.value) : "");
    }
    fmt::print(",{}\n", csv_text(row.no_answer));
  }
}

void print_smi(const SmiOptions& options, const std::vector<svp::CardDescription>& cards,
               const std::vector<SmiRow>& rows, bool first) {
  if (options.json) {
    print_json(smi_json(cards, rows));
  } else if (options.csv) {
    print_smi_csv(rows, first);
  } else {
    print_smi_table(rows);
  }
  flush_output();
}

}  // namespace

int smi(const SmiOptions& options) {
  const SignalDescriptor signals({SIGINT, SIGTERM});
  using Key = std::pair<std::string, wire::Target>;
  std::map<Key, FunctionStatistics> last;
  for (bool first = true;; first = false) {
    const auto cards = svp::value_or_throw(svp::running_cards());
    auto rows = rows_of_cards(cards);
    if (first && !rows.empty()) {
      for (SmiRow& row : rows) row.before = counted(row);
      if (signalled_within(kUtilisationSample, signals)) return kOk;
    }
    for (SmiRow& row : rows) {
      const Key key{row.card->name, row.function.target};
      if (const auto known = last.find(key); known != last.end()) row.before = known->second;
      row.now = counted(row);
      if (row.now) last[key] = *row.now;
    }
    print_smi(options, cards, rows, first);
    if (options.loop_seconds == 0) return kOk;
    if (signalled_within(loop_interval(options), signals)) return kOk;
  }
}

int stats(const StatsOptions& options) {
  const auto card = svp::value_or_throw(svp::describe_card(options.card));
  auto functions = nlohmann::ordered_json::array();
  for (const auto& function : card.functions) {
    const std::string name = svp::function_name(function.target);
    if (!options.function.empty() && options.function != name) continue;
    const auto statistics = svp::value_or_throw(svp::function_statistics(options.card, function.target));
    nlohmann::ordered_json one = {{"function", name}};
    for (const auto& member : svp::kStatisticsMembers) one[member.name] = statistics.*member.value;
    functions.push_back(std::move(one));
  }
  if (functions.empty()) {
    throw svp::InvalidArgument("function", card.name + " has no function " + options.function,
                               "spyre inspect " + card.name);
  }
  if (options.json) {
    print_json({{"card", card.name}, {"functions", std::move(functions)}});
    return kOk;
  }
  for (const auto& one : functions) {
    fmt::print("{} {}\n", card.name, one["function"].get<std::string>());
    for (const auto& member : svp::kStatisticsMembers) {
      fmt::print("  {:<20} {:>16}\n", member.name, one[member.name].get<std::uint64_t>());
    }
  }
  return kOk;
}

}  // namespace cli
