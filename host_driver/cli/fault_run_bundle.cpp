// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/fault_run_bundle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "host_driver/bundle/strict_json.hpp"
#include "host_driver/faults/script_json.hpp"
#include "shared/version.hpp"

namespace cli {

namespace {

using svp::bundle::Figures;
using svp::bundle::Rule;
using svp::bundle::RuleOf;
using svp::fault::Action;
using svp::fault::Evidence;
using svp::fault::Fault;
using svp::fault::Home;
using svp::fault::Point;
using svp::fault::Script;
using svp::fault::WorkloadReport;
using OrderedJson = nlohmann::ordered_json;

constexpr wire::Target kVictim = wire::target_of_virtual(1);

std::uint64_t rounds_of_every_run() { return svp::fault::WorkloadOptions().rounds; }

const char* yes_or_no(bool value) { return value ? "yes" : "no"; }

// ---- what a script decides ------------------------------------------------------------------------------------------

bool fires_exactly(const Fault& fault) {
  const auto& trigger = fault.trigger;
  if (trigger.shots == 1) return true;
  if (trigger.shots == 0 || home_of(fault.point) == Home::Emulator || !(trigger.not_before_us == svp::fault::Number()))
    return false;
  const std::uint64_t most = rounds_of_every_run();
  const std::uint64_t more = trigger.every == 0 ? 0 : trigger.shots - 1;
  if (trigger.first.high > most || trigger.every > most || more > most) return false;
  return trigger.first.high + more * trigger.every <= most;
}

// The block of VF 1 that it hits, or nothing but a delay.
bool stays_in_its_block(const Fault& fault) {
  if (home_of(fault.point) == Home::Card && fault.trigger.function != kVictim) return false;
  switch (fault.point) {
    case Point::CardDmaStep: return fault.action == Action::Abort;
    case Point::CardKernel:
      return fault.action == Action::Hang || fault.action == Action::Illegal || fault.action == Action::Stray;
    case Point::CardKernelResult: return fault.trigger.shots == 1;  // two in one launch may undo each other
    case Point::CardDoorbell:
    case Point::DoorbellToCard:
    case Point::DoorbellToHost: return true;
    default: return false;
  }
}

bool stays_in_its_function(const Fault& fault) {
  switch (home_of(fault.point)) {
    case Home::Host: return true;  // only VF 1's device has the hooks
    case Home::Emulator: return false;
    case Home::Card: return fault.trigger.function == kVictim;
  }
  return false;
}

bool decides_blocks(const Script& script) {
  return std::ranges::all_of(script.faults(),
                             [](const Fault& fault) { return fires_exactly(fault) && stays_in_its_block(fault); });
}

// ---- figures --------------------------------------------------------------------------------------------------------

std::string kinds_of(const WorkloadReport& report) {
  std::string kinds;
  for (const auto& [outcome, count] : report.outcomes) kinds += (kinds.empty() ? "" : "; ") + outcome;
  return kinds;
}

std::string what_it_is(const Fault& fault) {
  const auto& rule = svp::fault::rule_of(fault.point);
  std::string text = fmt::format("{} {} {}, first {}", svp::name(rule.layer), rule.name, svp::fault::name(fault.action),
                                 fault.trigger.first.low);
  if (fault.argument.low != 0) text += fmt::format(", argument {}", fault.argument.low);
  if (fault.trigger.not_before_us.low != 0) text += fmt::format(", not before {} us", fault.trigger.not_before_us.low);
  if (fault.offset) text += fmt::format(", offset {}", fault.offset->low);
  return text;
}

void add_fault(Figures& figures, const Evidence& evidence) {
  const std::string group = "fault " + std::to_string(evidence.index);
  figures.push_back({group, "drawn", what_it_is(evidence.fault)});
  figures.push_back({group, "armed", yes_or_no(evidence.was_armed)});
  figures.push_back({group, "fired", evidence.fired});
  figures.push_back({group, "counted", evidence.counted});
  figures.push_back({group, "first at us", evidence.first_us});
  figures.push_back({group, "last at us", evidence.last_us});
}

void add_workload(Figures& figures, const std::string& group, const WorkloadReport& report) {
  figures.push_back({group, "a result was wrong", yes_or_no(report.results_wrong != 0)});
  figures.push_back({group, "results wrong", report.results_wrong});
  figures.push_back({group, "something ended untyped", yes_or_no(!report.untyped.empty())});
  figures.push_back({group, "whole at the end", yes_or_no(report.healed)});
  figures.push_back({group, "kinds of ends", kinds_of(report)});
  figures.push_back({group, "rounds", report.rounds});
  figures.push_back({group, "results right", report.results_right});
  figures.push_back({group, "stream resets", report.stream_resets});
  figures.push_back({group, "attachments", report.attachments});
  for (const auto& [outcome, count] : report.outcomes) figures.push_back({group + " blocks", outcome, count});
  for (const auto& [error, count] : report.errors) figures.push_back({group + " errors", error, count});
}

// ---- rules ----------------------------------------------------------------------------------------------------------

constexpr Rule kVerdict{true, "what the run has shown"};
constexpr Rule kDrawn{true, "drawn from the seed"};
constexpr Rule kThreads{false, "as threads were scheduled"};
constexpr Rule kTime{false, "a time"};
constexpr Rule kLength{false, "until all has fired and is whole"};
constexpr Rule kDecided{true, "each fault stays in the block that it hits"};
constexpr Rule kUndecided{false, "a fault reaches beyond the block that it hits"};
constexpr Rule kBystander{true, "no fault reaches VF 2"};
constexpr Rule kWholeCard{false, "a fault reaches VF 2"};

std::optional<Rule> run_rule(std::string_view name) {
  if (name == "verdict" || name == "script taken by the card") return kVerdict;
  if (name == "disarmed") return Rule{false, "whether the card still answered"};
  return std::nullopt;
}

std::optional<Rule> fault_rule(const Script& script, std::string_view group, std::string_view name) {
  std::size_t index = 0;
  const auto digits = group.substr(std::string_view("fault ").size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size() || index >= script.faults().size()) return {};
  if (name == "drawn" || name == "armed") return kDrawn;
  if (name == "fired") {
    return fires_exactly(script.faults()[index]) ? Rule{true, "its trigger decides it"}
                                                 : Rule{false, "until the run ends, or by time"};
  }
  if (name == "counted") return kThreads;
  if (name == "first at us" || name == "last at us") return kTime;
  return std::nullopt;
}

bool is_of_the_fault(std::string_view outcome) {
  return outcome.starts_with("FAULT") || outcome.starts_with("TIMEOUT");
}

std::optional<Rule> workload_rule(const Script& script, bool victim, std::string_view name) {
  if (name == "a result was wrong" || name == "something ended untyped") return kVerdict;
  const bool alone = std::ranges::all_of(script.faults(), stays_in_its_function);
  const Rule by_blocks = decides_blocks(script) ? kDecided : kUndecided;
  const Rule by_function = alone ? kBystander : kWholeCard;
  if (name == "results wrong" || name == "whole at the end") return victim ? by_blocks : by_function;
  if (name == "kinds of ends") return victim ? kThreads : by_function;
  if (name == "rounds" || name == "results right") return kLength;
  if (name == "stream resets" || name == "attachments") return kThreads;
  return std::nullopt;
}

Rule block_rule(const Script& script, bool victim, std::string_view outcome) {
  if (!victim || !is_of_the_fault(outcome)) return outcome == "OK" ? kLength : kThreads;
  return decides_blocks(script) ? kDecided : kUndecided;
}

std::optional<Rule> rule_of(const Script& script, std::string_view group, std::string_view name) {
  if (group == "run") return run_rule(name);
  if (group.starts_with("fault ")) return fault_rule(script, group, name);
  for (const bool victim : {true, false}) {
    const std::string function = victim ? "VF1" : "VF2";
    if (group == function) return workload_rule(script, victim, name);
    if (group == function + " blocks") return block_rule(script, victim, name);
    if (group == function + " errors") return kThreads;
  }
  return std::nullopt;
}

// ---- on disk --------------------------------------------------------------------------------------------------------

OrderedJson shape_json(const CardShape& shape) {
  return {{"virtual_functions", shape.virtual_functions},
          {"cores", shape.cores},
          {"memory_bytes", shape.memory_bytes},
          {"spare_slots", shape.spare_slots},
          {"quota_bytes", shape.quota_bytes},
          {"budget_bytes", shape.budget_bytes},
          {"array", shape.array}};
}

// "" and the number, or what is wrong with it.
std::string number_of(const nlohmann::json& object, const char* key, auto& number) {
  using Number = std::remove_reference_t<decltype(number)>;
  const auto& value = object[key];
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<Number>::max()) {
    return std::string("'") + key + "' is not a whole number of its range";
  }
  number = value.get<Number>();
  return {};
}

// A bundle may come from anybody: no file that it names is loaded into an emulator.
std::string array_of(const nlohmann::json& value, std::string& array) {
  if (value.is_string()) array = value.get<std::string>();
  const bool is_known = value.is_string() && (array.empty() || array == "off" || array == "auto");
  return is_known ? "" : "'array' is none of '', 'off' and 'auto'";
}

std::string shape_of(const nlohmann::json& json, CardShape& shape) {
  std::string wrong = svp::bundle::wrong_members(
      json, "the card",
      {"virtual_functions", "cores", "memory_bytes", "spare_slots", "quota_bytes", "budget_bytes", "array"});
  const auto read = [&](const char* key, auto& number) {
    if (wrong.empty()) wrong = number_of(json, key, number);
  };
  read("virtual_functions", shape.virtual_functions);
  read("cores", shape.cores);
  read("memory_bytes", shape.memory_bytes);
  read("spare_slots", shape.spare_slots);
  read("quota_bytes", shape.quota_bytes);
  read("budget_bytes", shape.budget_bytes);
  if (wrong.empty()) wrong = array_of(json["array"], shape.array);
  return wrong.empty() ? what_is_wrong_with(shape) : wrong;
}

OrderedJson details_json(const FaultRunResult& result) {
  OrderedJson evidence = OrderedJson::array();
  for (const Evidence& one : result.evidence) evidence.push_back(svp::fault::to_json(one));
  return {{"evidence", std::move(evidence)},
          {"untyped", {{"VF1", result.victim.untyped}, {"VF2", result.neighbour.untyped}}},
          {"refused", result.refused},
          {"disarm", result.disarm_error},
          {"console", result.console}};
}

}  // namespace

