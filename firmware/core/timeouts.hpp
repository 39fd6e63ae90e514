// SPDX-License-Identifier: Apache-2.0
// The firmware's bounds, in device ticks, each with its reason.
#pragma once

#include <cstdint>

#include "shared/timeouts.hpp"
#include "shared/units.hpp"

namespace fw {

// The timer is armed once per first slice and serves the launches that follow in it; arming it wakes the emulator's
// main loop. 50 µs cost an empty kernel a quarter of its rate; 200 µs is what a ring may wait for at most meanwhile.
inline constexpr std::uint64_t kFirstSliceTicks = 200 * wire::kTicksPerMicrosecond;

// A slice that is run between two iterations while several functions are busy is as long as a quantum of one of them
// took, within these: to enter, to leave and to arm the timer takes about 3 µs, and a quantum of two steps of a
// transfer about 150 (one that seems to take longer was interrupted by the machine that emulates us).
inline constexpr std::uint64_t kShortestSharedTicks = 20 * wire::kTicksPerMicrosecond;
inline constexpr std::uint64_t kLongestSharedTicks = 200 * wire::kTicksPerMicrosecond;

// Slices of a hart that has stopped listening to doorbells (firmware/core/interrupt_moderation.hpp): as long as the
// longest that a ring may wait for anyway.
inline constexpr std::uint64_t kMaskedSliceTicks = kLongestSharedTicks;

// A kernel is left alone for so long: the unit of its budget (protocol §7), and what a reset waits for at most.
inline constexpr std::uint64_t kSliceTicks = wire::kTicksPerMillisecond;

// While others are busy a function's quantum is over after this time (times its weight) as well as after its bytes:
// bytes that are in no cache take four times as long as those that are, and everybody else would wait for them.
inline constexpr std::uint64_t kQuantumTicks = 60 * wire::kTicksPerMicrosecond;

// With nobody else busy as well, for the heartbeat: from the first step that costs bytes on. Checksums of transfers and
// of images are what takes so long; a quantum of plain copies is over by its bytes.
inline constexpr std::uint64_t kUncontendedQuantumTicks = wire::kTicksPerMillisecond;

// To reset a function that was at work and to bring it up again costs everybody about half a millisecond of hart 0:
// twenty messages, each with a doorbell. So a function may have so many resets in a row, and from then on, while other
// functions are at work, each is answered that much later.
inline constexpr std::uint64_t kResetTicks = 50 * wire::kTicksPerMillisecond;
inline constexpr std::uint64_t kResetsInARow = 4;

// Bounds the sleep of a core whose wake-up went astray; wake-ups are stores, so this is a second line only.
inline constexpr std::uint64_t kCoreNapTicks = 50 * wire::kTicksPerMillisecond;

// The native board's "for ever" ends as well: a test whose doorbell was lost must fail by its own check, not hang.
inline constexpr std::uint64_t kLongestNativeSleepTicks = 10 * wire::kTicksPerSecond;

}  // namespace fw
