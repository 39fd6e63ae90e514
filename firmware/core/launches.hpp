// SPDX-License-Identifier: Apache-2.0
// Kernels on cores (protocol §7). A launch is one COMPUTE block: the same image on one or more cores, one context each.
// Core c is hart c; hart 0 is core 0 besides managing the card, the others do nothing else. A context is resumable: it
// runs in slices, and between two slices hart 0 serves rings.
//
// Functions share cores and nothing else: each has launches, address spaces (AddressSpaces) and a share of firmware
// memory of its own, and a core gives every function that has parts on it its slices in turn (RunQueues).
//
// Who touches what: hart 0 prepares and collects launches; while a launch runs, the hart of each part runs it, handles
// its faults and reports through Launch. First error wins.
//
// States: kLaunchStates. Any hart of a running launch makes it Stopping or Ended; every other change is hart 0's. They
// are not logged one by one: starts are among the record's last events, ends are counted (STATS).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "firmware/core/address_spaces.hpp"
#include "firmware/core/fault_table.hpp"
#include "firmware/core/run_queues.hpp"
#include "firmware/core/timeouts.hpp"
#include "firmware/core/traces.hpp"
#include "firmware/hal/context.hpp"
#include "firmware/hal/spin_lock.hpp"
#include "shared/control_block.hpp"

namespace fw {

class Function;

inline constexpr unsigned kLaunchIndexBits = 8;  // of a LaunchHandle: the launch's place; above it a serial number
inline constexpr std::uint64_t kLaunchIndexMask = (std::uint64_t{1} << kLaunchIndexBits) - 1;
static_assert(kMaxLaunches <= kLaunchIndexMask + 1);

struct LaunchResult {
  LaunchHandle launch;
  std::uint32_t function;
  std::uint32_t stream;
  wire::Outcome outcome;
  Verdict why;
  wire::FaultRecord fault;
  std::uint64_t end_time;
  std::uint64_t slices;
  std::uint64_t kernel_ticks;          // in U-mode, all cores
  bool warned;                         // the watchdog's warning has still to be told (take_warnings())
  hal::PhysicalAddress failed_memory;  // what the compute array could not read; 0: nothing
};

// What a launch names, as the region table is now.
Verdict judge_launch(const RegionTable& regions, const wire::ComputePayload& compute);

class Launches {
 public:
  enum class Start : std::uint8_t { Started, Unfinished, NoRoom, Refused };

  void init(std::uint64_t default_budget, AddressSpaces& spaces, RunQueues& queues, RegionPool& pool,
            FaultTable& faults, Traces& traces);

  // Judges and prepares the launch of a stream's head block; nothing runs before release(). Unfinished: a step of the
  // image's checksum is done, and more are needed; call again with the same block. NoRoom: launches of the same
  // function are under way and have all its contexts, areas, launches or memory; try again when one has ended.
  // `launch` is set when it has started, and names it until collect() tells its end.
  Start start(const Function& function, unsigned stream, Block& block, LaunchHandle& launch, Verdict& why);
  void release(LaunchHandle launch);

  // The other way to start one: a launch of one part on core 0, whose context enters U-mode at once. Everything that it
  // needs exists already; the caller runs its first slice, and when that was not its end, the launch goes
  // on as one that was released (goes_on()). Hart 0 only, and nothing else of core 0's may be queued.
  using Place = AddressSpaces::Place;
  // Judges and prepares. False: start() finds out why.
  bool make_ready(const Function& function, const Block& block, Place& place);
  // Of a function that wants a trace: what goes_on() writes of its first slice for a launch that ends in it.
  [[gnu::cold, gnu::noinline]] void note_only_slice(const Function& function, const wire::ControlBlockHeader& header,
                                                    const hal::Stop& stop);
  // Its first slice has ended by `stop`. `launch` names it until collect() tells its end.
  [[gnu::noinline]] void goes_on(const Function& function, unsigned stream, const Block& block, const Place& place,
                                 const hal::Stop& stop, LaunchHandle& launch);

  // Kills a launch, or all of a function; they end as FAULT "stopped by its owner" through collect(), also one that was
  // prepared and not released. False: there is no such launch, or it has failed or ended already.
  bool stop(LaunchHandle launch);
  void stop_all(Owner function);
  // The same with a reason of its own. A launch that is only prepared still has to be released.
  bool fail(LaunchHandle launch, Verdict why, const wire::FaultRecord& fault);

  bool active(Owner function) const { return under_way_[function] != 0; }
  std::uint32_t under_way(Owner function) const { return under_way_[function]; }
  // Calls ended(const LaunchResult&) for every launch that has ended since the last call. True when there was one.
  template <typename Ended>
  bool collect(Ended ended);
  // Calls visit(function, stream, slices) for every launch that has used half of what its watchdog gives it, once each.
  template <typename Visit>
  void take_warnings(Visit visit);
  bool ended_pending() const { return ended_.load(std::memory_order_acquire) != 0; }

