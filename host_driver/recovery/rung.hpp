// SPDX-License-Identifier: Apache-2.0
// The ladder of resets (faults.md, protocol §9). What each rung leaves behind: docs/recovery.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace svp {

// Numbers never change meaning. Each rung resets everything that the rung below it does, and more.
enum class Rung : std::uint8_t {
  Stream = 0,      // STREAM_RESET: one stream
  Queue = 1,       // RESET_VQUEUE of the control blocks: all streams of a function
  Function = 2,    // status 0, or FUNCTION_RESET by M: one function (FLR)
  Firmware = 3,    // the firmware restarts: all functions
  Card = 4,        // system_reset: the same from reset, with all devices of the machine
  PowerCycle = 5,  // a new emulator: nothing survives
  Wedged = 6,      // the end of the ladder: every call fails at once
};
inline constexpr unsigned kRungs = 7;

constexpr std::string_view name(Rung rung) {
  constexpr std::array<std::string_view, kRungs> kNames{
      "stream reset", "queue reset", "function reset", "firmware restart", "card reset", "power cycle", "wedged"};
  const auto index = static_cast<unsigned>(rung);
  return index < kRungs ? kNames[index] : std::string_view("unknown rung");
}

// Where to go when a rung has failed. Wedged is the last.
constexpr Rung above(Rung rung) {
  return rung == Rung::Wedged ? rung : static_cast<Rung>(static_cast<unsigned>(rung) + 1);
}

// "stream reset" → Rung::Stream; nothing for any other text.
constexpr std::optional<Rung> rung_named(std::string_view text) {
  for (unsigned i = 0; i < kRungs; ++i) {
    if (name(static_cast<Rung>(i)) == text) return static_cast<Rung>(i);
  }
  return std::nullopt;
}

}  // namespace svp
