// SPDX-License-Identifier: Apache-2.0
// First slices that run where their launches are started, inside of an iteration of hart 0's loop: what a launch costs
// between two slices (a ticket, a place in the list of ended launches, an iteration) is more than most kernels of tests
// take. Bounded: a ring waits for them as long as for one slice.
#pragma once

#include <cstdint>

#include "firmware/core/timeouts.hpp"

namespace fw {

class FirstSlices {
 public:
  // For a card whose loop runs. Iterations without it run no kernels: tests that play the cores by hand rely on it.
  void allow(bool on) { allowed_ = on; }
  bool allowed() const { return allowed_; }

  // Device ticks that the next one may have.
  std::uint64_t left(std::uint32_t iteration) {
    if (iteration != iteration_) {
      iteration_ = iteration;
      left_ = kFirstSliceTicks;
    }
    return left_;
  }
  // One has run, behind left(). False: the iteration has no time for another one.
  bool ran(std::uint64_t ticks) {
    left_ -= ticks < left_ ? ticks : left_;
    return left_ != 0;
  }

 private:
  bool allowed_ = false;
  std::uint32_t iteration_ = 0;
  std::uint64_t left_ = kFirstSliceTicks;
};

}  // namespace fw
