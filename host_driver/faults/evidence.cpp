// SPDX-License-Identifier: Apache-2.0
#include "host_driver/faults/evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace svp::fault {

bool all_fired(const std::vector<Evidence>& evidence) {
  return std::ranges::all_of(evidence, [](const Evidence& e) { return e.fired != 0; });
}

nlohmann::ordered_json to_json(const Evidence& evidence) {
  const PointRule& rule = rule_of(evidence.fault.point);
  nlohmann::ordered_json json = {{"fault", evidence.index},     {"layer", svp::name(rule.layer)},
                                 {"point", rule.name},          {"action", name(evidence.fault.action)},
                                 {"armed", evidence.was_armed}, {"counted", evidence.counted},
                                 {"fired", evidence.fired}};
  if (evidence.fired != 0) {
    json["first_us"] = evidence.first_us;
    json["last_us"] = evidence.last_us;
  }
  if (evidence.function) json["function"] = function_text(*evidence.function);
  if (evidence.stream) json["stream"] = *evidence.stream;
  if (evidence.sequence) json["sequence"] = *evidence.sequence;
  if (evidence.hart) json["hart"] = *evidence.hart;
  if (evidence.progress) json["progress"] = *evidence.progress;
  if (evidence.waiting) json["waiting"] = *evidence.waiting;
  if (!evidence.note.empty()) json["note"] = evidence.note;
  return json;
}

std::string describe(const Evidence& evidence) {
  const PointRule& rule = rule_of(evidence.fault.point);
  std::string text = fmt::format("{} {} {}: ", svp::name(rule.layer), rule.name, name(evidence.fault.action));
  if (!evidence.was_armed) {
    text += "not armed";
  } else if (evidence.fired == 0) {
    text += fmt::format("did not fire ({} occurrences counted)", evidence.counted);
  } else {
    text += fmt::format("fired {} of {} at {:.3f} ms", evidence.fired, evidence.counted,
                        static_cast<double>(evidence.first_us) / 1e3);
    if (evidence.fired > 1) text += fmt::format(" to {:.3f} ms", static_cast<double>(evidence.last_us) / 1e3);
  }
  if (evidence.function) text += ", " + function_text(*evidence.function);
  if (evidence.stream) text += fmt::format(" stream {}", *evidence.stream);
  if (evidence.sequence) text += fmt::format(" sequence {}", *evidence.sequence);
  if (evidence.hart) text += fmt::format(" hart {}", *evidence.hart);
  if (evidence.progress) text += fmt::format(" progress {}", *evidence.progress);
  if (evidence.waiting.value_or(0) != 0) text += fmt::format(", {} at the barrier", *evidence.waiting);
  if (!evidence.note.empty()) text += " (" + evidence.note + ")";
  return text;
}

}  // namespace svp::fault
