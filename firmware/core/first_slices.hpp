// SPDX-License-Identifier: Apache-2.0
// First slices that run where their launches are started, inside of an iteration of hart 0's loop: what a launch costs
// between two slices (a ticket, a place in the list of ended launches, an iteration) is more than most kernels of tests
// take. Bounded: a ring waits for them as long as for one slice, and while several functions are busy, as for a
// quantum.
#pragma once

#include <algorithm>
#include <cstdint>

#include "firmware/core/timeouts.hpp"

namespace fw {

class FirstSlices {
 public:
  // For a card whose loop runs. Iterations without it run no kernels: tests that play the cores by hand rely on it.
  void allow(bool on) { allowed_ = on; }
  bool allowed() const { return allowed_; }

  // A function's quantum begins.
  void begin_quantum() { left_ = kAll; }
  // Device ticks that the next one may have, of `most` in a quantum.
  std::uint64_t left(std::uint64_t most) { return left_ = std::min(left_, most); }
  // One has run, behind left(). False: the quantum has no time for another one.
  bool ran(std::uint64_t ticks) {
    left_ -= ticks < left_ ? ticks : left_;
    return left_ != 0;
  }

 private:
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};
  bool allowed_ = false;
  std::uint64_t left_ = kAll;
};

}  // namespace fw
