// SPDX-License-Identifier: Apache-2.0
// Reading a JSON object of unknown origin: every member must be there, of its type and in its range, and none besides
// (finish(); a reader that ignores other members leaves it out).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "host_driver/base/error.hpp"

namespace svp {

// Thrown by StrictObject, and made an ErrorInfo where the text came in.
struct BadMember {
  std::string path;  // "card.functions[2].owner"; empty: the whole text
  std::string what;  // "is missing"
};

inline constexpr std::uint64_t kAnyNumber = std::numeric_limits<std::uint64_t>::max();
inline constexpr int kMostJsonDepth = 16;

// A text of decimal digits, as formats write numbers that JSON readers would round. Throws BadMember naming `path`.
std::uint64_t decimal_number(const nlohmann::json& value, const std::string& path, std::uint64_t max);

class StrictObject {
 public:
  // The value exists as long as this does. `path` is how errors call it.
  StrictObject(const nlohmann::json& value, std::string path);

  std::string text(const char* key, std::size_t max_bytes);
  std::uint64_t number(const char* key, std::uint64_t max);
  std::uint64_t decimal(const char* key, std::uint64_t max);  // decimal_number()
  bool boolean(const char* key);
  const nlohmann::json& list(const char* key, std::size_t max_entries);
  const nlohmann::json& member(const char* key);
  bool has(const char* key) const { return value_.contains(key); }
  // Call last: refuses members that nobody asked for.
  void finish() const;

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view key) const { return (path_.empty() ? "" : path_ + ".") + std::string(key); }
  [[noreturn]] void refuse(const char* key, std::string what) const { throw BadMember{path_of(key), std::move(what)}; }

 private:
  const nlohmann::json& value_;
  std::string path_;
  std::set<std::string, std::less<>> asked_;
};

// Not JSON, longer than `max_bytes`, nested deeper than kMostJsonDepth, or a key twice in an object: BadMember that
// names `path`.
nlohmann::json parse_strict(std::string_view text, std::size_t max_bytes, const std::string& path);

// Never throws: what is not UTF-8 is replaced.
std::string dump(const nlohmann::json& value, int indent = -1);

}  // namespace svp
