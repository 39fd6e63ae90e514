// SPDX-License-Identifier: Apache-2.0
// Windows and peers for owners to come. A window serves one owner: when that has gone, the card unplugs it, and another
// one is plugged in the background. A peer id serves one owner, too. So that attaching does not wait for either, some
// windows are kept plugged, and each function's next peer is connected while it still has its owner.
#include <algorithm>
#include <ranges>
#include <utility>

#include "host_driver/broker/broker_impl.hpp"
#include "host_driver/broker/timeouts.hpp"

namespace svp {

// ---- what is due ----------------------------------------------------------------------------------------------------

void Broker::Impl::begin_renewal() {
  loop->cancel(renewal.timer);
  renewal = {};
  for (unsigned port = 0; port < session->ports(); ++port) renewal.empty_ports.push_back(port);
  renew();
}

void Broker::Impl::renew() {
  bind_waiting();
  if (renewal.working || !session || emulator == 0) return;
  loop->cancel(std::exchange(renewal.timer, EventLoop::TimerId::None));
  if (const auto when = renewal.schedule.put_off(Clock::now(), somebody_waits_for_renewal())) return renew_at(*when);
  const auto work = std::make_shared<RenewalWork>(due_work());
  if (work->disconnect.empty() && work->connect.empty() && work->leaving.empty() && work->plug.empty()) {
    return look_again();
  }
  renewal.working = true;
  const bool begun = tasks->run([this, work, of = lifetime, card = session]() mutable -> EventLoop::Closure {
    do_work(*card, *work);
    card.reset();
    return [this, work, of] { renewed(of, *work); };
  });
  if (begun) return;
  work->errors.push_back(no_thread());
  renewed(lifetime, *work);
}

// A function without a window, or with none for its next owner; one whose peers are used up waits for nothing.
bool Broker::Impl::somebody_waits_for_renewal() const {
  if (renewal.ready.empty()) return true;
  return std::ranges::any_of(functions,
                             [](const Function& each) { return waits_for_window(each) && !each.peers_used_up; });
}

// At what is leaving.
void Broker::Impl::look_again() {
  if (renewal.leaving.empty()) return;
  const bool soon = std::ranges::any_of(
      renewal.leaving, [](const Leaving& each) { return each.stay.next() == LeavingWindow::Next::LookSoon; });
  renew_later(soon ? kUnplugLook : kRenewAgain);
}

void Broker::Impl::renew_later(std::chrono::milliseconds after) { renew_at(Clock::now() + after); }

void Broker::Impl::renew_at(Clock::time_point when) {
  if (renewal.timer != EventLoop::TimerId::None) return;
  renewal.timer = loop->run_at(when, [this] {
    renewal.timer = EventLoop::TimerId::None;
    renew();
  });
}

Broker::Impl::RenewalWork Broker::Impl::due_work() {
  // A batch is short: who waits for a peer does not wait for all windows of a card, and who attaches for no more than
  // one.
  const std::size_t plugs_at_a_time = somebody_waits_for_renewal() ? 4 : 1;
  RenewalWork work;
  work.disconnect = std::exchange(renewal.old_peers, {});
  if (const auto now = Clock::now(); now - renewal.looked >= kUnplugLook) {
    renewal.looked = now;
    work.leaving = std::exchange(renewal.leaving, {});
  }
  std::size_t wanted = options.card.spare_slots;
  for (const Function& each : functions) {
    if (!each.next_peer && !each.peers_used_up) work.connect.push_back(each.binding.target);
    if (waits_for_window(each)) ++wanted;
  }
  while (renewal.ready.size() + work.plug.size() < wanted && work.plug.size() < plugs_at_a_time &&
         !renewal.empty_ports.empty()) {
    work.plug.push_back(renewal.empty_ports.front());
    renewal.empty_ports.erase(renewal.empty_ports.begin());
  }
  return work;
}

// ---- the work, on a thread of its own -------------------------------------------------------------------------------

namespace {

// Tries `act` on each; keeps those for which it failed, and why.
template <typename T, typename Act>
void keep_failed(std::vector<T>& all, std::vector<ErrorInfo>& errors, Act act) {
  std::erase_if(all, [&](T& each) {
    auto done = act(each);
    if (!done) errors.push_back(std::move(done.error()));
    return done.has_value();
  });
}

}  // namespace

void Broker::Impl::do_work(const CardSession& card, RenewalWork& work) {
  keep_failed(work.disconnect, work.errors,
              [&](const OldPeer& peer) { return card.disconnect_peer(peer.slot, peer.id); });
  keep_failed(work.connect, work.errors, [&](wire::Target target) -> Expected<void> {
    auto peer = card.connect_peer(target);
    if (peer) {
      work.connected.emplace_back(target, *std::move(peer));
    } else if (!peer.error().recoverable) {
      work.used_up.push_back(target);
    } else {
      return std::unexpected(std::move(peer.error()));
    }
    return {};
  });
  std::erase_if(work.leaving, [&](Leaving& each) {
    const auto& file = each.window;
    if (!each.stay.looked_at()) {
      auto emptied = CardSession::empty_window(card.fixed_slots() + file.port, file.memory.get(), file.bytes);
      if (!emptied) work.errors.push_back(std::move(emptied.error()));
    }
    const auto gone = card.window_gone(file.serial);
    if (!gone) work.errors.push_back(gone.error());
    each.stay.look();
    if (gone && *gone) work.emptied.push_back(file.port);
    return gone && *gone;
  });
  keep_failed(work.plug, work.errors, [&](unsigned port) -> Expected<void> {
    auto window = card.plug_window(port);
    if (!window) return std::unexpected(std::move(window.error()));
    work.plugged.push_back(*std::move(window));
    return {};
  });
}

void Broker::Impl::renewed(CardLifetime of, RenewalWork& done) {
  if (of != lifetime || !session || is_stopping(phase.get())) return;
  renewal.working = false;
  const bool plugged = !done.plugged.empty();
  const auto append = [](auto& to, auto& from) { std::ranges::move(from, std::back_inserter(to)); };
  append(renewal.old_peers, done.disconnect);
  append(renewal.empty_ports, done.plug);
  append(renewal.empty_ports, done.emptied);
  append(renewal.ready, done.plugged);
  for (auto& each : done.leaving) {
    if (each.stay.next() == LeavingWindow::Next::TakeBack) {
      renewal.ready.push_back(std::move(each.window));
    } else {
      renewal.leaving.push_back(std::move(each));
    }
  }
  for (auto& [target, peer] : done.connected) function(target).next_peer = std::move(peer);
  for (const wire::Target target : done.used_up) function(target).peers_used_up = true;
  renewal.in_vain = done.errors.empty() || plugged ? 0 : renewal.in_vain + 1;
  // That the emulator has ended is told by whoever watches it.
  if (renewal.in_vain % kRenewalsInVain == 1 && done.errors.front().outcome != wire::Outcome::Lost) {
    record(done.errors.front());
  }
  if (plugged) {
    publish();
    write_file_soon();
  }
  give_up_waiting();
  if (!done.errors.empty()) {
    bind_waiting();
    return renew_later(kRenewAgain);
  }
  renew();
}

bool Broker::Impl::renewed_all() const {
  const auto has_next_peer = [](const Function& each) { return each.next_peer || each.peers_used_up; };
  return !renewal.working && renewal.leaving.empty() && renewal.old_peers.empty() &&
         renewal.ready.size() >= options.card.spare_slots && std::ranges::all_of(functions, has_next_peer);
}

// ---- leases ---------------------------------------------------------------------------------------------------------

std::shared_ptr<Lease> Broker::Impl::take_lease(Function& next) {
  if (renewal.ready.empty() || !next.next_peer) return nullptr;
  auto lease = std::make_shared<Lease>(std::move(renewal.ready.front()), *std::exchange(next.next_peer, std::nullopt));
  renewal.ready.erase(renewal.ready.begin());
  return lease;
}

// It was not tried.
void Broker::Impl::return_lease(Function& next, const std::shared_ptr<Lease>& lease) {
  if (!lease) return;
  renewal.ready.insert(renewal.ready.begin(), std::move(lease->window));
  next.next_peer = std::move(lease->peer);
}

void Broker::Impl::drop_lease(Lease& lease) {
  renewal.old_peers.push_back({lease.peer.slot, lease.peer.id});
  renewal.leaving.push_back({std::move(lease.window), LeavingWindow(lease.bound)});
}

void Broker::Impl::bind_waiting() {
  if (!session || !in(CardPhase::Running)) return;
  for (Function& each : functions) {
    if (!waits_for_window(each)) continue;
    if (const auto lease = take_lease(each)) begin_bind(each, lease);
  }
}

void Broker::Impl::begin_bind(Function& next, const std::shared_ptr<Lease>& lease) {
  set_phase(next, FunctionPhase::Binding);
  const wire::Target target = next.binding.target;
  const bool begun = tasks->run(
      [=, this, of = lifetime, epoch = session->boot_epoch(), card = session]() mutable -> EventLoop::Closure {
        const auto result = card->bind(target, *lease);
        card.reset();
        return [=, this] {
          // Else the card has ended meanwhile, and so has its function.
          if (of != lifetime || function(target).phase.get() != FunctionPhase::Binding) return;
          bound(function(target), lease, result, epoch, function_name(target) + ": ");
        };
      });
  if (begun) return;
  return_lease(next, lease);
  set_phase(next, FunctionPhase::Unbound);
  renew_later(kRenewAgain);
}

void Broker::Impl::bound(Function& next, const std::shared_ptr<Lease>& lease, const Expected<Binding>& result,
                         std::uint64_t epoch, const std::string& line) {
  const wire::Target target = next.binding.target;
  next.window = lease;
  if (result) {
    lease->bound = true;
    next.binding = *result;
    set_phase(next, FunctionPhase::Free);
    describe_owners(line + "free again, with slot " + std::to_string(next.binding.slot));
  } else if (unanswered(result.error()) && retire_later(target, epoch)) {
    return;  // whether it was bound, only the card knows: it is retired again
  } else if (result.error().status == wire::Status::SlotUsed) {
    // The window was taken back and had been bound: it is the window's defect, and the function waits for another one.
    record(result.error());
    lease->bound = true;
    next.window = NoWindow{};
    drop_lease(*lease);
    set_phase(next, FunctionPhase::Unbound);
  } else {
    // The window stays where it is: whether the card unplugs it is not known, and its port is not used again.
    renewal.old_peers.push_back({lease->peer.slot, lease->peer.id});
    next.window = NoWindow{};
    get_stuck(next, result.error());
  }
  renew();
  serve_waiting();
}

// Functions for which no peer is left, or no window could be plugged for long.
void Broker::Impl::give_up_waiting() {
  bool any = false;
  for (Function& each : functions) {
    if (!waits_for_window(each)) continue;
    std::string trouble;
    if (each.peers_used_up && !each.next_peer) {
      trouble = "it has had " + std::to_string(qemu::kLastPeer) + " owners, the most that its doorbell device serves";
    } else if (renewal.in_vain >= kRenewalsInVain) {
      trouble = "no window can be plugged for it";
    } else {
      continue;
    }
    set_phase(each, FunctionPhase::NoSlot, std::move(trouble));
    describe_changes(function_name(each.binding.target) + ": no slot for another owner: " + each.trouble);
    any = true;
  }
  if (any) serve_waiting();
}

void Broker::Impl::get_stuck(Function& function, const ErrorInfo& error) {
  set_phase(function, FunctionPhase::Stuck, error.message);
  describe_changes(function_name(function.binding.target) + ": stuck: " + error.message);
  if (session && session->failure()) card_failed(session->failure()->message);
}

}  // namespace svp
