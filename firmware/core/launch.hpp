// SPDX-License-Identifier: Apache-2.0
// Kernels on cores (protocol §7). A launch is one COMPUTE block: the same image on one or more cores, one context each.
// Core c is hart c; hart 0 is core 0 besides managing the card, the others do nothing else. A context is resumable: it
// runs in slices, and between two slices hart 0 serves rings.
//
// Who touches what: hart 0 prepares and collects launches and owns address spaces and areas; while a launch runs, the
// hart of each part runs it, handles its faults and reports through Launch. First error wins.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "firmware/core/function.hpp"
#include "firmware/core/image.hpp"
#include "firmware/core/spinlock.hpp"
#include "firmware/hal/context.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/control_block.hpp"
#include "shared/kernel_abi.hpp"

namespace fw {

struct Card;
class RegionPool;

inline constexpr unsigned kMaxCores = 64;        // bits of a core mask
inline constexpr unsigned kContextsPerCore = 4;  // of one function on one core
inline constexpr unsigned kMaxLaunches = 32;     // under way on the card
// The timer is armed once per first slice and serves the launches that follow in it; arming it wakes the emulator's main
// loop. 50 µs cost an empty kernel a quarter of its rate; 200 µs is what a ring may wait for at most meanwhile.
inline constexpr std::uint64_t kFirstSliceTicks = 200 * wire::kTicksPerMicrosecond;
// A slice that is run between two turns while several functions are busy: about what a turn of one of them takes.
inline constexpr std::uint64_t kSharedSliceTicks = 100 * wire::kTicksPerMicrosecond;
inline constexpr std::uint64_t kSliceTicks = 1000 * wire::kTicksPerMicrosecond;

struct LaunchResult {
  std::uint32_t function;
  std::uint32_t stream;
  wire::Outcome outcome;
  Verdict why;
  wire::FaultRecord fault;
  std::uint64_t end_time;
  std::uint64_t slices;
  std::uint64_t kernel_ticks;  // in U-mode, all cores
};

class CoreManager {
 public:
  enum class Start { Started, NoRoom, Refused };

  void init(unsigned cores, std::uint64_t default_budget, RegionPool& pool);

  // Judges and prepares the launch of a stream's head block; nothing runs before release(). NoRoom: all contexts, areas
  // or launches are in use by launches under way; try again when one has ended.
  Start start(Card& card, Function& function, unsigned stream, const wire::ControlBlock& block, Verdict& why);
  void release(const Function& function, unsigned stream);

  // Kills what runs; the launches end as FAULT "stopped by its owner" through collect().
  void stop(const Function& function, unsigned stream);
  void stop(const Function& function);

  bool active(const Function& function) const;
  // Calls ended(const LaunchResult&) for every launch that has ended since the last call. True when there was one.
  template <typename Ended>
  bool collect(Ended ended);
  bool ended_pending() const { return ended_.load(std::memory_order_acquire) != 0; }

  // Drops cached images, contexts and page tables. No launch of the function may be active.
  void forget(Function& function);
  // [address, +bytes) of card memory is about to be written: images loaded from there no longer match.
  void note_write(const Function& function, hal::PhysicalAddress address, std::uint64_t bytes);

  // A core's own work. True when a part ran. `slice_ticks` bounds one slice.
  bool has_work(unsigned core) const { return queues_[core].waiting.load(std::memory_order_acquire) != 0; }
  bool front_is_fresh(unsigned core) const { return queues_[core].fresh.load(std::memory_order_relaxed); }
  bool run_slice(unsigned core, std::uint64_t slice_ticks);

 private:
  // What a function has on one core: a page table and contexts that only this function ever uses.
  struct ContextSlot {
    hal::Context context;
    bool busy;
    bool mapped;  // data and scratchpad
    std::uint16_t mapped_areas;
    hal::PhysicalAddress data;  // stack, arguments, correction (one run of pages)
    hal::PhysicalAddress scratchpad;
    std::array<hal::PhysicalAddress, wire::kExecutionAreas> pools;
  };
  struct CoreSpace {
    std::uint64_t root;
    std::uint8_t windows;  // regions shared into this root
    std::array<ContextSlot, kContextsPerCore> contexts;
  };
  struct FunctionSpace {
    std::uint64_t root = 0;             // holds the region tables; never run itself
    std::uint8_t windows = 0;           // regions whose tables exist
    std::uint32_t regions_version = 0;  // of the region table that `windows` was made for
    std::array<ExecutionArea, wire::kExecutionAreas> areas{};
    std::array<CoreSpace*, kMaxCores> cores{};
    hal::PhysicalAddress images_begin = ~hal::PhysicalAddress{0};  // bounds of all cached images
    hal::PhysicalAddress images_end = 0;
  };

