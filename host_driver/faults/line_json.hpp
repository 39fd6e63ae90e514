// SPDX-License-Identifier: Apache-2.0
// JSON with the line of every value, for files that people write: nlohmann-json reads, this remembers where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace svp::fault {

struct LineValue {
  enum class Kind : std::uint8_t { Null, Boolean, Number, Other, Text, List, Object };  // Other: negative, fraction

  Kind kind = Kind::Null;
  std::size_t line = 1;  // where it begins
  bool boolean = false;
  std::uint64_t number = 0;
  std::string text{};
  std::vector<LineValue> items{};
  std::vector<LineValue> members{};  // in their order, keys once each
  std::string key{};                 // of a member
  std::size_t key_line = 1;

  const LineValue* member(std::string_view wanted) const;
};

// Thrown: what is wrong in which line.
struct LineError {
  std::size_t line;
  std::string what;
};

inline constexpr std::size_t kMaxLineJsonBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxLineJsonDepth = 16;

// Throws LineError: not JSON, too long, too deep, a key twice.
LineValue parse_with_lines(std::string_view text);

}  // namespace svp::fault
