// SPDX-License-Identifier: Apache-2.0
// The reset escalation, and what each reset level leaves: docs/recovery.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace svp {

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

}  // namespace svp
