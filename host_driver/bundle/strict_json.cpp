// SPDX-License-Identifier: Apache-2.0
#include "host_driver/bundle/strict_json.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <vector>

namespace svp::bundle {

namespace {

using nlohmann::json;

constexpr std::size_t kShownKey = 60;

struct Malformed {
  std::string why;
};

// Throws Malformed out of the parser: before a hostile file has cost more than its own bytes.
json parse_strictly(const std::string& text) {
  std::vector<std::set<std::string>> open;
  const auto look = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kMostDepth) throw Malformed{"nested deeper than " + std::to_string(kMostDepth) + " levels"};
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second) {
      throw Malformed{"the key '" + value.get<std::string>().substr(0, kShownKey) + "' stands there twice"};
    }
    return true;
  };
  json parsed = json::parse(text, look, false);
  if (parsed.is_discarded()) throw Malformed{"not JSON"};
  return parsed;
}

}  // namespace

ErrorInfo bad_bundle(const std::filesystem::path& file, std::string message) {
  return {.layer = Layer::Driver,
          .source = file.filename().string(),
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "name a file that a failed run left in its --bundles folder",
          .message = "this is no failure bundle: " + std::move(message)};
}

Expected<json> read_strict_json(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    const bool exists = std::filesystem::exists(file, error);
    return std::unexpected(bad_bundle(file, exists ? "it is no regular file" : "there is no such file"));
  }
  std::ifstream stream(file, std::ios::binary);
  const auto size = std::filesystem::file_size(file, error);
  if (error || !stream) return std::unexpected(bad_bundle(file, "it cannot be read"));
  if (size > kMostBytes) return std::unexpected(bad_bundle(file, std::to_string(size) + " bytes are too many"));
  std::string text(size, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  try {
    return parse_strictly(text);
  } catch (const Malformed& refused) {
    return std::unexpected(bad_bundle(file, refused.why));
  }
}

std::string wrong_members(const json& object, std::string_view what, std::initializer_list<std::string_view> needed,
                          std::initializer_list<std::string_view> optional) {
  const std::string subject(what);
  if (!object.is_object()) return subject + " is not an object";
  for (const std::string_view key : needed) {
    if (!object.contains(key)) return subject + " has no member '" + std::string(key) + "'";
  }
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(needed, key) != needed.end() || std::ranges::find(optional, key) != optional.end()) continue;
    return subject + " does not know the member '" + key.substr(0, kShownKey) + "'";
  }
  return {};
}

}  // namespace svp::bundle
