// SPDX-License-Identifier: Apache-2.0
#include "host_driver/campaign/bundle.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "host_driver/campaign/artifacts.hpp"

namespace flex::campaign {

namespace {

using nlohmann::json;

constexpr const char* kFormat = "spyre-failure-bundle";
constexpr int kFormatVersion = 1;

ErrorInfo problem(const std::filesystem::path& file, std::string message, std::string next) {
  return {.layer = Layer::Driver,
          .culprit = file.filename().string(),
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = std::move(next),
          .message = std::move(message)};
}

std::string proof_letters(const Result& result) {
  std::string letters;
  for (const Proof proof : kProofs) letters += result[proof].holds ? '+' : '-';
  return letters;
}

json fault_json(const ArmedFault& armed) {
  const auto& spec = armed.spec;
  json text = {{"point", wire::name(spec.point)},
               {"action", wire::name(spec.action)},
               {"first", spec.first},
               {"every", spec.every},
               {"shots", spec.shots},
               {"not_before", spec.not_before},
               {"argument", spec.argument},
               {"sequence", spec.sequence},
               {"offset", spec.offset}};
  if (spec.function != wire::kAnyFunction) text["function"] = spec.function;
  if (spec.stream != wire::kAnyStream) text["stream"] = spec.stream;
  if (spec.opcode != wire::kAnyOpcode) text["opcode"] = spec.opcode;
  if (armed.asked) {
    text["evidence"] = {{"counted", armed.evidence.counted},
                        {"fired", armed.evidence.fired},
                        {"first_time", armed.evidence.first_time},
                        {"last_time", armed.evidence.last_time}};
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

std::filesystem::path write_bundle(const std::filesystem::path& folder, const Scenario& scenario,
                                   const Result& result) {
  json text = {{"format", kFormat},
               {"format_version", kFormatVersion},
               {"scenario", scenario.id},
               {"title", scenario.title},
               {"detector", scenario.detector},
               {"seed", result.seed},
               {"verdict", name(result.verdict())},
               {"proofs", proof_letters(result)},
               {"trouble", result.trouble}};
  for (const Proof proof : kProofs) text["seen"][std::string(name(proof))] = result[proof].seen;
  if (result.artifacts) {
    const Artifacts& kept = *result.artifacts;
    text["script"] = json::array();
    for (const ArmedFault& armed : kept.armed) text["script"].push_back(fault_json(armed));
    text["trace"] = json::array();
    for (const TracedBlock& block : kept.trace) text["trace"].push_back(block_json(block));
    text["outcomes"] = kept.outcomes();
    text["headers"] = kept.headers;
    text["record"] = kept.record;
    text["console"] = kept.console;
    text["versions"] = kept.versions;
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto path = folder / fmt::format("{}-seed-{}.spyre-bundle.json", scenario.id, result.seed);
  std::ofstream file(path, std::ios::trunc);
  // What a firmware wrote to its console need not be UTF-8.
  file << text.dump(2, ' ', false, json::error_handler_t::replace) << "\n";
  file.flush();
  if (file) return path;
  throw Error(problem(path, "the failure bundle could not be written", "name a folder that can be written to"));
}

Expected<Bundle> read_bundle(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return std::unexpected(problem(path, "the file cannot be read", "name a failure bundle"));
  const json text = json::parse(file, nullptr, false);
  const auto bad = [&](const char* what) {
    return std::unexpected(problem(path, std::string("this is no failure bundle: ") + what,
                                   "name a file that `spyre fault campaign --bundles` wrote"));
  };
  if (!text.is_object()) return bad("not a JSON object");
  if (text.value("format", std::string()) != kFormat) return bad("no format 'spyre-failure-bundle'");
  if (!text.contains("format_version") || text["format_version"] != kFormatVersion) return bad("another version");
  Bundle bundle;
  const auto text_of = [&](const char* key) {
    return text.contains(key) && text[key].is_string() ? text[key].get<std::string>() : std::string();
  };
  bundle.scenario = text_of("scenario");
  bundle.verdict = text_of("verdict");
  bundle.proofs = text_of("proofs");
  if (find_scenario(bundle.scenario) == nullptr) return bad("its scenario is not known");
  if (!text.contains("seed") || !text["seed"].is_number_unsigned()) return bad("no seed");
  bundle.seed = text["seed"].get<std::uint64_t>();
  if (bundle.proofs.size() != kProofs.size()) return bad("no proofs");
  if (text.contains("outcomes") && text["outcomes"].is_object()) {
    for (const auto& [key, count] : text["outcomes"].items()) {
      if (count.is_number_unsigned()) bundle.outcomes[key] = count.get<std::uint64_t>();
    }
  }
  return bundle;
}

}  // namespace flex::campaign
