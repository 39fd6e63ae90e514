// SPDX-License-Identifier: Apache-2.0
// The reset escalation: its levels, what a context does by itself when something fails, and the report of a recovery.
// What each level leaves behind: docs/recovery.md.
#pragma once

#include <spyre/export.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <spyre/error.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace spyre::inline v0 {

// Numbers never change meaning. Each reset level resets everything that the reset level below it does, and more.
enum class ResetLevel : std::uint8_t {
  Stream = 0,      // STREAM_RESET: one stream
  Queue = 1,       // RESET_VQUEUE of the control blocks: all streams of a function
  Function = 2,    // status 0, or FUNCTION_RESET by M: one function (FLR)
  Firmware = 3,    // the firmware restarts: all functions
  Card = 4,        // system_reset: the same from reset, with all devices of the machine
  PowerCycle = 5,  // a new emulator: nothing survives
  Wedged = 6,      // the end of the escalation: every call fails at once
};
inline constexpr unsigned kLevels = 7;

constexpr std::string_view name(ResetLevel level) {
  constexpr std::array<std::string_view, kLevels> kNames{
      "stream reset", "queue reset", "function reset", "firmware restart", "card reset", "power cycle", "wedged"};
  const auto index = static_cast<unsigned>(level);
  return index < kLevels ? kNames[index] : std::string_view("unknown reset level");
}

// Where to go when a reset level has failed. Wedged is the last.
constexpr ResetLevel above(ResetLevel level) {
  return level == ResetLevel::Wedged ? level : static_cast<ResetLevel>(static_cast<unsigned>(level) + 1);
}

// "stream reset" → ResetLevel::Stream; nothing for any other text.
constexpr std::optional<ResetLevel> level_named(std::string_view text) {
  for (unsigned i = 0; i < kLevels; ++i) {
    if (name(static_cast<ResetLevel>(i)) == text) return static_cast<ResetLevel>(i);
  }
  return std::nullopt;
}

enum class RecoveryPolicy : std::uint8_t {
  // Every error is told, again and again, until Reset() or recover() is called.
  Manual,
  // The next Launch, Query or Synchronize on a stream that failed recovers first, from the lowest reset level on.
  // Launches that ended ABORTED (no block of them had started) are sent again at the stream reset level, in order; what
  // was started never is, nor what reads bytes that a launch which failed or was removed would have written
  // (docs/recovery.md), nor what stands behind a wait for an event that failed. The error that made it necessary is
  // thrown once, by the next Synchronize.
  Recover,
  // The first failure of a stream stops all: every stream refuses with that error until recover().
  FailFast,
};

constexpr std::string_view name(RecoveryPolicy policy) {
  switch (policy) {
    case RecoveryPolicy::Manual: return "manual";
    case RecoveryPolicy::Recover: return "recover";
    case RecoveryPolicy::FailFast: return "fail fast";
  }
  return "unknown policy";
}

struct RecoveryOptions {
  RecoveryPolicy policy = RecoveryPolicy::Manual;
  // The last reset level that may be tried. Empty: what the device's source suggests (an embedded card: the power
  // cycle; a function of a card that others use: the function reset).
  std::optional<ResetLevel> highest{};
};

struct LevelAttempt {
  ResetLevel level = ResetLevel::Stream;
  std::chrono::nanoseconds took{};
  std::optional<ErrorInfo> error{};  // empty: it helped
};

// What was tried, in order; only the last attempt helped.
struct SPYRE_API RecoveryReport {
  std::vector<LevelAttempt> attempts{};
  // Launches that the recovery ended: those that never started, and those of which that is not known or not true. Their
  // waiters and observers were told as well.
  std::uint64_t aborted = 0;
  std::uint64_t lost = 0;

  ResetLevel level() const { return attempts.empty() ? ResetLevel::Stream : attempts.back().level; }
  std::chrono::nanoseconds took() const;
};

// One line for people: "stream reset failed after 10000.0 ms (…); function reset helped after 0.4 ms".
SPYRE_API std::string describe(const RecoveryReport& report);

}  // namespace spyre::inline v0
