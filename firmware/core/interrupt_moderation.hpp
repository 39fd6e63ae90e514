// SPDX-License-Identifier: Apache-2.0
// Doorbells that ring a kernel out of hart 0, and find nothing to do. One costs the kernel 25 µs and more, rings nobody
// but the kernel's owner out of work, and anybody who has a doorbell can ring it without end. So after a few of them in
// a row the next slices are not ended by doorbells: they end by the clock, soon enough for whoever signalled for a
// reason. What is polled is the rings, which tell the truth (protocol §8: a doorbell is only a hint).
#pragma once

#include <algorithm>
#include <cstdint>

#include "firmware/core/timeouts.hpp"

namespace fw {

// A driver whose doorbell comes late, for a block that the loop has found already, rings once or twice for nothing.
inline constexpr unsigned kSpuriousDoorbells = 4;
// Slices without doorbells before one listens again: what that costs under a flood is shared by so many.
inline constexpr unsigned kMaskedSlices = 8;

class InterruptModeration {
 public:
  // Of the slice that comes next.
  bool masked() const { return masked_slices_ != 0; }
  // Device ticks that the next slice may have: nobody waits longer than that for a doorbell that is masked.
  std::uint64_t slice(std::uint64_t wanted) const { return masked() ? std::min(wanted, kMaskedSliceTicks) : wanted; }

  // A slice has ended; `reset signalled`: by a doorbell or a wake. True: it was masked, so anybody may have signalled
  // since.
  bool slice_ended(bool signalled) {
    if (masked()) {
      --masked_slices_;
      return true;
    }
    slice_ended(signalled, 1);
    return false;
  }
  // The same inside of an iteration, which has looked at the rings before: the next one judges the doorbell. Not while
  // masked().
  void slice_inside_ended(bool signalled) { slice_ended(signalled, 2); }
  // An iteration has looked at the rings; `found`: there was something.
  void iteration_ended(bool found) {
    if (looks_until_judged_ == 0) return;
    --looks_until_judged_;
    if (looks_until_judged_ != 0 || found) return;
    if (++spurious_ < kSpuriousDoorbells) return;
    spurious_ = kSpuriousDoorbells - 1;  // one more is enough the next time
    masked_slices_ = kMaskedSlices;
  }

 private:
  void slice_ended(bool signalled, unsigned looks) {
    if (signalled) {
      looks_until_judged_ = looks;
    } else if (looks_until_judged_ == 0) {
      spurious_ = 0;
    }
  }

  unsigned spurious_ = 0;  // in a row, but for those that found something
  unsigned masked_slices_ = 0;
  unsigned looks_until_judged_ = 0;  // iterations until the doorbell that ended the last slice is; 0: none did
};

}  // namespace fw
