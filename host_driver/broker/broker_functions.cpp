// SPDX-License-Identifier: Apache-2.0
// Functions and their owners: who gets one, what happens when its owner is gone.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "host_driver/base/mutants.hpp"
#include "host_driver/broker/broker_impl.hpp"
#include "host_driver/discovery/local_socket.hpp"

namespace svp {

ErrorInfo Broker::Impl::no_such_function(wire::Target target) const {
  const auto virtual_functions = functions.size() - 1;
  return refusal(function_name(target),
                 "the card " + options.name + " has the PF and " + std::to_string(virtual_functions) +
                     " virtual functions, no " + function_name(target),
                 "ask for one that exists, or boot the card with more");
}

ErrorInfo Broker::Impl::no_thread() const {
  return refusal("broker", "the system has no thread left for the broker", "end other programs, then try again");
}

void Broker::Impl::set_phase(Function& function, FunctionPhase to, std::string trouble) {
  ras::logged(function.binding.target, function.phase.change(to));
  function.trouble = std::move(trouble);
}

// ---- hand out -------------------------------------------------------------------------------------------------------

void Broker::Impl::serve(ClientId id) {
  auto verdict = judge(clients.at(id).want);
  if (auto* error = std::get_if<ErrorInfo>(&verdict)) return reply_and_close(id, *error);
  if (const auto* target = std::get_if<wire::Target>(&verdict)) grant(id, function(*target));
}

void Broker::Impl::serve_waiting() {
  std::vector<ClientId> waiting;  // in the order in which they came
  for (const auto& [id, client] : clients) {
    if (client.phase.get() == ClientPhase::Waiting) waiting.push_back(id);
  }
  for (const ClientId id : waiting) {
    if (clients.contains(id)) serve(id);
  }
}

Broker::Impl::Verdict Broker::Impl::judge(const FunctionChoice& want) {
  if (in(CardPhase::Cycling) || in(CardPhase::Recovering)) return Wait{};
  // The firmware may have gone down with an emulator that goes on.
  look();
  if (in(CardPhase::Recovering)) return Wait{};
  if (const auto failure = session ? session->failure() : std::nullopt) card_failed(failure->message);
  if (!in(CardPhase::Running)) return refusal_by_state();
  switch (want.kind) {
    case FunctionChoice::Kind::Physical: return judge_function(wire::kTargetPhysical);
    case FunctionChoice::Kind::Virtual: return judge_function(wire::target_of_virtual(want.number));
    case FunctionChoice::Kind::AnyVirtual: break;
  }
  return judge_any_virtual();
}

Broker::Impl::Verdict Broker::Impl::judge_function(wire::Target target) {
  if (target - wire::kTargetPhysical >= functions.size()) return no_such_function(target);
  Function& wanted = function(target);
  notice_gone_owner(wanted);
  const std::string name = function_name(target) + " of card " + options.name;
  switch (wanted.phase.get()) {
    case FunctionPhase::Free: return target;
    case FunctionPhase::Retiring:
    case FunctionPhase::Unbound:
    case FunctionPhase::Binding: return Wait{};
    case FunctionPhase::Owned:
      return refusal(function_name(target),
                     name + " is owned by pid " + std::to_string(clients.at(wanted.owner).peer.pid),
                     "wait for that process to end, or ask for another function");
    case FunctionPhase::NoSlot:
      return refusal(function_name(target), name + " has no slot for another owner: " + wanted.trouble,
                     "power-cycle the card", false);
    case FunctionPhase::Stuck: break;
  }
  return refusal(function_name(target), name + " is stuck: " + wanted.trouble, "power-cycle the card", false);
}

Broker::Impl::Verdict Broker::Impl::judge_any_virtual() {
  if (functions.size() == 1) {
    return refusal("VF", "the card " + options.name + " has no virtual functions",
                   "boot it with some, or ask for the PF");
  }
  Verdict last = Wait{};
  std::string owners;
  bool wait = false;
  for (auto target = wire::target_of_virtual(1); target < wire::kTargetPhysical + functions.size(); ++target) {
    last = judge_function(target);
    if (std::holds_alternative<wire::Target>(last)) return last;
    wait |= std::holds_alternative<Wait>(last);
    if (const Function& taken = function(target); taken.phase.get() == FunctionPhase::Owned) {
      owners += (owners.empty() ? "" : ", ") + function_name(target) + " by pid " +
                std::to_string(clients.at(taken.owner).peer.pid);
    }
  }
  if (wait) return Wait{};
  if (owners.empty()) return last;
  return refusal("VF", "no virtual function of card " + options.name + " is free (owned: " + owners + ")",
                 "wait for one of these processes to end");
}

void Broker::Impl::notice_gone_owner(Function& owned) {
  if (owned.phase.get() != FunctionPhase::Owned || mutated(HostMutant::OwnerEnd)) return;
  // A successor may be reported before its predecessor's end: the order of events across descriptors is nobody's
  // promise.
  const Client& owner = clients.at(owned.owner);
  pollfd events[] = {{owner.socket.get(), POLLRDHUP, 0}, {owner.peer.pidfd.get(), POLLIN, 0}};
  if (::poll(events, 2, 0) <= 0) return;
  end_client(owned.owner, events[1].revents != 0 ? "its process ended" : "it closed its connection");
}

void Broker::Impl::grant(ClientId id, Function& granted) {
  Client& client = clients.at(id);
  std::optional<SlotHandle> fixed;
  const auto* leased = std::get_if<std::shared_ptr<Lease>>(&granted.window);
  if (leased == nullptr) {
    auto slot = session->slot(granted.binding.slot);
    if (!slot) return reply_and_close(id, slot.error());
    fixed = *std::move(slot);
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return reply_and_close(id, refusal("broker", "the broker has no descriptor left", "raise its limit (ulimit -n)"));
  }
  const UniqueFd death_read{ends[0]};
  client.death.reset(ends[1]);
  const Grant reply{.card = options.name,
                    .target = granted.binding.target,
                    .slot = granted.binding.slot,
                    .window_bytes = options.card.window_bytes,
                    .generation = granted.binding.generation,
                    .boot_epoch = session->boot_epoch(),
                    .quota_bytes = granted.binding.quota_bytes};
  const Lease* lease = leased != nullptr ? leased->get() : nullptr;
  const std::array descriptors{fixed ? fixed->window_fd() : lease->window.memory.get(),
                               fixed ? fixed->doorbell_to_card() : lease->peer.to_card.get(),
                               fixed ? fixed->doorbell_from_card() : lease->peer.from_card.get(), death_read.get()};
  static_assert(descriptors.size() == kGrantDescriptors);
  // The description names the owner before the owner can know of it, and so before anybody can ask about it.
  set_phase(granted, FunctionPhase::Owned);
  granted.owner = id;
  publish();
  if (!send_message(client.socket.get(), encode(BrokerReply(reply)), descriptors)) {
    // The client is gone, and has never seen the window: the next one gets the function as it is.
    granted.owner = 0;
    set_phase(granted, FunctionPhase::Free);
    publish();
    return end_client(id, "");
  }
  set_phase(id, client, ClientPhase::Owner);
  if (mutated(HostMutant::OwnerEnd)) stop_watching(client);
  client.target = granted.binding.target;
  renewal.schedule.attaching(Clock::now());
  describe_owners(function_name(client.target) + ": owned by pid " + std::to_string(client.peer.pid));
}

// ---- retire ---------------------------------------------------------------------------------------------------------

void Broker::Impl::retire(Function& gone, const std::string& why) {
  const auto began = Clock::now();
  const wire::Target target = gone.binding.target;
  timelines.forget(target);
  if (session && in(CardPhase::Recovering)) {
    set_phase(gone, FunctionPhase::Retiring);
    retire_again.push_back(target);
    return describe_changes(function_name(target) + ": " + why);
  }
  if (!session || !in(CardPhase::Running)) {
    set_phase(gone, FunctionPhase::Stuck, "the card has ended");
    return describe_changes(function_name(target) + ": " + why);
  }
  set_phase(gone, FunctionPhase::Retiring);
  const auto lease = take_lease(gone);
  const bool begun = tasks->run(
      [=, this, of = lifetime, epoch = session->boot_epoch(), card = session]() mutable -> EventLoop::Closure {
        RetirementResult result{card->retire(target), Clock::now(), {}};
        if (result.retired && lease) result.bound = card->bind(target, *lease);
        card.reset();
        return [=, this] { retired(of, epoch, target, lease, began, result); };
      });
  if (!begun) {
    return_lease(gone, lease);
    set_phase(gone, FunctionPhase::Stuck, no_thread().message);
  }
  describe_owners(function_name(target) + ": " + why);
}

void Broker::Impl::retired(CardLifetime of, std::uint64_t epoch, wire::Target target,
                           const std::shared_ptr<Lease>& lease, Clock::time_point began,
                           const RetirementResult& result) {
  if (of != lifetime) return;  // the card that it was about is gone
  Function& gone = function(target);
  if (gone.phase.get() != FunctionPhase::Retiring) return;  // the card has ended meanwhile, and so has its function
  const std::string name = function_name(target);
  if (!result.retired) {
    return_lease(gone, lease);
    if (unanswered(result.retired.error()) && retire_later(target, epoch)) return;
    get_stuck(gone, result.retired.error());
    return serve_waiting();
  }
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(result.stopped - began);
  // One that is repeated counts when it is.
  const bool repeated = result.bound && !*result.bound && unanswered(result.bound->error());
  retirements.count += repeated ? 0 : 1;
  retirements.last = took;
  retirements.max = std::max(retirements.max, took);
  gone.earlier_violations += result.retired->violations;
  gone.binding.violations = 0;
  let_go_of_slot(gone);
  const std::string stopped = name + ": stopped after " + std::to_string(took.count()) +
                              " us (card: " + std::to_string(result.retired->stop_time.count()) + " us); ";
  if (result.bound) return bound(gone, lease, *result.bound, epoch, stopped);
  set_phase(gone, FunctionPhase::Unbound);
  describe_owners(stopped + "waits for a window");
  renew();
}

void Broker::Impl::let_go_of_slot(Function& gone) {
  const FunctionWindow had = std::exchange(gone.window, NoWindow{});
  if (const auto* lease = std::get_if<std::shared_ptr<Lease>>(&had)) return drop_lease(**lease);
  if (std::holds_alternative<NoWindow>(had)) return;
  empty_window(gone.binding.slot);
  renewal.old_peers.push_back({gone.binding.target, qemu::kHostPeer});
}

void Broker::Impl::empty_window(unsigned slot) {
  if (!session) return;
  const bool begun = tasks->run([this, slot, card = session]() mutable -> EventLoop::Closure {
    auto emptied = card->empty_window(slot);
    card.reset();
    if (emptied) return {};
    return [this, why = emptied.error().message] { describe_changes(why); };
  });
  if (!begun) describe_changes(no_thread().message);
}

void Broker::Impl::note_events() {
  if (!session) return;
  for (const wire::DeviceEvent& event : session->take_events()) {
    if (event.kind != wire::EventKind::FunctionViolation) continue;
    if (event.target < wire::kTargetPhysical || event.target - wire::kTargetPhysical >= functions.size()) continue;
    // Counted since the slot was bound. Word of a slot that was retired meanwhile is in its retirement's answer
    // already.
    Function& blamed = function(event.target);
    if (blamed.phase.get() == FunctionPhase::Owned)
      blamed.binding.violations = std::max(blamed.binding.violations, event.argument);
  }
}

}  // namespace svp
