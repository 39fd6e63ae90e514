// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "host_driver/bundle/bundle.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/fault_run.hpp"
#include "host_driver/cli/fault_run_bundle.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/signals.hpp"
#include "host_driver/faults/script_json.hpp"

namespace cli {

namespace {

using OrderedJson = nlohmann::ordered_json;
using svp::fault::Evidence;
using svp::fault::WorkloadReport;

// ---- list -----------------------------------------------------------------------------------------------------------

struct ConditionName {
  std::uint32_t condition;
  const char* name;
};
constexpr ConditionName kConditions[] = {
    {svp::fault::kByFunction, "function"}, {svp::fault::kByStream, "stream"},
    {svp::fault::kByOpcode, "opcode"},     {svp::fault::kByCommand, "opcode (of an admin command)"},
    {svp::fault::kBySequence, "sequence"}, {svp::fault::kAtRegion, "region"},
    {svp::fault::kAtOffset, "offset"},     {svp::fault::kAtHart, "hart"},
    {svp::fault::kByCore, "core"},         {svp::fault::kByProgress, "progress"},
    {svp::fault::kByWaiting, "waiting"},   {svp::fault::kAtSegment, "segment (of flip-segment)"}};

std::vector<std::string> condition_names(std::uint32_t conditions) {
  std::vector<std::string> names;
  for (const auto& [condition, name] : kConditions) {
    if ((conditions & condition) != 0) names.emplace_back(name);
  }
  return names;
}

OrderedJson catalogue_json() {
  OrderedJson points = OrderedJson::array();
  for (const auto& rule : svp::fault::catalogue()) {
    OrderedJson actions = OrderedJson::array();
    for (const auto& action : rule.actions) {
      OrderedJson entry = {{"action", svp::fault::name(action.action)}};
      if (!action.argument.empty()) {
        entry["argument"] = action.argument;
        entry["min"] = action.min;
        entry["max"] = action.max;
      }
      actions.push_back(std::move(entry));
    }
    points.push_back({{"layer", svp::name(rule.layer)},
                      {"point", rule.name},
                      {"occurrence", rule.occurrence},
                      {"actions", std::move(actions)},
                      {"conditions", condition_names(rule.conditions)},
                      {"needed", condition_names(rule.needed)}});
  }
  return {{"points", std::move(points)}};
}

void print_catalogue() {
  svp::Layer layer{};
  bool first = true;
  for (const auto& rule : svp::fault::catalogue()) {
    if (first || rule.layer != layer) fmt::print("{}{}\n", first ? "" : "\n", svp::name(rule.layer));
    first = false;
    layer = rule.layer;
    fmt::print("  {:<17} {}\n", rule.name, rule.occurrence);
    for (const auto& action : rule.actions) {
      fmt::print("    {:<16}{}{}\n", svp::fault::name(action.action),
                 action.argument.empty() ? "" : "argument: ", action.argument);
    }
    const auto names = condition_names(rule.conditions);
    if (!names.empty()) fmt::print("    only for        {}\n", fmt::join(names, ", "));
  }
  fmt::print("\nEvery trigger knows first, every, shots and not_before_us. Scripts: docs/faults.md.\n");
}

// ---- run ------------------------------------------------------------------------------------------------------------

OrderedJson workload_json(const WorkloadReport& report) {
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

OrderedJson finding_json(const FaultRunResult& finding) {
  OrderedJson evidence = OrderedJson::array();
  for (const Evidence& e : finding.evidence) evidence.push_back(svp::fault::to_json(e));
  OrderedJson json = {{"verdict", name(finding.verdict())},
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

void print_finding(const FaultRunResult& finding) {
  fmt::print("seed {}\n\nevidence\n", finding.seed);
  for (const Evidence& e : finding.evidence)
    fmt::print("  {} {}\n", e.fired != 0 ? "fired  " : "INVALID", svp::fault::describe(e));
  print_workload(finding.victim);
  print_workload(finding.neighbour);
  if (!finding.disarm_error.empty()) fmt::print("\nnot disarmed: {}\n", finding.disarm_error);
  fmt::print("\n{}\n", name(finding.verdict()));
}

}  // namespace

int fault_list(const FaultListOptions& options) {
  if (options.json) {
    print_json(catalogue_json());
  } else {
    print_catalogue();
  }
  return kOk;
}

int fault_run(const FaultRunOptions& options) {
  auto script = svp::fault::load_script(options.script);
  if (!script) throw svp::Error(std::move(script.error()));
  const FaultRun run{.script = options.seed_given ? script->with_seed(options.seed) : *std::move(script),
                     .seconds = options.seconds,
                     .shape = options.shape};
  const InterruptNote note;
  const FaultRunResult finding = run_fault_script(run);
  if (!finding.refused.empty()) {
    fmt::print(stderr, "spyre: the script was not armed: {}\n", finding.refused);
  } else if (options.json) {
    print_json(finding_json(finding));
  } else {
    print_finding(finding);
  }
  if (exit_code_of(finding.verdict()) != kOk && !options.bundles.empty()) {
    const std::filesystem::path file(options.script);
    const auto left = svp::bundle::write(options.bundles, file.stem().string(), bundle_of(run, finding));
    fmt::print(stderr, "spyre: failure bundle {}\n", left.string());
  }
  const int code = exit_code_of(finding.verdict());
  // What it would have shown is not known.
  return InterruptNote::came() && code == kInvalid ? kInterrupted : code;
}

}  // namespace cli
