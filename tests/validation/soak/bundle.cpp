// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/soak/bundle.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "host_driver/bundle/strict_json.hpp"
#include "shared/version.hpp"

namespace svp::soak {

namespace {

using bundle::Figures;
using bundle::Rule;
using nlohmann::json;

const char* yes_or_no(bool value) { return value ? "yes" : "no"; }

// Each complaint once, without its numbers and its advice: what went wrong, not where and when.
std::string kinds_of(const std::vector<std::string>& complaints) {
  std::set<std::string> kinds;
  for (std::string one : complaints) {
    one.resize(std::min(one.size(), one.find(" (layer ")));
    std::erase_if(one, [](char c) { return c >= '0' && c <= '9'; });
    kinds.insert(std::move(one));
  }
  std::string text;
  for (const std::string& one : kinds) text += (text.empty() ? "" : "; ") + one;
  return text;
}

void add(Figures& figures, const StressClientReport& client) {
  const std::string& group = client.function;
  figures.push_back({group, "complaints", client.complained});
  figures.push_back({group, "blocks", client.blocks});
  figures.push_back({group, "batches", client.batches});
  figures.push_back({group, "strict", client.strict});
  figures.push_back({group, "bytes checked", client.bytes_checked});
  figures.push_back({group, "attachments", client.attachments});
  figures.push_back({group, "starved", client.starved});
  for (const auto& [outcome, count] : client.outcomes) figures.push_back({group + " blocks", outcome, count});
}

void add(Figures& figures, const fault::WorkloadReport& workload) {
  const std::string& group = workload.function;
  figures.push_back({group, "results right", workload.results_right});
  figures.push_back({group, "results wrong", workload.results_wrong});
  figures.push_back({group, "untyped", std::uint64_t{workload.untyped.size()}});
  figures.push_back({group, "attachments", workload.attachments});
  for (const auto& [outcome, count] : workload.outcomes) figures.push_back({group + " blocks", outcome, count});
}

}  // namespace

Figures figures_of(const SoakReport& report) {
  const bool wrong = std::ranges::any_of(report.workloads, [](const auto& one) { return one.results_wrong != 0; });
  Figures figures = {{"run", "verdict", report.clean() ? "clean" : "not clean"},
                     {"run", "a result was wrong", yes_or_no(wrong)},
                     {"run", "broken off", yes_or_no(!report.broken_off.empty())},
                     {"run", "something was left", yes_or_no(!report.left.empty())},
                     {"run", "kinds of complaints", kinds_of(report.complaints())}};
  for (const auto& workload : report.workloads) add(figures, workload);
  for (const auto& client : report.clients) add(figures, client);
  for (const auto& [event, count] : report.disturbances.events) figures.push_back({"events", event, count});
  for (const auto& [fault, count] : report.disturbances.faults) {
    figures.push_back({"faults armed", fault, count.armed});
    figures.push_back({"faults fired", fault, count.fired});
  }
  figures.push_back({"events", "complaints", report.disturbances.complained});
  return figures;
}

std::optional<Rule> soak_rule(std::string_view group, std::string_view name) {
  constexpr std::string_view kExact[] = {"verdict", "a result was wrong", "broken off", "something was left"};
  constexpr Rule kThreads{false, "as threads were scheduled"};
  if (group == "run" && name == "kinds of complaints") return kThreads;
  if (group == "run") {
    if (std::ranges::find(kExact, name) == std::end(kExact)) return std::nullopt;
    return Rule{true, "what the run has shown"};
  }
  return kThreads;
}

bundle::Bundle bundle_of(const SoakOptions& options, const SoakReport& report) {
  const json script = {{"length_ms", options.length.count()}, {"until_complaint", options.until_complaint}};
  const json details = {{"complaints", report.complaints()}, {"left", report.left}};
  return {.kind = bundle::Kind::Soak,
          .seed = options.seed,
          .script = script.dump(),
          .versions = {{"abi", std::to_string(wire::kAbiVersion)}},
          .seen = figures_of(report),
          .details = details.dump(-1, ' ', false, json::error_handler_t::replace)};
}

Expected<SoakOptions> soak_of(const bundle::Bundle& bundle) {
  const auto bad = [](std::string what) { return std::unexpected(bundle::bad_bundle("script", std::move(what))); };
  const json script = json::parse(bundle.script, nullptr, false);
  if (auto wrong = bundle::wrong_members(script, "the script", {"length_ms"}, {"until_complaint"}); !wrong.empty())
    return bad(std::move(wrong));
  const auto until_complaint = script.value("until_complaint", json(false));
  if (!until_complaint.is_boolean()) return bad("'until_complaint' is not true or false");
  const auto& length = script["length_ms"];
  constexpr auto kMost = static_cast<std::uint64_t>(kLongestReplay.count());
  if (!length.is_number_unsigned() || length.get<std::uint64_t>() == 0 || length.get<std::uint64_t>() > kMost) {
    return bad("'length_ms' is not a whole number of its range");
  }
  SoakOptions options;
  options.length = std::chrono::milliseconds(length.get<std::uint64_t>());
  options.seed = bundle.seed;
  options.until_complaint = until_complaint.get<bool>();
  return options;
}

}  // namespace svp::soak
