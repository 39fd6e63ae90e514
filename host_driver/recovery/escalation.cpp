// SPDX-License-Identifier: Apache-2.0
#include "host_driver/recovery/escalation.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "host_driver/base/mutants.hpp"
#include "host_driver/recovery/busy.hpp"

namespace svp {

namespace {

std::string milliseconds(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", std::chrono::duration<double, std::milli>(time).count());
  return text;
}

std::string text_of(const std::vector<LevelAttempt>& attempts) {
  std::string text;
  for (const LevelAttempt& attempt : attempts) {
    if (!text.empty()) text += "; ";
    text += std::string(name(attempt.level)) + (attempt.error ? " failed after " : " helped after ") +
            milliseconds(attempt.took);
    if (attempt.error) text += " (" + attempt.error->message + ")";
  }
  return text;
}

// What is left to do by hand after the last reset level that may be tried.
std::string next_after(ResetLevel highest, const ErrorInfo& last) {
  if (highest >= ResetLevel::PowerCycle) return last.next_step.empty() ? "start a new card" : last.next_step;
  return "allow a higher reset level (" + std::string(name(above(highest))) + "), or reset the card (spyre reset)";
}

// Another command is in the way, and it ends by itself.
ErrorInfo busy_error(const std::vector<LevelAttempt>& attempts) {
  ErrorInfo error = *attempts.back().error;
  error.message = text_of(attempts);
  return error;
}

}  // namespace

Expected<RecoveryReport> escalate(ResetLevel from, ResetLevel highest,
                                  const std::function<Expected<void>(ResetLevel)>& operation) {
  using Clock = std::chrono::steady_clock;
  RecoveryReport report;
  for (ResetLevel level = from; level <= highest && level != ResetLevel::Wedged; level = above(level)) {
    const auto begin = Clock::now();
    auto done = operation(level);
    LevelAttempt& attempt = report.attempts.emplace_back(LevelAttempt{level, Clock::now() - begin, std::nullopt});
    if (done) return report;
    attempt.error = std::move(done.error());
    if (mutated(HostMutant::NextLevel)) break;
    if (refused_as_busy(*attempt.error)) return std::unexpected(busy_error(report.attempts));
  }
  if (report.attempts.empty()) {
    return std::unexpected(ErrorInfo{.layer = Layer::Driver,
                                     .source = "recovery",
                                     .outcome = wire::Outcome::Rejected,
                                     .recoverable = true,
                                     .next_step = "allow a higher reset level",
                                     .message = "a recovery that begins with " + std::string(name(from)) +
                                                " may go no higher than " + std::string(name(highest))});
  }
  const ErrorInfo& last = *report.attempts.back().error;
  return std::unexpected(ErrorInfo{.layer = last.layer,
                                   .source = last.source,
                                   .outcome = last.outcome,
                                   .recoverable = highest < ResetLevel::PowerCycle,
                                   .next_step = next_after(highest, last),
                                   .message = "no reset level helped: " + text_of(report.attempts)});
}

bool DeathCount::note(Clock::time_point when) {
  std::erase_if(recent_, [&](Clock::time_point then) { return when - then > within_; });
  recent_.push_back(when);
  wedged_ |= recent_.size() >= deaths_ && !mutated(HostMutant::Wedged);
  return wedged_;
}

ErrorInfo wedged_error(const std::string& card, const DeathCount& deaths) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(deaths.within()).count();
  return {.layer = Layer::Emulator,
          .source = card,
          .outcome = wire::Outcome::Lost,
          .recoverable = false,
          .next_step = "read the card's console and record, then start a new card",
          .message = card + " is wedged: it died " + std::to_string(deaths.limit()) + " times in " +
                     std::to_string(seconds) + " s"};
}

bool ProgressBudget::look(std::uint64_t heartbeat, std::uint64_t progress, Clock::time_point now) {
  const bool first = !heartbeat_;
  if (!first && *heartbeat_ != heartbeat) ++counted_;
  if (first || *heartbeat_ != heartbeat || progress_ != progress) moved_ = now;
  heartbeat_ = heartbeat;
  progress_ = progress;
  return counted_ < beats_ && now - moved_ < silence_;
}

}  // namespace svp

namespace spyre::inline v0 {

std::chrono::nanoseconds RecoveryReport::took() const {
  std::chrono::nanoseconds sum{};
  for (const LevelAttempt& attempt : attempts) sum += attempt.took;
  return sum;
}

std::string describe(const RecoveryReport& report) { return svp::text_of(report.attempts); }

}  // namespace spyre::inline v0
