// SPDX-License-Identifier: Apache-2.0
#include "qemu/emulator_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace qemu {

namespace {

constexpr std::string_view kPreload = "LD_PRELOAD=";

// Where Debian, other distributions with several architectures, and the rest install libraries.
constexpr const char* kPlaces[] = {
    "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
    "/usr/lib64/libjemalloc.so.2",
    "/usr/lib/libjemalloc.so.2",
};

}  // namespace

std::optional<std::filesystem::path> emulator_allocator() {
  if (const char* const named = std::getenv("SPYRE_EMULATOR_ALLOCATOR"); named != nullptr && *named != '\0') {
    if (std::string_view(named) == "none") return std::nullopt;
    return named;
  }
  for (const char* const place : kPlaces) {
    if (::access(place, R_OK) == 0) return place;
  }
  return std::nullopt;
}

std::vector<std::string> with_allocator(std::span<const std::string> variables,
                                        const std::optional<std::filesystem::path>& allocator) {
  std::vector<std::string> all(variables.begin(), variables.end());
  const bool preloads = std::ranges::any_of(all, [](const std::string& variable) {
    return variable.starts_with(kPreload) && variable.size() > kPreload.size();
  });
  if (!allocator || preloads) return all;
  std::erase_if(all, [](const std::string& variable) { return variable.starts_with(kPreload); });
  all.push_back(std::string(kPreload) + allocator->string());
  return all;
}

std::vector<std::string> emulator_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  return with_allocator(variables, emulator_allocator());
}

}  // namespace qemu
