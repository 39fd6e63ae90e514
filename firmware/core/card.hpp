// SPDX-License-Identifier: Apache-2.0
// The whole card: what hart 0 manages, and its loop. One instance per firmware.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <expected>
#include <string_view>

#include "firmware/core/address_spaces.hpp"
#include "firmware/core/boot_options.hpp"
#include "firmware/core/fault_table.hpp"
#include "firmware/core/function.hpp"
#include "firmware/core/interrupt_moderation.hpp"
#include "firmware/core/launches.hpp"
#include "firmware/core/region_pool.hpp"
#include "firmware/core/run_queues.hpp"
#include "firmware/core/slot_table.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/post_codes.hpp"

namespace fw {

inline constexpr unsigned kMaxFunctions = wire::boot::kMaxVirtualFunctions + 2;
inline constexpr unsigned kManagement = 0;
inline constexpr unsigned kPhysical = 1;

// Turns of the loop that find nothing before hart 0 goes to sleep: long enough to catch the answer of a host that is
// awake (a round trip is about 1 µs), short against the cost of a wake-up (13–40 µs).
inline constexpr unsigned kIdleTurns = 200;
// A function that was quiet for so many looks in a row is looked at less often: one of the quiet ones every few turns. Its
// first block waits a few microseconds longer; in return nobody pays for neighbours who do nothing. After a long turn (a
// kernel's slice, a budget used up) all are looked at.
inline constexpr unsigned kQuietLooks = 256;
inline constexpr unsigned kTurnsPerQuietLook = 4;
static_assert(kIdleTurns > kTurnsPerQuietLook * kMaxFunctions, "every function is looked at before hart 0 sleeps");
static_assert(kMaxFunctions <= 32, "functions are bits of a word");
// Control messages come in conversations: a driver that is awake sends the next one about 8 µs after an answer. To wait
// for it is cheaper than to run a kernel meanwhile and be signalled out of it (25 µs). Bounded, so that a flood of messages gets
// its share and no more.
inline constexpr unsigned kSpinTurns = 40;
inline constexpr unsigned kMostSpins = 32;

// Scrubbing goes on beside everything else. When nobody wants anything, in steps of about 1 µs at emulated fill speed, as
// long as a round trip: whoever plays ping-pong with the card hardly notices. While others are busy it gets an eighth of
// hart 0's time, and half of it while somebody waits for the memory.
inline constexpr std::uint64_t kScrubStepBytes = 8 * 1024;
inline constexpr std::uint64_t kScrubBesideWorkBytes = 64 * 1024;
inline constexpr std::uint64_t kWorkPerScrub = 7;

struct Card {
  BootOptions options;
  FaultTable faults;
  RegionPool pool;
  std::array<Function, kMaxFunctions> functions;
  std::uint32_t function_count = 0;
  SlotTable slots;
  std::uint32_t busy_functions = 0;  // bit per function: looked at in every turn
  unsigned served_functions = 0;     // by the last turn
  bool served_control = false;       // likewise: control messages
  bool restart_requested = false;    // FIRMWARE_RESTART: at the end of this iteration
  bool look_at_all = false;          // the last turn was long: somebody quiet may have asked for something since
  unsigned quiet_cursor = 0;
  std::atomic<std::uint32_t> turns{0};  // of the loop; written by hart 0, read by its watchers
  AddressSpaces spaces;
  RunQueues run_queues;
  Launches launches;
  InterruptModeration doorbells;
  std::uint32_t core_count = 1;
  std::uint64_t boot_epoch = 0;
  std::uint64_t sleeps = 0;
  std::uint64_t next_heartbeat = 0;
  std::uint64_t heartbeat = 0;
  Served served;                       // to all functions
  std::uint64_t unseen_work = 0;       // steps since quiet functions were looked at
  std::uint64_t stepped_at = 0;        // device ticks: the end of the last step of a transfer or a launch
  std::uint64_t scrubbed_at = 0;       // device ticks: the last time beside work …
  std::uint64_t scrub_took = 0;        // … and how long
  bool scrub_wanted = false;           // an acquire waits for memory that is not clean yet
  unsigned turns_since_look = 0;       // at the clock; a turn that served more than a few things counts as several
  std::uint64_t memory_corrected = 0;  // errors since boot
  wire::PostCode post = wire::PostCode::None;

  // Whether more than one function keeps hart 0 busy, with its rings or with kernels: then each gets smaller helpings.
  bool contended() const {
    const std::uint32_t busy = busy_functions | run_queues.functions_on(0);
    return (busy & (busy - 1)) != 0;
  }
  bool busy(const Function& function) const { return (busy_functions >> function.id & 1) != 0; }
  void look_at(Function& function) {
    // Who was quiet waits for its turn from now on.
    if (!busy(function)) function.seen.quanta = served.quanta;
    busy_functions |= std::uint32_t{1} << function.id;
  }
  // So many blocks, or as much as they cost, have been served. Quiet functions are looked at after a quantum of it.
  void note_work(std::uint64_t steps);

  std::uint64_t core_mask() const {
    return core_count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << core_count) - 1;
  }
};

// Boots the card from what hal found: options, region pool, functions bound to slots 0 … n + 1, cores. The string is
// the reason of a failed boot.
std::expected<void, std::string_view> boot(Card& card);

// What a window's header says of the boot: wire::PostCode.
std::uint32_t shown_post(const Card& card);

// Whether anybody but `function` has something for hart 0, or the function wants a message answered: what may take long
// on hart 0 asks it now and then.
bool somebody_waits(Card& card, const Function& function);

// Increments the heartbeat when it is due. Called between any two things that hart 0 does; reads the clock only now and
// then, and at once when work has read it already and it was time.
void beat(Card& card);

// One turn of hart 0's loop: everything that is ready, within budgets. True when there was something.
bool turn(Card& card);
// What hart 0 does with a turn that found nothing: run a kernel slice, or sleep until something can have changed.
void idle(Card& card, unsigned& quiet_turns);
// A turn and what follows from it: the body of hart 0's loop. Restarts the firmware when M has asked for it.
void loop_step(Card& card, unsigned& quiet_turns);

// Boots and serves for ever.
[[noreturn]] void boot_main(unsigned hart);
// What harts 1 … n do.
[[noreturn]] void core_main(unsigned hart);

}  // namespace fw
