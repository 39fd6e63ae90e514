// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/bundle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "host_driver/bundle/strict_json.hpp"

namespace svp::campaign {

namespace {

using nlohmann::json;

json fault_json(const ArmedFault& armed) {
  const auto& spec = armed.spec;
  json text = {
      {"point", wire::name(spec.point)}, {"action", wire::name(spec.action)}, {"first", spec.trigger.first},
      {"every", spec.trigger.every},     {"shots", spec.trigger.shots},       {"not_before", spec.trigger.not_before},
      {"argument", spec.argument},       {"sequence", spec.trigger.sequence}, {"offset", spec.offset}};
  if (spec.trigger.function != wire::kAnyFunction) text["function"] = spec.trigger.function;
  if (spec.trigger.stream != wire::kAnyStream) text["stream"] = spec.trigger.stream;
  if (spec.trigger.opcode != wire::kAnyOpcode) text["opcode"] = spec.trigger.opcode;
  if (spec.trigger.core != wire::kAnyCore) text["core"] = spec.trigger.core;
  if (spec.trigger.progress != wire::kAnyProgress) text["progress"] = spec.trigger.progress;
  if (spec.trigger.waiting != 0) text["waiting"] = spec.trigger.waiting;
  if (spec.action == wire::FaultAction::FlipSegment) text["segment"] = spec.segment;
  if (armed.asked) {
    text["evidence"] = {{"counted", armed.evidence.counted},
                        {"fired", armed.evidence.fired},
                        {"first_time", armed.evidence.first_time},
                        {"last_time", armed.evidence.last_time},
                        {"hart", armed.evidence.hart},
                        {"progress", armed.evidence.progress},
                        {"waiting", armed.evidence.waiting}};
  }
  return text;
}

json block_json(const TracedBlock& block) {
  json text = {{"stream", block.stream}, {"opcode", wire::name(block.opcode)}, {"bytes", block.bytes}};
  if (!block.ended) return text;
  text["outcome"] = wire::name(block.outcome);
  text["status"] = wire::name(block.status);
  text["start"] = block.start_time;
  text["end"] = block.end_time;
  return text;
}

}  // namespace

std::map<std::string, std::uint64_t> Artifacts::outcomes() const {
  std::map<std::string, std::uint64_t> counts;
  for (const TracedBlock& block : trace) {
    const std::string key = !block.ended
                                ? "never ended"
                                : std::string(wire::name(block.outcome)) + ", " + std::string(wire::name(block.status));
    ++counts[key];
  }
  return counts;
}

namespace {

using bundle::Rule;

std::string hit_by(const wire::FaultSpec& spec) {
  std::string text = fmt::format("{} {}, first {}, every {}, shots {}", wire::name(spec.point), wire::name(spec.action),
                                 spec.trigger.first, spec.trigger.every, spec.trigger.shots);
  if (spec.trigger.function != wire::kAnyFunction) text += fmt::format(", function {}", spec.trigger.function);
  if (spec.trigger.opcode != wire::kAnyOpcode) text += fmt::format(", opcode {}", spec.trigger.opcode);
  return text;
}

void add_artifacts(bundle::Figures& figures, const Artifacts& kept) {
  for (std::size_t i = 0; i < kept.armed.size(); ++i) {
    const std::string group = "fault " + std::to_string(i);
    const ArmedFault& armed = kept.armed[i];
    figures.push_back({group, "armed", hit_by(armed.spec)});
    if (!armed.asked) continue;
    figures.push_back({group, "has fired", armed.evidence.fired != 0 ? "yes" : "no"});
    figures.push_back({group, "fired", armed.evidence.fired});
    figures.push_back({group, "counted", armed.evidence.counted});
  }
  for (const auto& [outcome, count] : kept.outcomes()) figures.push_back({"blocks", outcome, count});
}

std::string details_of(const Scenario& scenario, const Result& result) {
  json text = {{"title", scenario.title}, {"trouble", result.trouble}};
  for (const Proof proof : kProofs) text["proofs"][std::string(name(proof))] = result[proof].seen;
  if (result.artifacts) {
    const Artifacts& kept = *result.artifacts;
    text["armed"] = json::array();
    for (const ArmedFault& armed : kept.armed) text["armed"].push_back(fault_json(armed));
    text["trace"] = json::array();
    for (const TracedBlock& block : kept.trace) text["trace"].push_back(block_json(block));
    text["headers"] = kept.headers;
    text["record"] = kept.record;
    text["console"] = kept.console;
  }
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

bundle::Figures figures_of(const Result& result) {
  bundle::Figures figures = {{"run", "verdict", std::string(name(result.verdict()))},
                             {"run", "came to its end", result.trouble.empty() ? "yes" : "no"}};
  for (const Proof proof : kProofs) {
    const ProofResult& shown = result[proof];
    figures.push_back({"proofs", std::string(name(proof)),
                       shown.holds   ? "holds"
                       : shown.given ? "missing"
                                     : "not given"});
  }
  if (result.artifacts) add_artifacts(figures, *result.artifacts);
  return figures;
}

namespace {

constexpr Rule kShown{true, "what the run has shown"};
constexpr Rule kThreads{false, "as threads were scheduled"};

// What a block is refused or fails for is decided by what was sent and armed. Whether it had begun, or ended, when it
// was stopped or the card went down is not.
Rule block_rule(std::string_view end) {
  const bool of_the_fault = end.starts_with(wire::name(wire::Outcome::Fault)) ||
                            end.starts_with(wire::name(wire::Outcome::Timeout)) ||
                            end.starts_with(wire::name(wire::Outcome::Rejected));
  if (!of_the_fault || end.ends_with(wire::name(wire::Status::Stopped))) return kThreads;
  return {true, "what was sent and armed decides it"};
}

bool is_proof(std::string_view name) {
  return std::ranges::any_of(kProofs, [&](Proof proof) { return svp::campaign::name(proof) == name; });
}

}  // namespace

std::optional<Rule> campaign_rule(std::string_view group, std::string_view name) {
  if (group == "run" && (name == "verdict" || name == "came to its end")) return kShown;
  if (group == "proofs" && is_proof(name)) return kShown;
  if (group == "blocks") return block_rule(name);
  if (!group.starts_with("fault ")) return std::nullopt;
  if (name == "armed") return Rule{true, "the scenario and its seed decide it"};
  if (name == "has fired") return Rule{true, "the scenario waits for it"};
  if (name == "fired" || name == "counted") return kThreads;
  return std::nullopt;
}

std::filesystem::path write_bundle(const std::filesystem::path& folder, const Scenario& scenario,
                                   const Result& result) {
  const json script = {{"scenario", scenario.id}};
  return bundle::write(
      folder, scenario.id,
      {.kind = bundle::Kind::Campaign,
       .seed = result.seed,
       .script = script.dump(),
       .versions = result.artifacts ? result.artifacts->versions : std::map<std::string, std::string>{},
       .seen = figures_of(result),
       .details = details_of(scenario, result)});
}

Expected<const Scenario*> scenario_of(const bundle::Bundle& bundle) {
  const auto bad = [](std::string what) { return std::unexpected(bundle::bad_bundle("script", std::move(what))); };
  const json script = json::parse(bundle.script, nullptr, false);
  if (auto wrong = bundle::wrong_members(script, "the script", {"scenario"}); !wrong.empty())
    return bad(std::move(wrong));
  const Scenario* scenario = nullptr;
  if (script["scenario"].is_string()) scenario = find_scenario(script["scenario"].get<std::string>());
  if (scenario == nullptr) return bad("its scenario is not known");
  return scenario;
}

}  // namespace svp::campaign
