// SPDX-License-Identifier: Apache-2.0
// States of the card as its record tells them (RecordedEventKind::StateChanged). Numbers are places in these lists:
// append only. What changes one state into another is the firmware's own matter (docs/states-firmware.md).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace wire {

enum class RecordedMachine : std::uint8_t { Card = 1, FunctionReset = 2, Stream = 3 };

inline constexpr std::array<std::string_view, 9> kCardStateNames{
    "off", "memory", "region pool", "slots", "cores", "functions", "self-test", "ready", "failed"};
inline constexpr std::array<std::string_view, 4> kResetStateNames{"none", "of a queue", "stopping", "released"};
inline constexpr std::array<std::string_view, 5> kStreamStateNames{"closed", "open", "poisoned", "resetting",
                                                                   "closing"};

constexpr std::string_view state_name(RecordedMachine machine, unsigned state) {
  constexpr std::string_view kUnknown = "unknown state";
  switch (machine) {
    case RecordedMachine::Card: return state < kCardStateNames.size() ? kCardStateNames[state] : kUnknown;
    case RecordedMachine::FunctionReset: return state < kResetStateNames.size() ? kResetStateNames[state] : kUnknown;
    case RecordedMachine::Stream: return state < kStreamStateNames.size() ? kStreamStateNames[state] : kUnknown;
  }
  return kUnknown;
}

// `a` of such an event; `b` is the function, the stream above it.
struct RecordedChange {
  RecordedMachine machine;
  std::uint8_t from;
  std::uint8_t to;

  constexpr std::uint32_t pack() const { return static_cast<std::uint32_t>(machine) | from << 8 | to << 16; }
  static constexpr RecordedChange unpack(std::uint32_t a) {
    return {static_cast<RecordedMachine>(a & 0xff), static_cast<std::uint8_t>(a >> 8),
            static_cast<std::uint8_t>(a >> 16)};
  }
};

}  // namespace wire