  // A core's own work, by its own hart. True when a part ran. `slice_ticks` bounds one slice.
  bool run_slice(unsigned core, std::uint64_t slice_ticks);
  // Whether a doorbell or a wake ended hart 0's last slice. Hart 0 only.
  bool signalled() const { return signalled_; }

 private:
  struct Part {
    std::uint8_t core;
    std::uint8_t context;
    bool parked;                 // at the barrier
    std::uint16_t stale_faults;  // faults on valid entries in a row (a stale translation is flushed once)
    std::uint64_t budget_used;   // device ticks in U-mode, at most one slice an iteration
    std::uint64_t slow;          // FaultAction::Slow: the slice takes so many times as long; 0: it does not
    std::uint64_t not_before;    // device ticks, while a row of FaultPoint::Kernel is armed
  };
  using State = LaunchState;
  // The watchdog's warning: told by hart 0, once.
  enum class Warning : std::uint8_t { None, Due, Told };
  struct SegmentPlace {
    hal::PhysicalAddress begin;
    std::uint64_t bytes;
  };
  struct Launch {
    SharedStateMachine<kLaunchStates> machine;
    std::atomic<std::uint32_t> parts_left{0};
    std::atomic<std::uint64_t> kernel_ticks{0};
    FunctionSpace* space = nullptr;
    LaunchHandle handle = kNoLaunch;  // kNoLaunch: free
    std::uint32_t stream = 0;
    bool high_priority = false;             // its stream's
    bool traced = false;                    // its function wants a trace
    std::uint64_t sequence = 0;             // of its block
    hal::PhysicalAddress result_begin = 0;  // FaultPoint::KernelResult: the first writable segment …
    std::uint64_t result_bytes = 0;         // … when the point was armed at the start; else 0
    bool breakable = false;                 // FaultPoint::Kernel was armed at the start; then also …
    std::uint32_t segments = 0;             // … bits: those of its block that are used
    std::array<SegmentPlace, wire::kSegments> segment{};
    std::atomic<Warning> warning{Warning::None};
    std::uint32_t parts = 0;
    std::uint32_t arrived = 0;     // at the barrier
    std::uint32_t exited = 0;      // by their own call: such a part never comes to a barrier again
    std::uint32_t next_ended = 0;  // see Launches::ended_
    std::uint8_t area = 0;
    LaunchResult result{};  // of errors the first: written by whoever makes it Stopping or Condemned
    std::uint64_t budget_slices = 0;
    std::atomic<std::uint64_t> claimed{0};  // items that were handed out since the start or the last barrier
    hal::SpinLock lock;                     // arrived, exited, parked
    std::array<Part, kMaxCores> part;       // [0, parts) are set
  };

  using Fit = AddressSpaces::Fit;

  std::span<Launch, kLaunchesPerFunction> launches_of(Owner function) {
    return std::span<Launch, kLaunchesPerFunction>(&launches_[function * kLaunchesPerFunction], kLaunchesPerFunction);
  }
  // nullptr: the function has kLaunchesPerFunction under way.
  Launch* free_launch(Owner function);
  // nullptr: it has been collected.
  Launch* find(LaunchHandle handle);
  std::uint8_t place_of(const Launch& launch) const { return static_cast<std::uint8_t>(&launch - launches_.data()); }
  static ContextSlot& slot_of(const Launch& launch, const Part& part) {
    return launch.space->cores[part.core]->contexts[part.context];
  }
  static std::uint64_t text_address(const Launch& launch, const Part& part);

  // launches.cpp: preparing, hart 0
  Fit prepare(const Function& function, Launch& launch, unsigned stream, Block& block, hal::PhysicalAddress image,
              Verdict& why);
  void begin(const Function& function, Launch& launch, unsigned stream, const Block& block, FunctionSpace& space);
  Fit add_parts(const Function& function, Launch& launch, const wire::ComputePayload& compute);
  // The part is number `index` of `parts`.
  void prepare_entry(const Function& function, const Place& place, std::uint32_t index, std::uint32_t parts,
                     const Block& block, const wire::ComputePayload& compute);
  void bring_correction(const Function& function, ContextSlot& slot, const Block& block,
                        const wire::ComputePayload& compute);
  void charge_correction(std::uint64_t bytes);
  [[gnu::noinline]] static void tell(const Place& place, const ContextSlot::Told& told);
  [[gnu::cold, gnu::noinline]] static void note_result(const Function& function, Launch& launch,
                                                       const wire::ComputePayload& compute);
  [[gnu::cold, gnu::noinline]] static void note_segments(const Function& function, Launch& launch,
                                                         const wire::ComputePayload& compute);
  void quit(Launch& launch);