Figures figures_of(const FaultRunResult& result) {
  Figures figures = {{"run", "verdict", std::string(name(result.verdict()))},
                     {"run", "script taken by the card", yes_or_no(result.refused.empty())},
                     {"run", "disarmed", yes_or_no(result.disarm_error.empty())}};
  for (const Evidence& evidence : result.evidence) add_fault(figures, evidence);
  add_workload(figures, "VF1", result.victim);
  add_workload(figures, "VF2", result.neighbour);
  return figures;
}

RuleOf fault_run_rules(const Script& script) {
  return [script](std::string_view group, std::string_view name) { return rule_of(script, group, name); };
}

svp::bundle::Bundle bundle_of(const FaultRun& run, const FaultRunResult& result) {
  const OrderedJson script = {{"faults", OrderedJson::parse(svp::fault::to_json(run.script))},
                              {"seconds", run.seconds},
                              {"card", shape_json(run.shape)}};
  return {.kind = svp::bundle::Kind::FaultRun,
          .seed = run.script.seed(),
          .script = script.dump(),
          .versions = {{"abi", std::to_string(wire::kAbiVersion)}, {"emulator", result.emulator}},
          .seen = figures_of(result),
          .details = details_json(result).dump(-1, ' ', false, OrderedJson::error_handler_t::replace)};
}

svp::Expected<FaultRun> fault_run_of(const svp::bundle::Bundle& bundle) {
  const auto bad = [](std::string what) { return std::unexpected(svp::bundle::bad_bundle("script", std::move(what))); };
  const auto json = nlohmann::json::parse(bundle.script, nullptr, false);
  if (auto wrong = svp::bundle::wrong_members(json, "the script", {"faults", "seconds", "card"}); !wrong.empty()) {
    return bad(std::move(wrong));
  }
  FaultRun run;
  if (auto wrong = number_of(json, "seconds", run.seconds); !wrong.empty()) return bad(std::move(wrong));
  if (run.seconds == 0 || run.seconds > kMostFaultRunSeconds) return bad("'seconds' is out of range");
  if (auto wrong = shape_of(json["card"], run.shape); !wrong.empty()) return bad(std::move(wrong));
  auto script = svp::fault::parse_script(json["faults"].dump(2), "script");
  if (!script) return std::unexpected(std::move(script.error()));
  if (script->seed() != bundle.seed) return bad("the seed of the bundle is not the seed of its script");
  run.script = *std::move(script);
  return run;
}

}  // namespace cli
