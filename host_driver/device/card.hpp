// SPDX-License-Identifier: Apache-2.0
// flex::Card: an embedded card. One object boots an emulator, owns it, and opens the card's functions as devices.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "host_driver/device/device.hpp"
#include "host_driver/error.hpp"
#include "host_driver/recovery/rung.hpp"
#include "qemu/machine.hpp"

namespace flex {

struct CardOptions {
  // For records of errors (host_driver/ras); a long-lived card has its own.
  std::string name = "embedded";
  // Empty: found by find_firmware().
  std::filesystem::path firmware{};
  // Harts; hart 0 is management and core 0. 0: min(2, CPUs of this machine).
  unsigned cores = 0;
  std::uint64_t memory_bytes = 98 * qemu::kGiB;  // sparse: 8 regions of 12 GiB and the firmware's own
  unsigned virtual_functions = 4;                // 0 … 16
  // Region memory is divided among the functions: each is guaranteed an equal part (protocol §6), so with fewer functions
  // each has more. Set: this one (0: the PF, n: VF n) is guaranteed everything, the others nothing.
  std::optional<unsigned> sole_function{};
  unsigned spare_slots = 0;  // fixed ones; a long-lived card has renewable ones instead
  unsigned ports = 0;        // renewable slots behind them: see qemu::Machine::plug_window()
  std::uint64_t window_bytes = 256 * qemu::kMiB;
  // How much of its memory the card may touch before it refuses more with a typed fault (protocol §6); whole MiB, rounded
  // down. 0: default_populated_budget() as the machine is at boot. `budget_mib` among boot_arguments wins over this.
  std::uint64_t populated_budget_bytes = 0;
  // More words for the card's boot command line (shared/boot_arguments.hpp), separated by blanks.
  std::string boot_arguments{};
  Timeouts timeouts{};
  // Starting point for everything that is not named above (emulator, console file, debugger, …). Where it names no debugger
  // endpoint, SPYRE_GDB of the environment does ("tcp:127.0.0.1:1234").
  qemu::MachineOptions machine{};
};

// What open_physical() and open_virtual() let the caller decide about a device.
struct OpenOptions {
  std::uint64_t optional_features = wire::kFeatureEventIdx;
  bool polled = false;  // see DeviceOptions
  bool records_death = true;
  FaultHooks faults{};
};

// Slots: 0 = management (kept by the machine's owner), 1 = PF, 2 … n + 1 = VF 1 … n, then spares.
//
// Devices keep the machine alive: it ends when the Card and every Device opened from it are gone, or by shutdown(). A
// machine that ends never waits for a device: killing the emulator is the fast and clean way, nothing survives it.
// Thread-safe except for destruction.
class Card {
 public:
  static Expected<std::unique_ptr<Card>> boot(CardOptions options);
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  // One owner at a time: a second call for the same function while a device is open is refused.
  Expected<std::unique_ptr<Device>> open_physical(OpenOptions options = {});
  // `number` from 1.
  Expected<std::unique_ptr<Device>> open_virtual(unsigned number, OpenOptions options = {});

  // The management function M, for whoever serves this card to others (cards/broker.hpp); never handed out.
  Expected<std::unique_ptr<Device>> open_management(OpenOptions options = {});
  // Window and bells of a slot, to hand to another process. Nobody is kept from opening the slot here as well.
  Expected<qemu::SlotHandle> slot(unsigned index) const;

  // ---- rungs that concern the whole card (recovery/rung.hpp); each returns when the card is ready again. All devices
  // opened before have to be closed and opened again: they report Health::NeedsReset, after a power cycle Health::Dead.
  // One at a time; bounded by Timeouts::restart_beats and restart_silence, the power cycle also by qemu::Timeouts.
  // Through M: `management` when somebody holds it already.
  Expected<void> restart_firmware(Device* management = nullptr);
  Expected<void> reset();        // system_reset: memory survives and is scrubbed, slots stay bound
  Expected<void> power_cycle();  // another emulator with the same options: nothing survives
  // Counts those three, from 1 for the first boot.
  std::uint64_t lives() const;
  // The rung, unless the card has begun another life since lives() was `seen` (somebody else brought it back). `wanted`:
  // see DeviceSource::raise(). A power cycle that is not wanted is a death; after Timeouts::wedge_deaths of them within
  // wedge_within the card is wedged: this and every open fails at once.
  Expected<void> raise(Rung rung, std::uint64_t seen, bool wanted);

  const CardOptions& options() const;
  // For control that goes beyond the card's own protocol: stop, system_reset, kill, console. Until the next power cycle.
  qemu::Machine& machine();

  // Kills the emulator and waits for its end; devices report it. No-op when it is dead.
  Expected<void> shutdown();

 private:
  struct Impl;
  explicit Card(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// SPYRE_FIRMWARE; else "firmware/spyre-firmware.elf" in the folders above this executable; else the build's default.
// The error lists where it looked.
Expected<std::filesystem::path> find_firmware();

}  // namespace flex
