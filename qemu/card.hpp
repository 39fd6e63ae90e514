// SPDX-License-Identifier: Apache-2.0
// svp::Card: an embedded card. One object boots an emulator, owns it, and opens the card's functions as devices.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "host_driver/base/error.hpp"
#include "host_driver/device/card_options.hpp"
#include "host_driver/device/device.hpp"
#include "host_driver/device/timeline_sharing.hpp"
#include "host_driver/recovery/reset_level.hpp"
#include "qemu/machine.hpp"

namespace svp {

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

  // Waits of functions for streams of others (timeline_sharing.hpp). A grant uses M for a moment: it is refused while
  // somebody else holds M.
  TimelineToken offer_timeline(const Timeline& timeline);
  Expected<TimelineGrant> redeem_timeline(const TimelineToken& token, wire::Target grantee, std::uint64_t generation);

  // The management function M, for whoever serves this card to others (cards/broker.hpp); never handed out.
  Expected<std::unique_ptr<Device>> open_management(OpenOptions options = {});
  // Window and doorbells of a slot, to hand to another process. Nobody is kept from opening the slot here as well.
  Expected<SlotHandle> slot(unsigned index) const;

  // ---- reset levels that concern the whole card (recovery/reset level.hpp); each returns when the card is ready
  // again. All devices opened before have to be closed and opened again: they report Health::NeedsReset, after a power
  // cycle Health::Dead. One at a time; bounded by Timeouts::restart_beats and restart_silence, the power cycle also by
  // qemu::Timeouts. Through M: `management` when somebody holds it already.
  Expected<void> restart_firmware(Device* management = nullptr);
  Expected<void> reset();        // system_reset: memory survives and is scrubbed, slots stay bound
  Expected<void> power_cycle();  // another emulator with the same options: nothing survives
  // Counts those three, from 1 for the first boot.
  std::uint64_t boots() const;
  // The reset level, unless the card has begun another boot since boots() was `seen` (somebody else brought it back).
  // `wanted`: see DeviceSource::raise(). A power cycle that is not wanted is a death; after Timeouts::wedge_deaths of
  // them within wedge_within the card is wedged: this and every open fails at once.
  Expected<void> raise(ResetLevel level, std::uint64_t seen, bool wanted);

  const CardOptions& options() const;
  // For control that goes beyond the card's own protocol: stop, system_reset, kill, console. Until the next power
  // cycle.
  qemu::Machine& machine();

  // Kills the emulator and waits for its end; devices report it. No-op when it is dead.
  Expected<void> shutdown();

 private:
  struct Impl;
  explicit Card(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// SPYRE_FIRMWARE; else what lies in a place relative to the folders above this library or program: the build tree's, or
// the installed one (find_firmware.cpp). The error lists where it looked.
Expected<std::filesystem::path> find_firmware();

// The compute array of a card (docs/array.md).
struct FoundArray {
  std::filesystem::path plugin{};  // empty: the card has none
  bool named = false;              // a card without it is not what was asked for
};

// As `wanted` says, or, when it is empty, SPYRE_ARRAY. "off": none; "auto", and a variable that is not set or empty:
// what lies in such a place, else none; anything else names the file.
Expected<FoundArray> find_array(const std::filesystem::path& wanted = {});

}  // namespace svp
