// SPDX-License-Identifier: Apache-2.0
// What a long-lived card tells about itself: the content of its card.json, and the answer to "describe". It contains no
// addresses. The file is rewritten whole (rename) on every change, so a reader sees one state or the next.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/error.hpp"
#include "shared/admin.hpp"

namespace svp {

enum class CardState : std::uint8_t {
  Running = 0,
  Dead = 1,        // the emulator ended by itself, or its firmware does not answer: power-cycle or stop it
  Cycling = 2,     // being power-cycled: who attaches now waits for the new card
  Stopping = 3,    // being stopped: nobody can attach any more
  Recovering = 4,  // the firmware restarted, or is being reset: who attaches now waits for that
  Wedged = 5,      // it kept dying: only stopping it is left
};
std::string_view name(CardState state);

enum class FunctionUse : std::uint8_t {
  Free = 0,
  Owned = 1,
  Retiring = 2,  // its last owner is gone; the card stops what it left behind. Who attaches now waits for that
  NoSlot = 3,    // no further peer, or no window: nobody can attach before a power cycle
  Stuck = 4,     // the card refused or did not answer the retirement: nobody can attach before a power cycle
};
std::string_view name(FunctionUse use);

// What a reader takes for a card: no emulator has more.
inline constexpr unsigned kMostSlots = 248;
inline constexpr unsigned kMostCores = 512;

struct FunctionDescription {
  wire::Target target = wire::kTargetPhysical;
  FunctionUse use = FunctionUse::Free;
  pid_t owner = 0;               // 0: none
  unsigned slot = 0;             // bound to it, or last bound
  std::uint32_t serial = 0;      // of its window: larger for each owner after the first; 0: the window of the boot
  std::uint64_t violations = 0;  // attempts that the card refused or stopped, as reported to its management function
  friend bool operator==(const FunctionDescription&, const FunctionDescription&) = default;
};

// From the end of an owner as the broker learned it, to the card's word that nothing of it runs or writes any more.
struct RetirementTimes {
  std::uint64_t count = 0;
  std::chrono::microseconds last{0};
  std::chrono::microseconds max{0};
  friend bool operator==(const RetirementTimes&, const RetirementTimes&) = default;
};

struct CardDescription {
  std::string name{};
  pid_t broker = 0;
  pid_t emulator = 0;  // 0 while there is none
  std::uint32_t abi = 0;
  CardState state = CardState::Running;
  std::string state_reason{};  // Dead: how it ended, "signal 9 (Killed)"; Recovering, Wedged: why
  unsigned cores = 0;
  std::uint32_t array = 0;         // version of its compute array; 0: it has none
  std::uint64_t memory_bytes = 0;  // of the emulated machine
  std::uint64_t window_bytes = 0;
  unsigned slots_total = 0;
  unsigned slots_used = 0;   // those of M and the functions, and spares that are being renewed
  unsigned slots_left = 0;   // spares: windows that are plugged for owners to come
  std::int64_t created = 0;  // seconds since the epoch; of the broker
  std::uint64_t power_cycles = 0;
  RetirementTimes retirements{};
  std::vector<FunctionDescription> functions{};  // PF first, then the VFs in order
  friend bool operator==(const CardDescription&, const CardDescription&) = default;
};

// One JSON object; `indent` < 0: on one line.
std::string to_json(const CardDescription& card, int indent = 2);
// The text is data of unknown origin: every member must be there, of its type and in its range, and none besides. The
// error's source is the member ("card.functions[2].owner"). At most 64 KiB.
Expected<CardDescription> parse_card_description(std::string_view text);

}  // namespace svp
