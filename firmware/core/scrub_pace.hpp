// SPDX-License-Identifier: Apache-2.0
// Scrubbing goes on beside everything else. When nobody wants anything, in steps of about 1 µs at emulated fill speed,
// as long as a round trip: whoever plays ping-pong with the card hardly notices. While others are busy it gets an
// eighth of hart 0's time, and half of it while somebody waits for the memory. Its share is one of time: a page that
// the machine has to find first takes a hundred times as long as one it has. Hart 0 only.
#pragma once

#include <cstdint>

namespace fw {

inline constexpr std::uint64_t kScrubStepBytes = 8 * 1024;
inline constexpr std::uint64_t kScrubStepByArrayBytes = 16 * 1024;  // the compute array's DMA engine fills faster
inline constexpr std::uint64_t kScrubBesideWorkBytes = 64 * 1024;
inline constexpr std::uint64_t kWorkPerScrub = 7;

class ScrubPace {
 public:
  // An acquire waits for memory that is not clean yet; who goes on waiting says so again.
  void hurry() { wanted_ = true; }
  // Whether there is time for a step beside work.
  bool due(std::uint64_t now) const { return now - ended_ >= took_ * (wanted_ ? 1 : kWorkPerScrub); }
  void stepped(std::uint64_t began, std::uint64_t ended) {
    wanted_ = false;
    ended_ = ended;
    took_ = ended - began;
  }

 private:
  bool wanted_ = false;
  std::uint64_t ended_ = 0;  // device ticks: the last step beside work …
  std::uint64_t took_ = 0;   // … and how long
};

}  // namespace fw
