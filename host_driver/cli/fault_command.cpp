// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <atomic>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "host_driver/cli/commands.hpp"
#include "host_driver/fault/script_json.hpp"
#include "host_driver/fault/session.hpp"
#include "host_driver/fault/standard_workload.hpp"

namespace cli {

namespace {

using Json = nlohmann::ordered_json;
using flex::fault::Evidence;
using flex::fault::WorkloadReport;

constexpr int kOk = 0;
constexpr int kUntyped = 1;
constexpr int kRefused = 2;
constexpr int kInvalid = 4;

// ---- list ---------------------------------------------------------------------------------------------------------------

struct ConditionName {
  std::uint32_t condition;
  const char* name;
};
constexpr ConditionName kConditions[] = {
    {flex::fault::kByFunction, "function"}, {flex::fault::kByStream, "stream"},
    {flex::fault::kByOpcode, "opcode"},     {flex::fault::kByCommand, "opcode (of an admin command)"},
    {flex::fault::kBySequence, "sequence"}, {flex::fault::kAtRegion, "region"},
    {flex::fault::kAtOffset, "offset"},     {flex::fault::kAtHart, "hart"}};

std::vector<std::string> condition_names(std::uint32_t conditions) {
  std::vector<std::string> names;
  for (const auto& [condition, name] : kConditions) {
    if ((conditions & condition) != 0) names.emplace_back(name);
  }
  return names;
}

Json catalogue_json() {
  Json points = Json::array();
  for (const auto& rule : flex::fault::catalogue()) {
    Json actions = Json::array();
    for (const auto& action : rule.actions) {
      Json entry = {{"action", flex::fault::name(action.action)}};
      if (!action.argument.empty()) {
        entry["argument"] = action.argument;
        entry["min"] = action.min;
        entry["max"] = action.max;
      }
      actions.push_back(std::move(entry));
    }
    points.push_back({{"layer", flex::name(rule.layer)},
                      {"point", rule.name},
                      {"occurrence", rule.occurrence},
                      {"actions", std::move(actions)},
                      {"conditions", condition_names(rule.conditions)},
                      {"needed", condition_names(rule.needed)}});
  }
  return {{"points", std::move(points)}};
}

void print_catalogue() {
  flex::Layer layer{};
  bool first = true;
  for (const auto& rule : flex::fault::catalogue()) {
    if (first || rule.layer != layer) fmt::print("{}{}\n", first ? "" : "\n", flex::name(rule.layer));
    first = false;
    layer = rule.layer;
    fmt::print("  {:<15} {}\n", rule.name, rule.occurrence);
    for (const auto& action : rule.actions) {
      fmt::print("    {:<15}{}{}\n", flex::fault::name(action.action),
                 action.argument.empty() ? "" : "argument: ", action.argument);
    }
    const auto names = condition_names(rule.conditions);
    if (!names.empty()) fmt::print("    only for       {}\n", fmt::join(names, ", "));
  }
  fmt::print("\nEvery trigger knows first, every, shots and not_before_us. Scripts: docs/faults.md.\n");
}

// ---- run ----------------------------------------------------------------------------------------------------------------

struct Finding {
  std::vector<Evidence> evidence;
  WorkloadReport victim;
  WorkloadReport neighbour;
  std::string disarm_error;
  std::uint64_t seed = 0;

