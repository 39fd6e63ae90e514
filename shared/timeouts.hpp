// SPDX-License-Identifier: Apache-2.0
// The times that card and driver have agreed on, in device ticks. Whatever else bounds a wait stands in the
// timeouts.hpp of its layer (tests: bounds.hpp), with its reason; scripts/check-waits refuses a bound from anywhere
// else.
#pragma once

#include <cstdint>

#include "shared/units.hpp"

namespace wire {

inline constexpr std::uint64_t kTicksPerMillisecond = 1000 * kTicksPerMicrosecond;

// The heartbeat increments at least this often while the card is alive (protocol §8); a card that has nothing to do
// wakes for it, which costs 200 wake-ups a second.
inline constexpr std::uint64_t kHeartbeatTicks = 5 * kTicksPerMillisecond;

// A self-test holds hart 0 for so long at most: long enough for a million round trips of a benchmark, short enough that
// the driver does not report a silent card before it is over (Timeouts::silent counts only while work is outstanding).
inline constexpr std::uint64_t kSelfTestTicks = 2 * kTicksPerSecond;

}  // namespace wire