  struct Part {
    std::uint8_t core;
    std::uint8_t context;
    bool parked;                 // at the barrier
    bool fresh;                  // has not run yet
    std::uint16_t stale_faults;  // faults on valid entries in a row (a stale translation is flushed once)
    std::uint64_t budget_used;   // device ticks in U-mode, at most one slice a turn
  };
  enum class State : std::uint8_t { Free, Prepared, Running, Ended };
  struct Launch {
    std::atomic<State> state{State::Free};
    std::atomic<bool> kill{false};
    std::atomic<std::uint32_t> parts_left{0};
    std::atomic<std::uint64_t> kernel_ticks{0};
    Function* function = nullptr;
    std::uint32_t stream = 0;
    std::uint32_t parts = 0;
    std::uint32_t arrived = 0;  // at the barrier
    std::uint32_t exited = 0;   // by their own call: such a part never comes to a barrier again
    std::uint8_t area = 0;
    bool decided = false;  // the first error is kept
    LaunchResult result{};
    std::uint64_t budget_slices = 0;
    Spinlock lock;  // arrived, exited, parked, decided, result
    std::array<Part, kMaxCores> part{};
  };
  // Parts that want a core, oldest first.
  struct Ticket {
    std::uint8_t launch;
    std::uint8_t part;
  };
  struct CoreQueue {
    Spinlock lock;
    std::atomic<std::uint32_t> waiting{0};
    std::atomic<bool> fresh{false};
    std::uint32_t head = 0;
    std::array<Ticket, kMaxLaunches> tickets{};
  };

  FunctionSpace& space(const Function& function) { return spaces_[function.id]; }
  Launch* find(const Function& function, unsigned stream);
  Verdict judge(const Function& function, const wire::ComputePayload& compute) const;
  int find_area(Function& function, const wire::ComputePayload& compute, Verdict& why);
  bool ensure_regions(Function& function);
  CoreSpace* ensure_core(Function& function, unsigned core);
  bool share_regions(Function& function, CoreSpace& core);
  bool ensure_context(CoreSpace& core, unsigned slot, unsigned area_index, const ExecutionArea& area);
  bool map_context_data(CoreSpace& core, unsigned slot);
  bool add_part(Function& function, Launch& launch, unsigned core, const wire::ComputePayload& compute);
  void prepare_entry(Function& function, Launch& launch, Part& part, unsigned index,
                     const wire::ComputePayload& compute);
  void abandon(Launch& launch);
  void push(unsigned core, Ticket ticket, bool fresh);
  bool pop(unsigned core, Ticket& ticket);
  void kill(Launch& launch);
  void fail(Launch& launch, wire::Outcome outcome, Verdict why, const wire::FaultRecord& fault);
  void part_done(Launch& launch, unsigned core);
  void arrive(Launch& launch, Ticket ticket, const hal::Stop& stop);
  void leave(Launch& launch, Part& part, const hal::Stop& stop);
  bool first_touch(Launch& launch, Part& part, const hal::Stop& stop);
  bool handle_stop(Launch& launch, Ticket ticket, const hal::Stop& stop);
  wire::FaultRecord describe(const Launch& launch, const Part& part, const hal::Stop& stop) const;
  std::uint64_t text_address(const Launch& launch, const Part& part) const;

  unsigned cores_ = 1;
  std::uint64_t default_budget_ = 0;
  RegionPool* pool_ = nullptr;
  std::array<FunctionSpace, wire::boot::kMaxVirtualFunctions + 2> spaces_;
  std::array<Launch, kMaxLaunches> launches_;
  std::array<CoreQueue, kMaxCores> queues_;
  std::atomic<std::uint32_t> ended_{0};  // bit per launch
};

template <typename Ended>
bool CoreManager::collect(Ended ended) {
  if (!ended_pending()) return false;  // a plain load: this is asked every turn
  std::uint32_t set = ended_.exchange(0, std::memory_order_acquire);
  for (; set != 0; set &= set - 1) {
    Launch& launch = launches_[static_cast<unsigned>(std::countr_zero(set))];
    FunctionSpace& functions = space(*launch.function);
    --functions.areas[launch.area].users;
    for (std::uint32_t p = 0; p < launch.parts; ++p) {
      functions.cores[launch.part[p].core]->contexts[launch.part[p].context].busy = false;
    }
    LaunchResult result = launch.result;
    for (std::uint32_t p = 0; p < launch.parts; ++p) {
      result.slices = std::max(result.slices, launch.part[p].budget_used / kSliceTicks);
    }
    result.kernel_ticks = launch.kernel_ticks.load(std::memory_order_relaxed);
    launch.state.store(State::Free, std::memory_order_relaxed);
    ended(result);
  }
  return true;
}

}  // namespace fw