  int exit_code() const {
    if (!victim.contained() || !neighbour.contained()) return kUntyped;
    return flex::fault::all_fired(evidence) ? kOk : kInvalid;
  }
  const char* verdict() const {
    switch (exit_code()) {
      case kOk: return "OK";
      case kInvalid: return "INVALID";
      default: return "FAILED";
    }
  }
};

template <typename T>
T value_or_throw(flex::Expected<T> result) {
  if (!result) throw flex::Error(std::move(result.error()));
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// The neighbour works as long as the victim does.
void run_both(const std::shared_ptr<flex::Card>& card, flex::fault::Session& session, const FaultRunOptions& options,
              Finding& finding) {
  std::atomic<bool> victim_ended{false};
  const std::chrono::seconds limit(options.seconds);
  std::thread neighbour([&] {
    flex::fault::WorkloadOptions beside;
    beside.function = 2;
    beside.seed = finding.seed + 1;
    beside.limit = 2 * limit;
    beside.enough = [&] { return victim_ended.load(); };
    finding.neighbour = flex::fault::run_workload(card, beside);
  });
  flex::fault::WorkloadOptions work;
  work.function = 1;
  work.seed = finding.seed;
  work.hooks = session.hooks();
  work.limit = limit;
  work.ready = [&] { value_or_throw(session.arm_memory()); };
  work.enough = [&] { return flex::fault::all_fired(session.evidence()); };
  finding.victim = flex::fault::run_workload(card, work);
  victim_ended.store(true);
  neighbour.join();  // bounded: its workload ends with victim_ended, at the latest with its limit
}

Json workload_json(const WorkloadReport& report) {
  return {{"function", report.function},
          {"rounds", report.rounds},
          {"outcomes", report.outcomes},
          {"errors", report.errors},
          {"untyped", report.untyped},
          {"results_right", report.results_right},
          {"results_wrong", report.results_wrong},
          {"stream_resets", report.stream_resets},
          {"attachments", report.attachments},
          {"healed", report.healed}};
}

Json finding_json(const Finding& finding) {
  Json evidence = Json::array();
  for (const Evidence& e : finding.evidence) evidence.push_back(flex::fault::to_json(e));
  Json json = {{"verdict", finding.verdict()},
               {"seed", finding.seed},
               {"evidence", std::move(evidence)},
               {"workloads", {workload_json(finding.victim), workload_json(finding.neighbour)}}};
  if (!finding.disarm_error.empty()) json["disarm"] = finding.disarm_error;
  return json;
}

void print_workload(const WorkloadReport& report) {
  fmt::print("\n{}: {} rounds, {} results right, {} wrong, {} stream resets, attached {} times{}\n", report.function,
             report.rounds, report.results_right, report.results_wrong, report.stream_resets, report.attachments,
             report.healed ? ", whole at the end" : "");
  for (const auto& [outcome, count] : report.outcomes) fmt::print("  {:>8} {}\n", count, outcome);
  for (const auto& [error, count] : report.errors) fmt::print("  {:>8} x {}\n", count, error);
  for (const std::string& untyped : report.untyped) fmt::print("  UNTYPED  {}\n", untyped);
}

void print_finding(const Finding& finding) {
  fmt::print("seed {}\n\nevidence\n", finding.seed);
  for (const Evidence& e : finding.evidence)
    fmt::print("  {} {}\n", e.fired != 0 ? "fired  " : "INVALID", flex::fault::describe(e));
  print_workload(finding.victim);
  print_workload(finding.neighbour);
  if (!finding.disarm_error.empty()) fmt::print("\nnot disarmed: {}\n", finding.disarm_error);
  fmt::print("\n{}\n", finding.verdict());
}

// Two VFs at least, and a watchdog that ends a hung kernel long before a round of the workload is given up. What the
// caller's shape says of the rest stays.
flex::CardOptions card_for(const FaultRunOptions& options) {
  flex::CardOptions card = card_options(options.shape, count_running_cards() + 1);
  card.virtual_functions = std::max(2u, card.virtual_functions);
  card.boot_arguments = "watchdog=200 " + card.boot_arguments;
  return card;
}

}  // namespace

int fault_list(const FaultListOptions& options) {
  if (options.json) {
    std::cout << catalogue_json().dump(2) << "\n";
  } else {
    print_catalogue();
  }
  return kOk;
}

int fault_run(const FaultRunOptions& options) {
  auto script = value_or_throw(flex::fault::load_script(options.script));
  if (options.seed_given) script = script.with_seed(options.seed);
  Finding finding;
  finding.seed = script.seed();
  const std::shared_ptr<flex::Card> card = value_or_throw(flex::Card::boot(card_for(options)));
  const auto session = value_or_throw(flex::fault::Session::begin(script));
  if (auto armed = session->arm(*card); !armed) {
    fmt::print(stderr, "spyre: the script was not armed: {}\n", flex::describe(armed.error()));
    return kRefused;
  }
  run_both(card, *session, options, finding);
  if (auto disarmed = session->disarm(); !disarmed) finding.disarm_error = flex::describe(disarmed.error());
  finding.evidence = session->evidence();
  if (options.json) {
    std::cout << finding_json(finding).dump(2) << "\n";
  } else {
    print_finding(finding);
  }
  return finding.exit_code();
}

}  // namespace cli
