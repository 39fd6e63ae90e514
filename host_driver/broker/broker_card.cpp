// SPDX-License-Identifier: Apache-2.0
// The card behind the broker: its boot, its death, its power cycle, its end.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "host_driver/broker/broker_impl.hpp"
#include "host_driver/ras/log.hpp"

namespace svp {

static_assert(kMostSlots >= qemu::kMaxSlots && kMostCores >= qemu::kMaxHarts, "a card that nobody could read about");

namespace {

// Windows that are on their way out or in, beside those that are bound and those that are kept plugged.
constexpr unsigned kOnTheirWay = 4;

unsigned ports_of(const CardOptions& card) {
  const unsigned functions = 1 + card.virtual_functions;
  const unsigned needed = functions + card.spare_slots;
  const unsigned room = qemu::kMaxSlots - std::min(qemu::kMaxSlots, 1 + functions + needed);
  return needed + std::clamp(room, 1u, kOnTheirWay);
}

}  // namespace

ErrorInfo Broker::Impl::refusal(std::string source, std::string message, std::string next, bool recoverable) const {
  return {.layer = Layer::Driver,
          .source = std::move(source),
          .outcome = wire::Outcome::Rejected,
          .recoverable = recoverable,
          .next_step = std::move(next),
          .message = std::move(message)};
}

void Broker::Impl::set_phase(CardPhase to, std::string reason) {
  ras::logged(lifetime, phase.change(to));
  phase_reason = std::move(reason);
}

ErrorInfo Broker::Impl::refusal_by_state() const {
  const std::string& name = options.name;
  if (in(CardPhase::Dead)) {
    return refusal(name, "the card " + name + " is dead: " + phase_reason, "power-cycle the card or stop it", false);
  }
  if (in(CardPhase::Wedged)) {
    return refusal(name, "the card " + name + " is wedged: " + phase_reason,
                   "read its console, stop it (spyre stop) and boot another one", false);
  }
  return refusal(name, "the card " + name + " is " + std::string(svp::name(told(phase.get()))),
                 "try again when that has ended");
}

Expected<std::shared_ptr<CardSession>> Broker::Impl::boot_session(CardLifetime next_lifetime) {
  CardOptions card = options.card;
  card.ports = ports_of(card);
  card.spare_slots = 0;
  return CardSession::boot(std::move(card), [this, next_lifetime](std::string how) {
    loop->post([this, next_lifetime, how = std::move(how)] { emulator_ended(next_lifetime, how); });
  });
}

void Broker::Impl::adopt(std::shared_ptr<CardSession> booted) {
  session = std::move(booted);
  ++lifetime;
  timelines.clear();
  set_phase(CardPhase::Running);
  emulator = session->emulator();
  cores = session->options().cores;
  array = session->array_version();
  functions.clear();
  for (const Binding& binding : session->initial_bindings()) functions.push_back({.binding = binding});
  begin_renewal();
  // Its end may have been reported before this lifetime began here.
  if (const auto how = session->ended()) return emulator_ended(lifetime, *how);
  describe_changes("the card runs: emulator " + std::to_string(emulator));
}

void Broker::Impl::emulator_ended(CardLifetime ended_boot, const std::string& how) {
  if (ended_boot != lifetime || emulator == 0) return;
  emulator = 0;
  if (in(CardPhase::Recovering)) {
    // The escalation is told of it too, and goes on to the power cycle.
    tell_owners(how);
  } else if (in(CardPhase::Running) || in(CardPhase::Dead) || in(CardPhase::Wedged)) {
    const bool wedged = note_death() || in(CardPhase::Wedged);
    set_phase(wedged ? CardPhase::Wedged : CardPhase::Dead,
              wedged ? wedged_error(options.name, deaths).message + "; the last time: " + how : how);
    record({.layer = Layer::Emulator,
            .source = "emulator process",
            .outcome = wire::Outcome::Lost,
            .recoverable = false,
            .next_step = "power-cycle the card or stop it",
            .message = "the emulator ended: " + how});
    tell_owners(how);
  } else {
    tell_owners(how + (in(CardPhase::Cycling) ? ", for a power cycle" : ", as it was stopped"));
  }
  describe_changes("the emulator ended: " + how);
}

void Broker::Impl::record(const ErrorInfo& error) const {
  ras::report(error, {.device = options.name, .function = {}, .stream = {}, .launch = {}});
}

void Broker::Impl::card_failed(const std::string& why) {
  if (!in(CardPhase::Running)) return;
  record({.layer = Layer::Firmware,
          .source = options.name,
          .outcome = wire::Outcome::Indeterminate,
          .recoverable = false,
          .next_step = "power-cycle the card or stop it",
          .message = "the card does not work any more: " + why});
  set_phase(CardPhase::Dead, why);
  describe_changes("the card does not work any more: " + why);
}

void Broker::Impl::tell_owners(const std::string& how) {
  for (auto& [id, client] : clients) {
    if (!client.death.valid()) continue;
    // Far less than a pipe holds, into an empty one; the loop's thread blocks all signals, also SIGPIPE.
    [[maybe_unused]] const auto written = ::write(client.death.get(), how.data(), how.size());
    client.death.reset();
  }
}

void Broker::Impl::let_owners_go() {
  for (Function& function : functions) {
    if (function.owner != 0) (void)remove_client(std::exchange(function.owner, 0));
    set_phase(function, FunctionPhase::Stuck, "the card it belonged to has ended");
  }
}

// ---- power cycle ----------------------------------------------------------------------------------------------------

void Broker::Impl::begin_power_cycle(ClientId id, const std::string& how) {
  const bool by_escalation = in(CardPhase::Recovering) && !how.empty();
  if (!in(CardPhase::Running) && !in(CardPhase::Dead) && !by_escalation) return reply_and_close(id, refusal_by_state());
  set_phase(CardPhase::Cycling);
  describe_changes("power cycle");
  const bool begun = tasks->run([this, id, how, next = lifetime + 1, old = std::exchange(session, nullptr)]() mutable {
    Expected<std::shared_ptr<CardSession>> booted;
    auto ended = old ? old->shutdown() : Expected<void>();
    old.reset();
    if (ended) {
      booted = boot_session(next);
    } else {
      booted = std::unexpected(std::move(ended.error()));
    }
    return [this, id, how, booted = std::move(booted)]() mutable { power_cycled(id, how, std::move(booted)); };
  });
  if (!begun) power_cycled(id, how, std::unexpected(no_thread()));
}

void Broker::Impl::power_cycled(ClientId id, const std::string& how, Expected<std::shared_ptr<CardSession>> booted) {
  tell_owners("power cycle");
  let_owners_go();
  if (in(CardPhase::StoppingBoot)) {
    set_phase(CardPhase::Stopping);
    if (booted) session = *std::move(booted);
    return end_emulator();
  }
  if (!booted) {
    set_phase(CardPhase::Dead, "it did not boot again: " + booted.error().message);
    describe_changes(phase_reason);
    reply_and_close(id, booted.error());
    return refuse_waiting(refusal_by_state());
  }
  ++power_cycles;
  retire_again.clear();
  adopt(*std::move(booted));
  reply_and_close(id, Done{how});
  serve_waiting();
}

// ---- end ------------------------------------------------------------------------------------------------------------

void Broker::Impl::begin_stop(ClientId id) {
  if (id != 0) stop_clients.push_back(id);
  if (is_stopping(phase.get())) return;
  set_phase(in(CardPhase::Cycling) ? CardPhase::StoppingBoot : CardPhase::Stopping);
  describe_changes("stopping");
  refuse_waiting(refusal_by_state());
  if (in(CardPhase::Stopping)) end_emulator();  // else when the boot has ended
}

void Broker::Impl::end_emulator() {
  const auto end = [this, last = std::exchange(session, nullptr)]() mutable -> EventLoop::Closure {
    if (last) (void)last->shutdown();
    last.reset();
    return [this] { stopped(); };
  };
  // Without a thread it is done here, at the price of a loop that stands still meanwhile.
  if (!tasks->run(end)) {
    auto work = end;
    work()();
  }
}

void Broker::Impl::stopped() {
  set_phase(CardPhase::Stopped);
  tell_owners("stopped");
  let_owners_go();
  loop->cancel(std::exchange(rewrite_timer, EventLoop::TimerId::None));
  loop->cancel(std::exchange(write_timer, EventLoop::TimerId::None));
  loop->cancel(std::exchange(look_timer, EventLoop::TimerId::None));
  loop->cancel(std::exchange(renewal.timer, EventLoop::TimerId::None));
  emulator = 0;
  describe_changes("stopped");
  folder.reset();
  tenants.close();
  managers.close();
  for (const ClientId id : std::exchange(stop_clients, {})) reply_and_close(id, Done{});
  while (!clients.empty()) (void)remove_client(clients.begin()->first);
  {
    const std::lock_guard lock(mutex);
    is_stopped = true;
  }
  stopped_changed.notify_all();
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stopped_event.get(), &one, sizeof one);
}

}  // namespace svp
