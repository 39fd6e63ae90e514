// SPDX-License-Identifier: Apache-2.0
// The whole card: what hart 0 manages. One instance per firmware. boot.hpp brings it up, main_loop.hpp runs it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "firmware/core/address_spaces.hpp"
#include "firmware/core/boot_options.hpp"
#include "firmware/core/event_grants.hpp"
#include "firmware/core/fault_table.hpp"
#include "firmware/core/first_slices.hpp"
#include "firmware/core/function_table.hpp"
#include "firmware/core/heartbeat.hpp"
#include "firmware/core/interrupt_moderation.hpp"
#include "firmware/core/launches.hpp"
#include "firmware/core/poll_plan.hpp"
#include "firmware/core/region_pool.hpp"
#include "firmware/core/run_queues.hpp"
#include "firmware/core/scrub_pace.hpp"
#include "firmware/core/slot_table.hpp"
#include "firmware/core/traces.hpp"

namespace fw {

class Card {
 public:
  // ---- parts: each keeps its own promises

  BootOptions options;
  FaultTable faults;
  RegionPool pool;
  FunctionTable functions;
  SlotTable slots;
  AddressSpaces spaces;
  RunQueues run_queues;
  Launches launches;
  Traces traces;
  PollPlan plan;
  EventGrants event_grants{functions, plan};
  Heartbeat heart;
  ScrubPace scrubs;
  InterruptModeration doorbells;
  FirstSlices first_slices;
  PatchRoom patch_room;

  // ---- the state of the card

  CardState state() const { return machine_.state(); }
  // Logs the step, on the console and among the last events; windows show it from then on (shown_post()).
  void set_state(CardState to);
  std::uint64_t boot_epoch() const { return boot_epoch_; }
  void set_boot_epoch(std::uint64_t epoch) { boot_epoch_ = epoch; }

  // FIRMWARE_RESTART: hart 0 restarts the board when this iteration of its loop is over.
  void request_restart() { restart_requested_ = true; }
  bool restart_requested() const { return restart_requested_; }

  // ---- its cores

  // Sets up spaces, queues and launches for as many cores as can be used of `harts`.
  void init_cores(unsigned harts);
  std::uint32_t core_count() const { return core_count_; }
  std::uint64_t core_mask() const {
    return core_count_ >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << core_count_) - 1;
  }

  // ---- its work

  // Whether more than one function keeps hart 0 busy, with its rings or with kernels: then each gets smaller helpings.
  bool contended() const {
    const std::uint32_t busy = plan.busy_functions() | plan.serving() | run_queues.functions_on(0);
    return (busy & (busy - 1)) != 0;
  }
  // So many blocks, or as much as they cost, have been served. Quiet functions are looked at after a quantum of it.
  void note_work(std::uint64_t steps) {
    heart.count_iterations(steps / kStepsOfAnIteration);
    plan.note_steps(steps, kContendedBudget);
  }
  // What an iteration may spend on one function before the others get theirs, while several are busy. Blocks that cost
  // the card three quarters of a microsecond each (empty or refused ones) must not get more of an iteration than the
  // bytes of others, which get kQuantumTicks.
  static constexpr unsigned kContendedBudget = 32;

  // ---- counters

  std::uint64_t sleeps() const { return sleeps_; }
  void count_sleep() { ++sleeps_; }
  std::uint64_t memory_corrected() const { return memory_corrected_; }  // errors since boot
  std::uint64_t count_corrected() { return ++memory_corrected_; }

 private:
  static constexpr unsigned kStepsOfAnIteration = 4;  // that cost as much as an empty iteration and a look at the clock

  StateMachine<kCardStates> machine_;
  bool restart_requested_ = false;
  std::uint32_t core_count_ = 1;
  std::uint64_t boot_epoch_ = 0;
  std::uint64_t sleeps_ = 0;
  std::uint64_t memory_corrected_ = 0;
};

// What a window's header says of the boot: wire::PostCode.
std::uint32_t shown_post(const Card& card);

}  // namespace fw