  // slices.cpp: running, every hart its own parts
  void queue_part(const Launch& launch, Ticket ticket, bool fresh);
  static bool runs(const Launch& launch) {
    return launch.machine.is(State::Running) || launch.machine.is(State::Stopping);
  }
  void call_parts(Launch& launch);
  bool fail(Launch& launch, wire::Outcome outcome, Verdict why, const wire::FaultRecord& fault);
  [[gnu::cold, gnu::noinline]] bool watchdog(Launch& launch, Part& part, const hal::Stop& stop);
  void part_done(Launch& launch, unsigned core, std::uint64_t now);
  void arrive(Launch& launch, Ticket ticket, const hal::Stop& stop);
  static std::uint64_t claim(Launch& launch, std::uint64_t count);
  void leave(Launch& launch, Part& part, const hal::Stop& stop);
  bool first_touch(Launch& launch, Part& part, const hal::Stop& stop);
  static bool stale_translation(const Launch& launch, Part& part, const hal::Stop& stop);
  bool handle_stop(Launch& launch, Ticket ticket, const hal::Stop& stop);
  bool slice_ended(Launch& launch, Ticket ticket, const hal::Stop& stop);
  static wire::FaultRecord describe(Launch& launch, const Part& part, const hal::Stop& stop);

  struct Traced {
    Owner function;
    std::uint32_t stream;
    std::uint64_t sequence;
    unsigned core;
  };
  [[gnu::cold, gnu::noinline]] void note_slice(const Traced& of, const hal::Stop& stop);
  [[gnu::cold, gnu::noinline]] void note_request(const Launch& launch, const Part& part);

  // broken_launches.cpp: what armed faults do. Out of line, so that a slice that nothing breaks pays for a branch and
  // not for registers to save.
  static Occurrence occurrence_of(const Launch& launch, const Part& part);
  static std::uint64_t name_of(const Launch& launch, Ticket ticket);
  static Occurrence slice_of(Launch& launch, Ticket ticket, const hal::Context& context);
  [[gnu::cold, gnu::noinline]] bool break_slice(Launch& launch, Ticket ticket, hal::Context& context);
  void break_kernel(Launch& launch, Part& part, hal::Context& context, const Shot& shot);
  void flip_segment(Launch& launch, const Shot& shot);
  [[gnu::cold, gnu::noinline]] void corrupt_result(Launch& launch, const Part& part);
  [[gnu::cold, gnu::noinline]] bool array_failed(Launch& launch, Part& part, const hal::Stop& stop);
  [[gnu::cold, gnu::noinline]] void order_array(Launch& launch, const Part& part, hal::Context& context);

  std::uint64_t default_budget_ = 0;
  AddressSpaces* spaces_ = nullptr;
  RunQueues* queues_ = nullptr;
  RegionPool* pool_ = nullptr;
  FaultTable* faults_ = nullptr;
  Traces* traces_ = nullptr;
  std::uint64_t started_ = 0;  // launches; makes handles unique
  bool signalled_ = false;
  std::atomic<bool> warnings_{false};  // some launch's warning is due
  std::array<std::uint32_t, kLaunchFunctions> under_way_{};
  std::array<Launch, kMaxLaunches> launches_;  // those of function f from f * kLaunchesPerFunction on
  // Launches that have ended and are not collected: the newest one's place + 1, the others behind it by next_ended.
  // Harts push, hart 0 takes them all at once; a look costs one load, however many launches there can be.
  std::atomic<std::uint32_t> ended_{0};
};

template <typename Ended>
bool Launches::collect(Ended ended) {
  if (!ended_pending()) return false;  // a plain load: this is asked every iteration
  std::uint32_t next = ended_.exchange(0, std::memory_order_acquire);
  while (next != 0) {
    Launch& launch = launches_[next - 1];
    next = launch.next_ended;
    LaunchResult result = launch.result;
    for (std::uint32_t p = 0; p < launch.parts; ++p) {
      result.slices = std::max(result.slices, launch.part[p].budget_used / kSliceTicks);
    }
    result.kernel_ticks = launch.kernel_ticks.load(std::memory_order_relaxed);
    result.warned = launch.warning.load(std::memory_order_relaxed) == Warning::Due;
    quit(launch);
    ended(result);
  }
  return true;
}

template <typename Visit>
void Launches::take_warnings(Visit visit) {
  if (!warnings_.load(std::memory_order_relaxed) || !warnings_.exchange(false, std::memory_order_acquire)) return;
  for (Launch& launch : launches_) {
    if (launch.warning.load(std::memory_order_relaxed) != Warning::Due || !runs(launch)) continue;
    launch.warning.store(Warning::Told, std::memory_order_relaxed);
    visit(launch.result.function, launch.stream, launch.budget_slices);
  }
}

}  // namespace fw
