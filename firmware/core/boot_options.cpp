// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/boot_options.hpp"

#include <optional>

#include "firmware/mutants/mutants.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/fault.hpp"
#include "shared/units.hpp"

namespace fw {

namespace {

std::optional<std::uint64_t> parse_number(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

// Steps of boot() that can be stopped behind: what comes earlier does not know the boot arguments yet.
bool boot_passes(std::uint64_t code) {
  using wire::PostCode;
  for (const PostCode step : {PostCode::Memory, PostCode::RegionPool, PostCode::Slots, PostCode::Cores,
                              PostCode::Functions, PostCode::SelfTest, PostCode::Ready}) {
    if (code == static_cast<std::uint64_t>(step)) return true;
  }
  return false;
}

bool apply(BootOptions& options, std::string_view name, std::uint64_t value) {
  namespace boot = wire::boot;
  if (name == boot::kVirtualFunctions) {
    options.virtual_functions = static_cast<std::uint32_t>(value);
    return value <= boot::kMaxVirtualFunctions;
  }
  if (name == boot::kSelfTest) return options.self_test = value == 1, value <= 1;
  if (name == boot::kMapAll) return options.map_all = value == 1, value <= 1;
  if (name == boot::kTimers) return options.timers = value == 1, value <= 1;
  if (name == boot::kMemoryBudgetMiB) {
    options.populated_budget_bytes = value * wire::kMiB;
    return value <= (std::uint64_t{1} << 30);
  }
  if (name == boot::kQuotaMiB) {
    options.quota_bytes = value * wire::kMiB;
    return value <= (std::uint64_t{1} << 30) && value % 2 == 0;
  }
  if (name == boot::kSoleFunction) {
    options.sole_function = static_cast<std::uint32_t>(value);
    return value <= boot::kMaxVirtualFunctions + 1;
  }
  if (name == boot::kStreamTimeouts) {
    options.stream_timeouts = static_cast<std::uint32_t>(value);
    return value <= 1'000'000;
  }
  if (name == boot::kMutant) return options.mutant = value, true;
  if (name == boot::kMutantStatus) return options.mutant_status = value, true;
  if (name == boot::kWatchdogSlices) {
    options.watchdog_slices = value;
    return value >= 1 && value <= 1'000'000'000;
  }
  if (name == boot::kOnPanic) return options.restart_on_panic = value == 1, value <= 1;
  if (name == boot::kLoopWatchdogMs) {
    options.loop_watchdog_ms = value;
    return value <= 1'000'000;
  }
  if (name == boot::kStopAt) {
    options.stop_at = static_cast<wire::PostCode>(value);
    return boot_passes(value);
  }
  return false;
}

}  // namespace

std::expected<BootOptions, std::string_view> parse_boot_options(std::string_view arguments) {
  BootOptions options;
  while (!arguments.empty()) {
    const std::size_t space = arguments.find(' ');
    const std::string_view word = arguments.substr(0, space);
    arguments.remove_prefix(space == std::string_view::npos ? arguments.size() : space + 1);
    if (word.empty()) continue;
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) return std::unexpected(word);
    const auto value = parse_number(word.substr(equals + 1));
    const BootOptions before = options;
    if (value && apply(options, word.substr(0, equals), *value)) continue;
    if (!choose_mutant(before.mutant, before.mutant_status) || !mutated(Mutant::BootWords)) {
      return std::unexpected(word);
    }
    options = before;
  }
  return options;
}

}  // namespace fw
