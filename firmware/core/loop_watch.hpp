// SPDX-License-Identifier: Apache-2.0
// Hart 0's loop serves everybody and nobody interrupts it; the other harts notice when it stands still. What is counted
// are ticks that the watching hart was given, not time alone: on a machine that gives the card no time neither moves.
// With one hart only the host notices (heartbeat).
#pragma once

#include <cstdint>

#include "shared/units.hpp"

namespace fw {

class Card;

class LoopWatch {
 public:
  static constexpr std::uint64_t kTickMs = 50;
  static constexpr std::uint64_t kTicks = kTickMs * 1000 * wire::kTicksPerMicrosecond;
  // However short the limit is: one long iteration beside a watcher that was given more is no stand-still.
  static constexpr std::uint64_t kFewestTicks = 4;

  // One look. True when the loop has not advanced during as many ticks as boot word loop_watchdog_ms allows.
  bool stands_still(const Card& card, std::uint64_t now);

 private:
  std::uint32_t iterations_ = 0;
  std::uint64_t still_ = 0;  // ticks
  std::uint64_t next_tick_ = 0;
};

}  // namespace fw
