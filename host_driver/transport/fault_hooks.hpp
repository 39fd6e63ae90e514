// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace flex {

// Faults that the driver itself can be told to commit: what a scenario injects, and what tests prove bounds with.
// Disarmed they cost one predictable branch where a bell is rung or heard.
struct FaultHooks {
  double drop_bells_to_card = 0;    // probability in [0, 1] that a bell is not rung
  double drop_bells_from_card = 0;  // probability that a heard bell is ignored
  std::uint64_t seed = 1;           // of both
  bool no_spinning = false;         // every wait sleeps at once
  bool no_timers = false;           // sleeps end by a bell, the card's death or the caller's deadline only
};

}  // namespace flex
