// SPDX-License-Identifier: Apache-2.0
// The clock of waits for a card that a debugger may hold: it stands still while no hart runs.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

namespace svp {

// So many looks in a bound that such a clock measures.
inline constexpr int kLooksAtDebugger = 20;

// One thread.
class RunningClock {
 public:
  using Clock = std::chrono::steady_clock;

  // `held`: whether a debugger holds the card now; asked once in a `look` at most. Empty: nobody can.
  void watch(std::function<bool()> held, Clock::duration look) {
    held_ = std::move(held);
    look_ = look;
    looked_ = Clock::now();
  }

  // Between two looks of which one found the card held, no time has passed.
  Clock::time_point now() {
    const auto now = Clock::now();
    if (held_ && now - looked_ >= look_) {
      const bool held = held_();
      if (held || held_before_) stopped_ += now - looked_;
      held_before_ = held;
      looked_ = now;
    }
    return now - stopped_;
  }

 private:
  std::function<bool()> held_{};
  Clock::duration look_{};
  Clock::time_point looked_{};
  Clock::duration stopped_{};
  bool held_before_ = false;
};

}  // namespace svp
