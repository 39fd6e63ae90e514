// SPDX-License-Identifier: Apache-2.0
// The tenant's side of a long-lived card: take a function of it, or tell its broker to do something.
//
// A card is named by its name in the default runtime folder, or by the path of its folder (anything with a '/').
// All calls are bounded (Timeouts::attach, Timeouts::card_command) and block at most that long. Thread-safe.
// What comes from the broker is checked before use: number and kind of descriptors, size and seals of the window.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "host_driver/base/error.hpp"
#include "host_driver/device/device.hpp"
#include "host_driver/device/timeline_sharing.hpp"
#include "host_driver/discovery/card_description.hpp"
#include "host_driver/discovery/function_choice.hpp"
#include "host_driver/discovery/function_statistics.hpp"
#include "host_driver/recovery/reset_level.hpp"

namespace svp {

class Tenancy;

struct AttachedFunction {
  // Ours until this Device ends (or this process does). Its failure() tells how the card ended when it does.
  std::unique_ptr<Device> device{};
  wire::Target target = wire::kTargetPhysical;
  std::string function{};  // "PF", "VF1", …
  std::string card{};      // the card's name
  pid_t broker = 0;
  std::uint64_t quota_bytes = 0;  // of region memory; 0: none
  // What the device holds: lock it to open the function again when the device is closed (attached_source.hpp).
  std::weak_ptr<Tenancy> tenancy{};
};

// Refusals, each with what to do next: owned by pid …; no such function; slots exhausted; the card is dead; it is
// stopping; versions differ; no such card; its broker does not answer.
Expected<AttachedFunction> attach(std::string_view card, const FunctionChoice& choice, OpenOptions options = {},
                                  const Timeouts& timeouts = {});

// As it is now; card.json may be a moment older.
Expected<CardDescription> describe_card(std::string_view card, const Timeouts& timeouts = {});

// M resets a function that this process owns: what runs on it ends. It keeps the function and must attach again. When
// the card does not end the reset, the error says so: what helps then concerns other owners too, and is not for a
// tenant.
Expected<std::string> reset_own_function(std::string_view card, wire::Target target, const Timeouts& timeouts = {});

// What the card has counted of a function. Over the management socket: the user whose card it is. Errors: as above; the
// card does not run, or does not answer (Timeouts::admin).
Expected<FunctionStatistics> function_statistics(std::string_view card, wire::Target target,
                                                 const Timeouts& timeouts = {});

// Waits across functions (device/timeline_sharing.hpp), for a function that this process owns.
Expected<TimelineToken> offer_timeline(std::string_view card, const Timeline& timeline, const Timeouts& timeouts = {});
Expected<TimelineGrant> redeem_timeline(std::string_view card, const TimelineToken& token, wire::Target grantee,
                                        std::uint64_t generation, const Timeouts& timeouts = {});

// ---- management: refused unless this user is the one whose card it is
// Returns when the card is gone.
Expected<void> stop_card(std::string_view card, const Timeouts& timeouts = {});
// The three below return what was done, for people ("function reset helped after 0.4 ms").
//
// M resets the function: what runs on it ends. Its owner keeps it and is told (Health::NeedsReset); it must attach
// again. A reset that the card does not end is followed by the reset levels above it, up to the power cycle.
Expected<std::string> reset_function(std::string_view card, wire::Target target, const Timeouts& timeouts = {});
// ResetLevel::Firmware, Card or PowerCycle; a reset level that fails is followed by those above it. Owners keep their
// functions and are told, as above, but for the power cycle.
Expected<std::string> raise_card(std::string_view card, ResetLevel level, const Timeouts& timeouts = {});
// Ends the emulator and boots another one with the same options. Owners are told and lose their functions; all slots
// are new.
Expected<std::string> power_cycle_card(std::string_view card, const Timeouts& timeouts = {});

// Has the broker write a core file of the card's firmware (debug/collect.hpp): of the record that an earlier boot left,
// else or with `now` of what the harts do now. Works while the card hangs; of a dead card only the record is left.
Expected<void> collect_core(std::string_view card, const std::filesystem::path& file, bool now,
                            const Timeouts& timeouts = {});
// Where a debugger may attach from now on ("target remote PATH"), and no longer. The card stands still while one does.
Expected<std::filesystem::path> offer_debugger(std::string_view card, const Timeouts& timeouts = {});
Expected<void> withdraw_debugger(std::string_view card, const Timeouts& timeouts = {});

}  // namespace svp
