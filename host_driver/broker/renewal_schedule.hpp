// SPDX-License-Identifier: Apache-2.0
// When windows are renewed. To plug or to unplug one keeps the emulator busy for milliseconds, in which it has no time
// for an owner that is just attaching: what can wait begins a little later, but not for ever.
#pragma once

#include <chrono>
#include <optional>

#include "host_driver/broker/timeouts.hpp"

namespace svp {

class RenewalSchedule {
 public:
  using Clock = std::chrono::steady_clock;

  // A client has come, or has been given a function: it brings it up now. Times do not go back.
  void attaching(Clock::time_point now) { until_ = now + kBringUpTakes; }

  // What is due may begin now; or when to ask again. `urgent`: a function or an owner waits for it.
  std::optional<Clock::time_point> put_off(Clock::time_point now, bool urgent) {
    const bool asked_before = until_ == counted_;
    if (urgent || now >= until_ || (!asked_before && in_a_row_ >= kMostPutOffs)) {
      in_a_row_ = 0;
      return std::nullopt;
    }
    if (!asked_before) ++in_a_row_;
    counted_ = until_;
    return until_;
  }

 private:
  Clock::time_point until_{};
  Clock::time_point counted_{};  // the last one that something was put off to
  unsigned in_a_row_ = 0;
};

}  // namespace svp
