// SPDX-License-Identifier: Apache-2.0
// The broker of a long-lived card: boots it, holds its management function M and the emulator's ends of all slots, and
// hands functions to owners in other processes (protocol §10; attach.hpp is the other side).
//
// A function has at most one owner. An owner is gone when its socket closes or its process ends, whichever is first (a
// child that it forked may keep both socket and window). Then M retires the slot, which stops everything that the owner
// left running; the window is unplugged, its pages are given back; and the function is bound to a fresh window with a
// peer of its own, so that the next owner shares nothing with the last. A mapping cannot be revoked: a former owner may
// keep one, of memory that nobody uses any more. Windows are renewed in the background: when owners change faster than
// that, they wait, and are never refused. A function serves 65 535 owners; then the card must be power-cycled.
//
// The emulator ends with the broker, also when the broker is killed. When the emulator ends by itself, owners are told,
// and the broker stays until it is told to stop or to power-cycle the card.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "host_driver/base/error.hpp"
#include "host_driver/discovery/card_description.hpp"
#include "host_driver/discovery/runtime_folder.hpp"
#include "qemu/card.hpp"

namespace svp {

inline constexpr unsigned kDefaultVirtualFunctions = 4;
inline constexpr unsigned kDefaultSpareSlots = 8;
// Connections that have not become owners; more are refused.
inline constexpr unsigned kMaxWaitingClients = 32;
// Commands of clients that are carried out at a time, each on a thread of its own; more are refused. A command whose
// client has gone is not begun any more, and counts until it has ended.
inline constexpr unsigned kMaxCommands = 8;

// A long-lived card as protocol §1 wants it by default: 4 VFs, 8 windows kept plugged for owners to come.
inline CardOptions long_lived_card() {
  CardOptions options;
  options.virtual_functions = kDefaultVirtualFunctions;
  options.spare_slots = kDefaultSpareSlots;
  return options;
}

struct BrokerOptions {
  std::string name{};  // see check_card_name()
  // machine.on_exit is the broker's; machine.console_file, when empty, becomes console.log of the card's folder.
  CardOptions card = long_lived_card();
  std::filesystem::path runtime_folder{};  // empty: RuntimeFolder::default_path()
  // One line for people per change of an owner or of the card ("VF1: owned by pid 1234"), without a newline. Called on
  // the broker's thread: quick, no call of the broker.
  std::function<void(std::string_view line)> on_change{};
  // Members of this group may be tenants, whatever user they are and whichever user or pid namespace they live in;
  // nobody but this user may manage the card. Empty: this user alone.
  std::optional<gid_t> tenant_group{};
  bool peers_by_number = false;  // identify clients as a kernel before 6.5 does (peer_process.hpp)
};

// Threading: all members from any thread, except destruction. One thread (io_uring) serves all clients and never
// blocks; every command to M runs on a thread of its own for as long as it lasts.
class Broker {
 public:
  // Returns when the card is ready for owners.
  static Expected<std::unique_ptr<Broker>> start(BrokerOptions options);
  // stop().
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // Of the card's files.
  const std::filesystem::path& folder() const;
  CardDescription description() const;
  // True when nothing is under way: the card runs; every client is an owner that exists, none waits; functions,
  // windows and peers for owners to come are as they stay until the next owner; card.json is written. What the broker's
  // process holds then is the same each time. Asks the broker's thread and waits for it.
  bool at_rest() const;

  // M of the card that runs, for the process of the broker itself: faults are armed through it, and it is asked for
  // counts (faults/fault_client.hpp). Null: no card runs. What it binds and resets is the broker's. Given back before
  // stop() and before a power cycle.
  std::shared_ptr<Device> management() const;

  // Returns when a client has told the broker to stop (and the card is gone), or when `stop_fd` (a signalfd, a pipe;
  // below 0: none) became readable (the card still runs: call stop()).
  enum class Ended { ByClient, ByDescriptor };
  Ended run_until(int stop_fd);

  // Ends the card: owners are told, the emulator is gone, the folder is removed. Idempotent.
  void stop();

 private:
  struct Impl;
  explicit Broker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace svp
