// SPDX-License-Identifier: Apache-2.0
#include "qemu/memory_budget.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "shared/units.hpp"

namespace svp {

namespace {

constexpr std::uint64_t kShareOfMachine = 3;  // protocol §6: a third

}  // namespace

std::optional<std::uint64_t> parse_available_memory(std::string_view meminfo) {
  constexpr std::string_view kName = "MemAvailable:";
  std::size_t at = meminfo.starts_with(kName) ? 0 : meminfo.find("\nMemAvailable:");
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = meminfo.substr(meminfo.find(':', at) + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  std::uint64_t kib = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), kib);
  if (parsed.ec != std::errc{} || kib > std::numeric_limits<std::uint64_t>::max() / wire::kKiB) return std::nullopt;
  if (!std::string_view(parsed.ptr, rest.data() + rest.size()).starts_with(" kB")) return std::nullopt;
  return kib * wire::kKiB;
}

std::optional<std::uint64_t> available_memory() {
  std::ifstream file("/proc/meminfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return parse_available_memory(text);
}

std::uint64_t default_populated_budget(unsigned cards) {
  const auto available = available_memory();
  if (!available) return 0;
  const std::uint64_t share = *available / kShareOfMachine / std::max(cards, 1u);
  return std::max(share / wire::kMiB, std::uint64_t{1}) * wire::kMiB;
}

}  // namespace svp
