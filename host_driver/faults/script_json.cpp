// SPDX-License-Identifier: Apache-2.0
#include "host_driver/faults/script_json.hpp"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "host_driver/faults/line_json.hpp"

namespace svp::fault {

namespace {

using OrderedJson = nlohmann::ordered_json;
using Kind = LineValue::Kind;

constexpr std::string_view kSome = "some";

ErrorInfo bad_script(std::string source, std::string message) {
  return {.layer = Layer::Driver,
          .source = std::move(source),
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "correct the script; spyre fault list shows every point, action and condition",
          .message = std::move(message)};
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kEnough = 60;
  return "\"" + std::string(text.substr(0, kEnough)) + "\"";
}

[[noreturn]] void refuse_at(const LineValue& value, std::string_view key, std::string_view what) {
  throw LineError{value.line, in_quotes(key) + " " + std::string(what)};
}

// Throws unless it is an object whose keys are all known.
void require_object(const LineValue& value, std::string_view key, std::initializer_list<std::string_view> known) {
  if (value.kind != Kind::Object) refuse_at(value, key, "is not an object");
  for (const auto& member : value.members) {
    if (std::ranges::find(known, member.key) == known.end()) {
      throw LineError{member.key_line, in_quotes(member.key) + " is not known here"};
    }
  }
}

const LineValue& needed(const LineValue& object, std::string_view key) {
  if (const LineValue* value = object.member(key)) return *value;
  throw LineError{object.line, in_quotes(key) + " is missing"};
}

std::uint64_t number(const LineValue& value, std::string_view key) {
  if (value.kind != Kind::Number) refuse_at(value, key, "is not a whole number from 0 up");
  return value.number;
}

std::uint32_t small_number(const LineValue& value, std::string_view key) {
  const std::uint64_t wide = number(value, key);
  if (wide > std::numeric_limits<std::uint32_t>::max()) refuse_at(value, key, "is too large");
  return static_cast<std::uint32_t>(wide);
}

Number drawn_number(const LineValue& value, std::string_view key) {
  if (value.kind != Kind::Object) return number(value, key);
  require_object(value, key, {"random"});
  const LineValue& range = needed(value, "random");
  if (range.kind != Kind::List || range.items.size() != 2) refuse_at(range, "random", "is not [low, high]");
  return Number::random(number(range.items[0], "random"), number(range.items[1], "random"));
}

const std::string& text(const LineValue& value, std::string_view key) {
  if (value.kind != Kind::Text) refuse_at(value, key, "is not a text");
  return value.text;
}

// What a kernel is at: a number, or "some".
std::uint32_t progress_number(const LineValue& value, std::string_view key) {
  if (value.kind == Kind::Number) {
    const std::uint32_t at = small_number(value, key);
    if (at >= wire::kSomeProgress) refuse_at(value, key, "is too large");
    return at;
  }
  if (value.kind != Kind::Text || value.text != kSome) refuse_at(value, key, "is neither a number nor \"some\"");
  return wire::kSomeProgress;
}

template <typename Field, typename Read>
void read_into(Field& field, const LineValue& from, std::string_view key, Read read) {
  if (const LineValue* value = from.member(key)) field = read(*value, key);
}

Trigger read_trigger(const LineValue& from, const PointRule& rule) {
  require_object(from, "trigger",
                 {"first", "every", "shots", "not_before_us", "function", "stream", "opcode", "sequence", "core",
                  "progress", "waiting"});
  Trigger trigger;
  read_into(trigger.first, from, "first", drawn_number);
  read_into(trigger.every, from, "every", number);
  read_into(trigger.shots, from, "shots", number);
  read_into(trigger.not_before_us, from, "not_before_us", drawn_number);
  read_into(trigger.stream, from, "stream", small_number);
  read_into(trigger.sequence, from, "sequence", number);
  read_into(trigger.core, from, "core", small_number);
  read_into(trigger.progress, from, "progress", progress_number);
  read_into(trigger.waiting, from, "waiting", small_number);
  read_into(trigger.function, from, "function", [](const LineValue& value, std::string_view key) {
    const auto target = function_called(text(value, key));
    if (!target) refuse_at(value, key, "is no function: there are \"M\", \"PF\" and \"VF1\" to \"VF16\"");
    return *target;
  });
  read_into(trigger.opcode, from, "opcode", [&](const LineValue& value, std::string_view key) {
    const auto opcode = opcode_called(rule, text(value, key));
    if (!opcode) {
      refuse_at(value, key,
                (rule.conditions & kByCommand) != 0 ? "is no admin command, like \"STREAM_OPEN\""
                                                    : "is no opcode of a control block, like \"DMA\"");
    }
    return *opcode;
  });
  return trigger;
}

const PointRule& read_point(const LineValue& from) {
  const LineValue& layer_value = needed(from, "layer");
  const auto layer = layer_called(text(layer_value, "layer"));
  if (!layer) refuse_at(layer_value, layer_value.text, "is no layer");
  const LineValue& value = needed(from, "point");
  const PointRule* rule = find_point(*layer, text(value, "point"));
  if (rule == nullptr) refuse_at(value, value.text, "is no point of the layer " + in_quotes(layer_value.text));
  return *rule;
}

// The line of the member at fault; a member that is missing is missing from the fault.
std::size_t line_of(const LineValue& fault, std::string_view member) {
  static constexpr std::string_view kOfFault[] = {"region", "offset", "hart", "segment"};
  if (const LineValue* value = fault.member(member)) return value->line;
  const LineValue* trigger = fault.member("trigger");
  if (const LineValue* value = trigger != nullptr ? trigger->member(member) : nullptr) return value->line;
  return trigger != nullptr && std::ranges::find(kOfFault, member) == std::end(kOfFault) ? trigger->line : fault.line;
}

Fault read_fault(const LineValue& from) {
  require_object(from, "faults",
                 {"layer", "point", "action", "argument", "trigger", "region", "offset", "hart", "segment"});
  const PointRule& rule = read_point(from);
  Fault fault;
  fault.point = rule.point;
  const LineValue& action_value = needed(from, "action");
  const auto action = action_called(text(action_value, "action"));
  if (!action) refuse_at(action_value, action_value.text, "is no action");
  fault.action = *action;
  if (const LineValue* trigger = from.member("trigger")) fault.trigger = read_trigger(*trigger, rule);
  read_into(fault.argument, from, "argument", drawn_number);
  read_into(fault.region, from, "region", number);
  read_into(fault.offset, from, "offset", drawn_number);
  read_into(fault.hart, from, "hart", small_number);
  read_into(fault.segment, from, "segment", small_number);
  if (const auto bad = refuse(fault)) {
    throw LineError{line_of(from, bad->member), in_quotes(bad->member) + " " + bad->what};
  }
  return fault;
}

Script read_script(std::string_view text) {
  const LineValue root = parse_with_lines(text);
  require_object(root, "the script", {"seed", "faults"});
  std::uint64_t seed = 1;
  read_into(seed, root, "seed", number);
  Script script(seed);
  const LineValue& faults = needed(root, "faults");
  if (faults.kind != Kind::List) refuse_at(faults, "faults", "is not a list");
  if (faults.items.empty()) refuse_at(faults, "faults", "is empty: a script without a fault proves nothing");
  for (const LineValue& item : faults.items) {
    const Fault fault = read_fault(item);
    if (!script.has_room(home_of(fault.point))) {
      throw LineError{item.line, "there is no room for one more fault here: at most " +
                                     std::to_string(kMaxFaultsPerHome) +
                                     " on the card, in the driver, in the emulator"};
    }
    script.add(fault);
  }
  return script;
}

OrderedJson to_json(const Number& number) {
  if (number.fixed()) return number.low;
  return {{"random", {number.low, number.high}}};
}

OrderedJson to_json(const Trigger& trigger, const PointRule& rule) {
  OrderedJson json = OrderedJson::object();
  json["first"] = to_json(trigger.first);
  if (trigger.every != 0) json["every"] = trigger.every;
  if (trigger.shots != 1) json["shots"] = trigger.shots;
  if (trigger.not_before_us != Number()) json["not_before_us"] = to_json(trigger.not_before_us);
  if (trigger.function) json["function"] = function_text(*trigger.function);
  if (trigger.stream) json["stream"] = *trigger.stream;
  if (trigger.opcode) json["opcode"] = opcode_text(rule, *trigger.opcode);
  if (trigger.sequence) json["sequence"] = *trigger.sequence;
  if (trigger.core) json["core"] = *trigger.core;
  if (trigger.progress == wire::kSomeProgress) {
    json["progress"] = kSome;
  } else if (trigger.progress) {
    json["progress"] = *trigger.progress;
  }
  if (trigger.waiting) json["waiting"] = *trigger.waiting;
  return json;
}

OrderedJson to_json(const Fault& fault) {
  const PointRule& rule = rule_of(fault.point);
  OrderedJson json = OrderedJson::object();
  json["layer"] = svp::name(rule.layer);
  json["point"] = rule.name;
  json["action"] = name(fault.action);
  if (fault.argument != Number()) json["argument"] = to_json(fault.argument);
  json["trigger"] = to_json(fault.trigger, rule);
  if (fault.region) json["region"] = *fault.region;
  if (fault.offset) json["offset"] = to_json(*fault.offset);
  if (fault.hart) json["hart"] = *fault.hart;
  if (fault.segment) json["segment"] = *fault.segment;
  return json;
}

}  // namespace

Expected<Script> parse_script(std::string_view text, std::string_view name) {
  try {
    return read_script(text);
  } catch (const LineError& error) {
    const std::string line = std::to_string(error.line);
    return std::unexpected(bad_script(std::string(name) + ":" + line, "line " + line + ": " + error.what));
  }
}

Expected<Script> load_script(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    const bool exists = std::filesystem::exists(file, error);
    return std::unexpected(
        bad_script(file.string(), (exists ? "no regular file: " : "there is no file ") + file.string()));
  }
  std::ifstream stream(file, std::ios::binary);
  // One byte more than may be: what is too long is refused, not cut.
  std::string text(kMaxLineJsonBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (stream.bad()) return std::unexpected(bad_script(file.string(), "cannot read " + file.string()));
  return parse_script(text, file.string());
}

std::string to_json(const Script& script) {
  OrderedJson json = OrderedJson::object();
  json["seed"] = script.seed();
  json["faults"] = OrderedJson::array();
  for (const Fault& fault : script.faults()) json["faults"].push_back(to_json(fault));
  return json.dump(2) + "\n";
}

}  // namespace svp::fault
