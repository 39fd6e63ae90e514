// SPDX-License-Identifier: Apache-2.0
#include "host_driver/spyrecode/hcm.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "host_driver/base/strict_json.hpp"
#include "host_driver/spyrecode/spyre_code.hpp"

namespace svp::spyrecode {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uint64_t kHcmFormat = 1;
constexpr std::array kKinds{wire::SymbolKind::Address, wire::SymbolKind::Stride, wire::SymbolKind::Dimension,
                            wire::SymbolKind::Partials, wire::SymbolKind::Pass};

std::string element(const std::string& list, std::size_t index) { return list + "[" + std::to_string(index) + "]"; }

wire::SymbolKind read_kind(StrictObject& object) {
  const std::string word = object.text("kind", kMostNameBytes);
  for (const wire::SymbolKind kind : kKinds) {
    if (word == name_of(kind)) return kind;
  }
  object.refuse("kind", "is none of address, stride, dimension, partials, pass");
}

HcmSymbol read_symbol(const json& value, const std::string& path, const Hcm& hcm) {
  StrictObject object(value, path);
  HcmSymbol symbol;
  symbol.kind = read_kind(object);
  const std::uint64_t input = object.decimal("input", kAnyNumber);
  if (input >= hcm.inputs.size()) object.refuse("input", "is no index of vdci.inputSym");
  symbol.input = static_cast<std::uint32_t>(input);
  if (has_axis(symbol.kind)) {
    symbol.axis = static_cast<std::uint32_t>(object.decimal("axis", kMostAxes - 1));
  }
  object.finish();
  return symbol;
}

Hcm read_hcm(const json& value, const std::string& path) {
  StrictObject object(value, path);
  const std::uint64_t format = object.decimal("format", kAnyNumber);
  if (format != kHcmFormat) {
    object.refuse("format", "is " + std::to_string(format) + ", this driver reads " + std::to_string(kHcmFormat));
  }
  Hcm hcm;
  StrictObject vdci(object.member("vdci"), object.path_of("vdci"));
  const json& inputs = vdci.list("inputSym", kMostInputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    hcm.inputs.push_back(
        static_cast<std::uint32_t>(decimal_number(inputs[i], element(vdci.path_of("inputSym"), i), kMostInputs - 1)));
  }
  vdci.finish();
  if (!object.list("senConstants", kMostSteps).empty()) {
    object.refuse("senConstants", "is not empty, and the corrections of this runtime have no constants");
  }
  const json& symbols = object.list("symbols", wire::kMaxSymbols);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    hcm.symbols.push_back(read_symbol(symbols[i], element(object.path_of("symbols"), i), hcm));
  }
  object.finish();
  return hcm;
}

}  // namespace

const char* name_of(wire::SymbolKind kind) {
  switch (kind) {
    case wire::SymbolKind::Address: return "address";
    case wire::SymbolKind::Stride: return "stride";
    case wire::SymbolKind::Dimension: return "dimension";
    case wire::SymbolKind::Partials: return "partials";
    case wire::SymbolKind::Pass: return "pass";
  }
  return "unknown";
}

Hcm parse_hcm(std::string_view text, const std::string& path) {
  try {
    return read_hcm(parse_strict(text, kMostFileBytes, path), path);
  } catch (const BadMember& bad) {
    throw InvalidPlan(bad.path, std::string(kFileName) + ": " + bad.path + " " + bad.what,
                      "take a directory that was written for this card (spyre spyrecode make, docs/spyrecode.md)");
  }
}

std::string to_json(const Hcm& hcm) {
  ordered_json inputs = ordered_json::array();
  for (const std::uint32_t input : hcm.inputs) inputs.push_back(std::to_string(input));
  ordered_json symbols = ordered_json::array();
  for (const HcmSymbol& symbol : hcm.symbols) {
    ordered_json written = {{"kind", name_of(symbol.kind)}, {"input", std::to_string(symbol.input)}};
    if (has_axis(symbol.kind)) written["axis"] = std::to_string(symbol.axis);
    symbols.push_back(std::move(written));
  }
  const ordered_json object = {{"format", std::to_string(kHcmFormat)},
                               {"vdci", {{"inputSym", std::move(inputs)}}},
                               {"senConstants", ordered_json::array()},
                               {"symbols", std::move(symbols)}};
  return object.dump();
}

}  // namespace svp::spyrecode
