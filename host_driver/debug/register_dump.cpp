// SPDX-License-Identifier: Apache-2.0
#include "host_driver/debug/register_dump.hpp"

#include <charconv>
#include <optional>
#include <sstream>
#include <string>

namespace svp {

namespace {

std::optional<std::uint64_t> number(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "x10/a0" → 10.
std::optional<unsigned> integer_register(std::string_view word) {
  if (!word.starts_with('x')) return std::nullopt;
  const std::size_t slash = word.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto value = number(word.substr(1, slash - 1), 10);
  return value && *value < 32 ? std::optional(static_cast<unsigned>(*value)) : std::nullopt;
}

}  // namespace

// "CPU#0", then pairs of a name and hexadecimal digits.
std::vector<HartRegisters> parse_register_dump(std::string_view text) {
  std::vector<HartRegisters> harts;
  std::istringstream words{std::string(text)};
  unsigned found = 0;  // registers of the last hart: the pc and x1 … x31
  constexpr unsigned kAll = 32;
  std::string word;
  std::string before;
  while (words >> word) {
    if (word.starts_with("CPU#")) {
      if (!harts.empty() && found != kAll) return {};
      const auto hart = number(std::string_view(word).substr(4), 10);
      if (!hart || *hart != harts.size()) return {};
      harts.push_back({.hart = static_cast<unsigned>(*hart)});
      found = 0;
    } else if (!harts.empty()) {
      const auto index = integer_register(before);
      const auto value = number(word, 16);
      if (value && before == "pc") {
        harts.back().pc = *value;
        ++found;
      } else if (value && index && *index != 0) {
        harts.back().x[*index] = *value;
        ++found;
      }
    }
    before = word;
  }
  if (found != kAll) return {};
  return harts;
}

}  // namespace svp
