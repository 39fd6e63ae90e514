// SPDX-License-Identifier: Apache-2.0
// A card that begins another lifetime under its broker: by itself (its firmware restarted), or because M does not get
// an answer any more and the reset is escalated. Owners keep their slots through both, see the new boot epoch in their
// windows and attach again; only a power cycle takes their functions away.
#include <algorithm>
#include <utility>

#include "host_driver/broker/broker_impl.hpp"

namespace svp {

// ---- a restart that nobody ordered ----------------------------------------------------------------------------------

void Broker::Impl::schedule_look() {
  look_timer = loop->run_at(Clock::now() + timeouts().broker_look, [this] {
    look();
    schedule_look();
  });
}

void Broker::Impl::look() {
  if (in(CardPhase::Running) && session && session->restarted()) begin_attach_again();
}

std::vector<Binding> Broker::Impl::bindings() const {
  std::vector<Binding> known;
  for (const Function& function : functions) {
    // What is being retired may have lost its slot: its retirement is repeated and finds out.
    const bool has_slot = function.phase.get() == FunctionPhase::Free || function.phase.get() == FunctionPhase::Owned;
    if (has_slot) known.push_back(function.binding);
  }
  return known;
}

void Broker::Impl::begin_attach_again() {
  set_phase(CardPhase::Recovering, "its firmware restarted");
  describe_changes("the card restarted: attaching to it again");
  const bool begun = tasks->run([this, of = lifetime, card = session,
                                 known = bindings()]() mutable -> EventLoop::Closure {
    auto now = card->attach_again(known);
    card.reset();
    return [this, of, now = std::move(now)] {
      if (of != lifetime || !in(CardPhase::Recovering)) return;
      if (now) return attached_again(*now, "the card works again after its restart");
      begin_escalation(0, ResetLevel::Card, "the card does not come back from its restart: " + now.error().message, {});
    };
  });
  if (!begun) begin_escalation(0, ResetLevel::Card, no_thread().message, {});
}

void Broker::Impl::attached_again(const std::vector<Binding>& now, const std::string& line) {
  for (const Binding& binding : now) function(binding.target).binding = binding;
  set_phase(CardPhase::Running);
  describe_changes(line);
  for (const wire::Target target : std::exchange(retire_again, {})) {
    retire(function(target), "retired again after the restart");
  }
  renew();
  serve_waiting();
}

// ---- the escalation -------------------------------------------------------------------------------------------------

bool Broker::Impl::unanswered(const ErrorInfo& error) {
  return error.outcome == wire::Outcome::Indeterminate || error.outcome == wire::Outcome::Lost ||
         error.outcome == wire::Outcome::Aborted;
}

bool Broker::Impl::retire_later(wire::Target target, std::uint64_t epoch) {
  look();
  if (in(CardPhase::Running) && session->boot_epoch() != epoch) {
    retire(function(target), "retired again after the restart");
    return true;
  }
  if (!in(CardPhase::Running) && !in(CardPhase::Recovering)) return false;
  if (function(target).phase.get() == FunctionPhase::Binding) set_phase(function(target), FunctionPhase::Retiring);
  retire_again.push_back(target);
  if (in(CardPhase::Running)) {
    begin_escalation(0, ResetLevel::Firmware, "the retirement of " + function_name(target) + " does not end", {});
  }
  return true;
}

bool Broker::Impl::note_death() { return deaths.note(Clock::now()); }

void Broker::Impl::begin_escalation(ClientId id, ResetLevel from, const std::string& why,
                                    std::vector<LevelAttempt> first) {
  RecoveryReport before{.attempts = std::move(first)};
  if (is_stopping(phase.get()) || in(CardPhase::Cycling) || in(CardPhase::Wedged)) {
    return reply_and_close(id, refusal_by_state());
  }
  if (!session || emulator == 0) return nothing_but_power(id, why, before);
  set_phase(CardPhase::Recovering, why);
  describe_changes("recovering: " + why);
  const bool begun =
      tasks->run([=, this, of = lifetime, card = session, known = bindings()]() mutable -> EventLoop::Closure {
        Expected<std::vector<Binding>> attached = std::unexpected(ErrorInfo{});
        auto report = before;
        for (ResetLevel level = from; level <= ResetLevel::Card && !attached; level = above(level)) {
          const auto begin = Clock::now();
          auto raised = card->raise(level);
          if (raised) {
            attached = card->attach_again(known);
          } else {
            attached = std::unexpected(std::move(raised.error()));
          }
          report.attempts.push_back({level, Clock::now() - begin, std::nullopt});
          if (!attached) report.attempts.back().error = attached.error();
        }
        card.reset();
        return [=, this] { escalated(of, id, why, report, attached); };
      });
  if (!begun) nothing_but_power(id, why, before);
}

void Broker::Impl::escalated(CardLifetime of, ClientId id, const std::string& why, const RecoveryReport& report,
                             Expected<std::vector<Binding>> attached) {
  if (of != lifetime || !in(CardPhase::Recovering)) return reply_and_close(id, refusal_by_state());
  if (!attached) return nothing_but_power(id, why, report);
  attached_again(*attached, "the card works again: " + svp::describe(report));
  reply_and_close(id, Done{svp::describe(report)});
}

void Broker::Impl::nothing_but_power(ClientId id, const std::string& why, const RecoveryReport& report) {
  if (note_death()) {
    set_phase(CardPhase::Wedged, wedged_error(options.name, deaths).message + "; the last time: " + why);
    tell_owners("wedged");
    let_owners_go();
    describe_changes(phase_reason);
    reply_and_close(id, refusal_by_state());
    return refuse_waiting(refusal_by_state());
  }
  if (!in(CardPhase::Recovering)) set_phase(CardPhase::Recovering, why);
  const std::string escalated = svp::describe(report);
  begin_power_cycle(id, escalated.empty() ? "power cycle" : escalated + "; then the power cycle helped");
}

}  // namespace svp
