// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/strict_json.hpp"

#include <utility>

namespace svp {

StrictObject::StrictObject(const nlohmann::json& value, std::string path) : value_(value), path_(std::move(path)) {
  if (!value_.is_object()) throw BadMember{path_, "is not an object"};
}

const nlohmann::json& StrictObject::member(const char* key) {
  const auto found = value_.find(key);
  if (found == value_.end()) refuse(key, "is missing");
  ++asked_;
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
  if (value_.size() != asked_) throw BadMember{path_, "has members that are not known"};
}

nlohmann::json parse_strict(std::string_view text, std::size_t max_bytes, const std::string& path) {
  if (text.size() > max_bytes) throw BadMember{path, "is longer than " + std::to_string(max_bytes) + " bytes"};
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw BadMember{path, "is not JSON"};
  return json;
}

std::string dump(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace svp
