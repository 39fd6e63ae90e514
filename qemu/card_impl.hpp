// SPDX-License-Identifier: Apache-2.0
// Inside of Card. Three files: card.cpp (boot, opening functions), card_resets.cpp (what brings the whole card back),
// card_timelines.cpp (waits across functions).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "host_driver/base/event_loop.hpp"
#include "host_driver/base/process.hpp"
#include "host_driver/base/watched_end.hpp"
#include "host_driver/device/timeline_sharing.hpp"
#include "host_driver/recovery/escalation.hpp"
#include "host_driver/transport/window.hpp"
#include "qemu/card.hpp"
#include "shared/boot_arguments.hpp"

namespace svp {

inline constexpr unsigned kManagementSlot = 0;
inline constexpr unsigned kPhysicalSlot = 1;

ErrorInfo from_machine(const qemu::MachineError& error);
qemu::MachineOptions machine_for(const CardOptions& options);

struct Card::Impl {
  explicit Impl(const Timeouts& timeouts) : deaths(timeouts.wedge_deaths, timeouts.wedge_within) {}

  CardOptions options;
  std::shared_ptr<EventLoop> loop;
  const OwnerProcess process;  // in a forked child: not ours, every call is refused
  Expected<void> require_own_process() const {
    if (process.is_this()) return {};
    return std::unexpected(made_by_the_parent("card"));
  }

  std::mutex mutex;                        // of what follows
  std::shared_ptr<qemu::Machine> machine;  // shared with the devices; another one after a power cycle
  std::array<WatchedEnd, wire::boot::kMaxVirtualFunctions + 2> owners;  // by slot: of the device that was opened last
  DeathCount deaths;

  TimelineOffers timelines;
  std::mutex grant_mutex;  // one opens M for a grant at a time

  std::mutex level_mutex;  // one reset level at a time; before mutex
  std::atomic<std::uint64_t> boots{1};

  std::shared_ptr<qemu::Machine> current() {
    const std::lock_guard lock(mutex);
    return machine;
  }
  Expected<std::unique_ptr<Device>> open(unsigned slot, std::string source, OpenOptions how);
  Expected<std::unique_ptr<Device>> open_now(unsigned slot, const std::string& source, OpenOptions how);

  // ---- card_resets.cpp; with level_mutex held
  Expected<std::shared_ptr<Window>> management_window();
  Expected<void> restart_firmware(Device* management);
  Expected<void> reset();
  Expected<void> power_cycle();
  Expected<void> run(ResetLevel level, Device* management = nullptr);
  // Until the card shows POST "ready" under another boot epoch than `before`.
  Expected<void> await_next_boot(const Window& management, std::uint64_t before);
};

}  // namespace svp
