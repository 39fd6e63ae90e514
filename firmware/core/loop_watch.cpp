// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/loop_watch.hpp"

#include <algorithm>

#include "firmware/core/card.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

namespace {

// Without timers only a doorbell ends its sleep: that may take as long as it likes.
bool may_rest(const Card& card) { return !card.options.timers && hal::waypoint_of(0) == wire::Waypoint::Sleep; }

}  // namespace

bool LoopWatch::stands_still(const Card& card, std::uint64_t now) {
  if (now < next_tick_ || card.options.loop_watchdog_ms == 0 || mutated(Mutant::LoopWatch)) return false;
  next_tick_ = now + kTicks;
  const std::uint32_t iterations = card.plan.iterations();
  const bool advanced = iterations != iterations_;
  iterations_ = iterations;
  still_ = advanced || may_rest(card) ? 0 : still_ + 1;
  return still_ >= std::max(card.options.loop_watchdog_ms / kTickMs, kFewestTicks);
}

}  // namespace fw
