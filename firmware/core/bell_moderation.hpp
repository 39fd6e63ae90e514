// SPDX-License-Identifier: Apache-2.0
// Bells that ring a kernel out of hart 0, and find nothing to do. One costs the kernel 25 µs and more, rings nobody but
// the kernel's owner out of work, and anybody who has a bell can ring it without end. So after a few of them in a row the
// next slices do not hear bells: they end by the clock, soon enough for whoever has rung for a reason. What is polled is
// the rings, which tell the truth (protocol §8: a bell is only a hint).
#pragma once

#include <algorithm>
#include <cstdint>

#include "firmware/core/timeouts.hpp"

namespace fw {

// A driver whose bell comes late, for a block that the loop has found already, rings once or twice for nothing.
inline constexpr unsigned kHollowBells = 4;
// Slices without bells before one listens again: what that costs under a flood is shared by so many.
inline constexpr unsigned kDeafSlices = 8;

class BellModeration {
 public:
  // Of the slice that comes next.
  bool deaf() const { return deaf_slices_ != 0; }
  // Device ticks that the next slice may have: nobody waits longer than that for a bell that is not heard.
  std::uint64_t slice(std::uint64_t wanted) const { return deaf() ? std::min(wanted, kDeafSliceTicks) : wanted; }

  // A slice has ended; `rung`: by a bell or a wake. True: it was deaf, so anybody may have rung since.
  bool slice_ended(bool rung) {
    if (deaf()) {
      --deaf_slices_;
      return true;
    }
    rung_ = rung;
    if (!rung) hollow_ = 0;
    return false;
  }
  // A turn has looked at the rings; `found`: there was something.
  void turn_ended(bool found) {
    const bool was_rung = rung_;
    rung_ = false;
    if (!was_rung || found || ++hollow_ < kHollowBells) return;
    hollow_ = kHollowBells - 1;  // one more is enough the next time
    deaf_slices_ = kDeafSlices;
  }

 private:
  unsigned hollow_ = 0;  // in a row, but for those that found something
  unsigned deaf_slices_ = 0;
  bool rung_ = false;
};

}  // namespace fw
