// SPDX-License-Identifier: Apache-2.0
// The probe's bounds, in device ticks, each with its reason.
#pragma once

#include <cstdint>

#include "shared/units.hpp"

namespace probe {

// The host's answer by memory and doorbell, on a machine that runs many emulators at a time; less than the host's own
// bound on the probe (test_bounds::kProbe), so that the probe says itself what was missing.
inline constexpr std::uint64_t kHostAnswerTicks = 10 * wire::kTicksPerSecond;
// Another hart's answer: its slice, and twenty thousand times what a wake-up takes.
inline constexpr std::uint64_t kHelperAnswerTicks = 20 * wire::kTicksPerSecond;
// The helper's sleep between two looks for an order. An order wakes it; it does not wake by itself while a probe
// records that it sleeps.
inline constexpr std::uint64_t kHelperIdleTicks = kHelperAnswerTicks;
// Its caller's between two looks for the answer.
inline constexpr std::uint64_t kHelperCheckTicks = 10 * wire::kTicksPerMicrosecond;

}  // namespace probe
