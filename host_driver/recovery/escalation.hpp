// SPDX-License-Identifier: Apache-2.0
// Escalation: one reset level after the other until one helps. What a reset level does is the caller's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/recovery/reset_level.hpp"

namespace svp {

using spyre::describe;
using spyre::LevelAttempt;
using spyre::RecoveryReport;

// Runs `operation` for `from`, then for each reset level above up to `highest`, until it succeeds, or is refused as
// busy (busy.hpp): then nothing was done, and a higher reset level would destroy what works. `operation` bounds itself
// by the reset level's budget (Timeouts). The error of an escalation that failed lists every reset level with its
// error; its outcome is that of the last one.
Expected<RecoveryReport> escalate(ResetLevel from, ResetLevel highest,
                                  const std::function<Expected<void>(ResetLevel)>& operation);

// N deaths in T mean that power cycles do not help: wedged, for good. Not thread-safe.
class DeathCount {
 public:
  using Clock = std::chrono::steady_clock;

  DeathCount(unsigned deaths, std::chrono::nanoseconds within) : deaths_(deaths), within_(within) {}

  // The card died, or had to be power-cycled because nothing else helped. True: it is wedged now.
  bool note(Clock::time_point when);
  bool wedged() const { return wedged_; }
  unsigned limit() const { return deaths_; }
  std::chrono::nanoseconds within() const { return within_; }

 private:
  const unsigned deaths_;
  const std::chrono::nanoseconds within_;
  std::vector<Clock::time_point> recent_;
  bool wedged_ = false;
};

// The error of every call on a wedged card.
ErrorInfo wedged_error(const std::string& card, const DeathCount& deaths);

// Measures whether a card that should be coming up moves: the budget of a reset level is spent by heartbeats that the
// card delivers while it does not get there, and by silence, never by wall time alone: a slow machine delivers both
// late.
class ProgressBudget {
 public:
  using Clock = std::chrono::steady_clock;

  // `beats`: so many heartbeats may pass. `silence`: so long nothing may move.
  ProgressBudget(std::uint64_t beats, std::chrono::nanoseconds silence, Clock::time_point now)
      : beats_(beats), silence_(silence), moved_(now) {}

  // `heartbeat` and `progress` (POST code, boot epoch: anything else that moves) as the card shows them now. False:
  // spent.
  bool look(std::uint64_t heartbeat, std::uint64_t progress, Clock::time_point now);

 private:
  std::uint64_t beats_;
  std::chrono::nanoseconds silence_;
  Clock::time_point moved_;
  std::uint64_t counted_ = 0;
  std::optional<std::uint64_t> heartbeat_{};
  std::uint64_t progress_ = 0;
};

}  // namespace svp
