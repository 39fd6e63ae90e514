// SPDX-License-Identifier: Apache-2.0
// Words that the card understands on its boot command line (/chosen/bootargs). Unknown words and bad values are a boot
// failure with POST code Failed, never ignored: a typo must not boot a different card.
#pragma once

#include <string_view>

namespace wire::boot {

inline constexpr std::string_view kVirtualFunctions = "vfs";        // 0 … 16; default 4
inline constexpr std::string_view kSelfTest = "selftest";           // 0 or 1: run the boot self-test
inline constexpr std::string_view kMapAll = "mapall";               // 0 or 1: map every slot, also the unbound ones
inline constexpr std::string_view kMemoryBudgetMiB = "budget_mib";  // populated-memory budget; 0 = none
inline constexpr std::string_view kQuotaMiB = "quota_mib";          // region memory of each VF at a time; 0 = no quota
inline constexpr std::string_view kSoleFunction =
    "sole";  // target of the only function with a guaranteed share of memory; 0 = every function has one (default)
inline constexpr std::string_view kWatchdogSlices = "watchdog";  // default kernel budget in 1 ms slices
inline constexpr std::string_view kTimers = "timers";            // 0: no idle timer (tests that wake-ups alone suffice)
inline constexpr std::string_view kOnPanic = "on_panic";  // 0: end the emulator (exit code 70); 1: restart (default)
inline constexpr std::string_view kStreamTimeouts = "strikes";  // a stream's time-outs before it is banned; 0 = never
inline constexpr std::string_view kStopAt = "stop_at";  // fault injection: boot stops for ever behind this POST code
inline constexpr std::string_view kMutant = "mutant";   // mutant firmware only: the check that is left out
inline constexpr std::string_view kMutantStatus = "mutant_status";  // likewise: only where it finds this status
inline constexpr std::string_view kLoopWatchdogMs =
    "loop_watchdog_ms";  // hart 0 may stand still for so long before another hart restarts the firmware; 0: for ever
inline constexpr unsigned kMaxVirtualFunctions = 16;

}  // namespace wire::boot
