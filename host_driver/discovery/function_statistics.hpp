// SPDX-License-Identifier: Apache-2.0
// What a card has counted of one function, as its management function M was told (STATS, FUNCTION_QUERY, QUERY), in the
// form in which a broker hands it on. Nothing in it is an address.
#pragma once

#include <array>
#include <cstdint>

#include "shared/admin.hpp"

namespace svp {

struct FunctionStatistics {
  wire::Target target = wire::kTargetPhysical;
  // Of the card, when it answered.
  std::uint64_t time_ticks = 0;  // device time (shared/units.hpp)
  std::uint64_t cores = 0;
  std::uint64_t card_free_bytes = 0;  // of region memory, all functions together
  std::uint64_t card_total_bytes = 0;
  // Memory, in bytes.
  std::uint64_t granted_bytes = 0;  // regions held
  std::uint64_t quota_bytes = 0;    // 0: none
  // Since the function's last reset.
  std::uint64_t completed = 0;  // control blocks that ended OK
  std::uint64_t rejected = 0;
  std::uint64_t failed = 0;
  std::uint64_t aborted = 0;
  std::uint64_t launches = 0;
  std::uint64_t kernel_ticks = 0;  // device ticks on any core
  std::uint64_t bytes_to_device = 0;
  std::uint64_t bytes_from_device = 0;
  std::uint64_t bytes_on_device = 0;
  std::uint64_t doorbells_signalled = 0;
  std::uint64_t ring_violations = 0;
  // Since the boot.
  std::uint64_t violations = 0;
  std::uint64_t resets = 0;
  friend bool operator==(const FunctionStatistics&, const FunctionStatistics&) = default;
};

struct StatisticsMember {
  const char* name;
  std::uint64_t FunctionStatistics::* value;
};
// Every member but the target, in the order of the struct: names in messages, JSON and CSV.
inline constexpr std::array kStatisticsMembers{
    StatisticsMember{"time_ticks", &FunctionStatistics::time_ticks},
    StatisticsMember{"cores", &FunctionStatistics::cores},
    StatisticsMember{"card_free_bytes", &FunctionStatistics::card_free_bytes},
    StatisticsMember{"card_total_bytes", &FunctionStatistics::card_total_bytes},
    StatisticsMember{"granted_bytes", &FunctionStatistics::granted_bytes},
    StatisticsMember{"quota_bytes", &FunctionStatistics::quota_bytes},
    StatisticsMember{"completed", &FunctionStatistics::completed},
    StatisticsMember{"rejected", &FunctionStatistics::rejected},
    StatisticsMember{"failed", &FunctionStatistics::failed},
    StatisticsMember{"aborted", &FunctionStatistics::aborted},
    StatisticsMember{"launches", &FunctionStatistics::launches},
    StatisticsMember{"kernel_ticks", &FunctionStatistics::kernel_ticks},
    StatisticsMember{"bytes_to_device", &FunctionStatistics::bytes_to_device},
    StatisticsMember{"bytes_from_device", &FunctionStatistics::bytes_from_device},
    StatisticsMember{"bytes_on_device", &FunctionStatistics::bytes_on_device},
    StatisticsMember{"doorbells_signalled", &FunctionStatistics::doorbells_signalled},
    StatisticsMember{"ring_violations", &FunctionStatistics::ring_violations},
    StatisticsMember{"violations", &FunctionStatistics::violations},
    StatisticsMember{"resets", &FunctionStatistics::resets},
};

// Part of the cores' time, 0 … 1, that kernels of the function had between two answers. 0 when they are not in order,
// or the function was reset in between.
constexpr double core_utilisation(const FunctionStatistics& before, const FunctionStatistics& after) {
  const bool in_order = after.time_ticks > before.time_ticks && after.kernel_ticks >= before.kernel_ticks;
  if (!in_order || after.cores == 0 || after.resets != before.resets) return 0;
  const double had = static_cast<double>(after.kernel_ticks - before.kernel_ticks);
  const double there = static_cast<double>((after.time_ticks - before.time_ticks) * after.cores);
  return had < there ? had / there : 1;
}

}  // namespace svp
