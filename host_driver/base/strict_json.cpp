// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/strict_json.hpp"

#include <charconv>
#include <set>
#include <utility>
#include <vector>

namespace svp {

namespace {

constexpr std::size_t kShownText = 40;

// For a message: bounded, and nothing that a terminal would act on.
std::string shown(const std::string& text) {
  std::string safe;
  for (const char c : text.substr(0, kShownText)) safe.push_back(c >= ' ' && c <= '~' ? c : '?');
  return "'" + safe + (text.size() > kShownText ? "...'" : "'");
}

}  // namespace

std::uint64_t decimal_number(const nlohmann::json& value, const std::string& path, std::uint64_t max) {
  if (!value.is_string()) throw BadMember{path, "is not a text of decimal digits"};
  const auto& text = value.get_ref<const std::string&>();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || end != text.data() + text.size() || error == std::errc::invalid_argument) {
    throw BadMember{path, "is " + shown(text) + ", not a text of decimal digits"};
  }
  if (error != std::errc{} || number > max) {
    throw BadMember{path, "is " + shown(text) + ", more than " + std::to_string(max)};
  }
  return number;
}

StrictObject::StrictObject(const nlohmann::json& value, std::string path) : value_(value), path_(std::move(path)) {
  if (!value_.is_object()) throw BadMember{path_, "is not an object"};
}

const nlohmann::json& StrictObject::member(const char* key) {
  const auto found = value_.find(key);
  if (found == value_.end()) refuse(key, "is missing");
  asked_.emplace(key);
  return *found;
}

std::string StrictObject::text(const char* key, std::size_t max_bytes) {
  const nlohmann::json& value = member(key);
  if (!value.is_string()) refuse(key, "is not a text");
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > max_bytes) refuse(key, "is longer than " + std::to_string(max_bytes) + " bytes");
  return text;
}

std::uint64_t StrictObject::number(const char* key, std::uint64_t max) {
  const nlohmann::json& value = member(key);
  if (!value.is_number_unsigned()) refuse(key, "is not a non-negative integer");
  const auto number = value.get<std::uint64_t>();
  if (number > max) refuse(key, "is " + std::to_string(number) + ", more than " + std::to_string(max));
  return number;
}

std::uint64_t StrictObject::decimal(const char* key, std::uint64_t max) {
  return decimal_number(member(key), path_of(key), max);
}

bool StrictObject::boolean(const char* key) {
  const nlohmann::json& value = member(key);
  if (!value.is_boolean()) refuse(key, "is neither true nor false");
  return value.get<bool>();
}

const nlohmann::json& StrictObject::list(const char* key, std::size_t max_entries) {
  const nlohmann::json& value = member(key);
  if (!value.is_array()) refuse(key, "is not a list");
  if (value.size() > max_entries) refuse(key, "has more than " + std::to_string(max_entries) + " entries");
  return value;
}

void StrictObject::finish() const {
  for (const auto& [key, value] : value_.items()) {
    if (!asked_.contains(key)) throw BadMember{path_, "has a member that is not known: " + shown(key)};
  }
}

nlohmann::json parse_strict(std::string_view text, std::size_t max_bytes, const std::string& path) {
  if (text.size() > max_bytes) throw BadMember{path, "is longer than " + std::to_string(max_bytes) + " bytes"};
  using nlohmann::json;
  std::vector<std::set<std::string>> open;
  // Throws out of the parser: before a hostile text has cost more than its own bytes.
  const auto look = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kMostJsonDepth) {
      throw BadMember{path, "is nested deeper than " + std::to_string(kMostJsonDepth) + " levels"};
    }
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second) {
      throw BadMember{path, "has the key " + shown(value.get<std::string>()) + " twice in an object"};
    }
    return true;
  };
  json parsed = json::parse(text, look, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) throw BadMember{path, "is not JSON"};
  return parsed;
}

std::string dump(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace svp
