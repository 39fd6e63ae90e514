// SPDX-License-Identifier: Apache-2.0
// One lifetime of a long-lived card, from boot to the end of its emulator: the card, its management function M, and the
// commands that the broker gives M. All calls block (Timeouts::admin); they may come from several threads at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/debug/collect.hpp"
#include "host_driver/device/device.hpp"
#include "host_driver/device/timeline_sharing.hpp"
#include "host_driver/discovery/function_statistics.hpp"
#include "qemu/card.hpp"

namespace svp {

// What a slot is bound to, as M said it.
struct Binding {
  wire::Target target = wire::kTargetPhysical;
  unsigned slot = 0;
  std::uint32_t serial = 0;  // of its window; 0: a fixed slot's
  std::uint64_t generation = 0;
  std::uint64_t quota_bytes = 0;
  std::uint64_t violations = 0;  // since the slot was bound
  // Of the function's last reset, by the card's clock: from its begin until nothing of the old owner ran.
  std::chrono::microseconds stop_time{0};
};

// What an owner gets behind the first one of a function: a window and a peer that nobody had before.
struct Lease {
  qemu::PluggedWindow window{};
  qemu::DoorbellPeer peer{};
  bool bound = false;  // the card has said that the window is, or was
};

class CardSession {
 public:
  // `on_end` is called once, on the machine's own thread, when the emulator has ended: with how.
  static Expected<std::shared_ptr<CardSession>> boot(CardOptions options, std::function<void(std::string how)> on_end);

  const CardOptions& options() const { return card_->options(); }
  pid_t emulator() const { return card_->machine().pid(); }
  std::uint32_t array_version() const { return management()->config().array_version; }
  std::uint64_t boot_epoch() const { return management()->config().boot_epoch; }
  // Fixed slots, M's among them; renewable ones follow: port p is slot fixed_slots() + p.
  unsigned fixed_slots() const { return card_->machine().slot_count(); }
  unsigned ports() const { return options().ports; }
  const std::vector<Binding>& initial_bindings() const { return bindings_; }  // by target

  Expected<SlotHandle> slot(unsigned index) const { return card_->slot(index); }
  std::shared_ptr<Device> management() const {
    const std::lock_guard lock(mutex_);
    return management_;
  }

  // ---- commands to M; a refusal of the card is an error
  Expected<Binding> query(wire::Target target) { return command(wire::AdminCommand::FunctionQuery, target); }
  // Answered when nothing of the old owner runs or writes any more.
  Expected<Binding> retire(wire::Target target) { return command(wire::AdminCommand::SlotRetire, target); }
  // Answered when the emulator knows the peer: its first doorbell has arrived.
  Expected<Binding> bind(wire::Target target, const Lease& lease);
  Expected<Binding> reset(wire::Target target) { return command(wire::AdminCommand::FunctionReset, target); }

  // A wait across functions, for functions as they were in these generations.
  Expected<TimelineGrant> grant(const Timeline& timeline, wire::Target grantee, std::uint64_t generation) const {
    return grant_timeline(*management(), timeline, grantee, generation);
  }

  // What the card has counted of it: STATS, FUNCTION_QUERY and QUERY, one behind the other.
  Expected<FunctionStatistics> statistics(wire::Target target) const;

  // ---- windows and peers for owners to come (qemu/renewal.hpp)
  Expected<qemu::PluggedWindow> plug_window(unsigned port) const;
  Expected<bool> window_gone(std::uint32_t serial) const;
  Expected<qemu::DoorbellPeer> connect_peer(wire::Target target) const;
  Expected<void> disconnect_peer(unsigned slot, std::uint16_t id) const;

  // Gives the pages of a retired window back to the system. Whoever still maps it sees zeros.
  Expected<void> empty_window(unsigned slot) const;
  static Expected<void> empty_window(unsigned slot, int window, std::uint64_t bytes);

  // ---- what a firmware left, or does now (debug/collect.hpp); M is not asked
  Expected<void> collect(CoreOf what, const std::filesystem::path& file) const;
  // A debugger may attach at this socket, or, when it is empty, no longer.
  Expected<void> offer_debugger(const std::filesystem::path& socket) const;
  // Whether its harts stand still now while one may. Does not ask the emulator.
  bool held_by_debugger() const { return card_->machine().held_by_debugger(); }

  // What M was told since the last call. Does not block.
  std::vector<wire::DeviceEvent> take_events() { return management()->take_events(); }
  // Why M cannot be talked to any more; empty while it works.
  std::optional<ErrorInfo> failure() const { return management()->failure(); }
  // Looks at the card: true when its firmware has begun another lifetime and attach_again() is due. Does not block.
  bool restarted();

  // ---- another lifetime of the same emulator; one at a time
  // M anew, and the bindings repeated (those that the card has still are no errors). Returns them as they are now, in
  // the order of `known`; targets without a slot are left out of `known`.
  Expected<std::vector<Binding>> attach_again(const std::vector<Binding>& known);
  // Firmware or Card. Returns when the card is ready for attach_again().
  Expected<void> raise(ResetLevel level);

  // How the emulator ended; empty while it exists.
  std::optional<std::string> ended() const;
  // Ends the emulator. `on_end` has been called when this returns, also while others still hold the session.
  Expected<void> shutdown();

 private:
  using Place = decltype(wire::AdminRequest::Arguments::bind);

  CardSession() = default;
  Expected<Binding> command(wire::AdminCommand command, wire::Target target, const Place& place = {});

  Place place_of(wire::Target target) const;

  std::shared_future<void> end_told_;
  std::unique_ptr<Card> card_;
  mutable std::mutex mutex_;
  std::shared_ptr<Device> management_;    // another one after attach_again(); never null once booted
  std::map<wire::Target, Place> places_;  // that were bound last
  std::vector<Binding> bindings_;
};

}  // namespace svp
