// SPDX-License-Identifier: Apache-2.0
// When hart 0 beats. Reading the clock costs as much as a whole empty iteration, so it is read only every so many
// iterations, and at once when work has read it already and it was time. Hart 0 only.
#pragma once

#include <cstdint>

#include "shared/timeouts.hpp"
#include "shared/units.hpp"

namespace fw {

class Heartbeat {
 public:
  // Restarts before a boot that was as long as this (1 s) do not count against the next one.
  static constexpr std::uint64_t kBeatsOfAGoodBoot = wire::kTicksPerSecond / wire::kHeartbeatTicks;

  // The next one is due at `ticks`.
  void start(std::uint64_t ticks) { next_ = ticks; }
  // Once between any two things that hart 0 does. True: look at the clock.
  bool look() {
    if (++iterations_since_look_ < kIterationsPerLook && stepped_at_ < next_) return false;
    iterations_since_look_ = 0;
    return true;
  }
  // True: it beats.
  bool due(std::uint64_t now) {
    if (now < next_) return false;
    next_ = now + wire::kHeartbeatTicks;
    ++beats_;
    return true;
  }
  std::uint64_t beats() const { return beats_; }

  // A step of a transfer or a launch ended then.
  void stepped(std::uint64_t now) { stepped_at_ = now; }
  std::uint64_t stepped_at() const { return stepped_at_; }
  // Work that took as long as so many empty iterations and a look at the clock each …
  void count_iterations(std::uint64_t count) { iterations_since_look_ += static_cast<unsigned>(count); }
  // … or longer than anybody knows: a slice or a sleep. It is looked at next.
  void look_next() { iterations_since_look_ = kIterationsPerLook; }

 private:
  static constexpr unsigned kIterationsPerLook = 32;

  std::uint64_t next_ = 0;
  std::uint64_t beats_ = 0;
  std::uint64_t stepped_at_ = 0;  // device ticks
  unsigned iterations_since_look_ = 0;
};

}  // namespace fw
