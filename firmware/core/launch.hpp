// SPDX-License-Identifier: Apache-2.0
// Kernels on cores (protocol §7). A launch is one COMPUTE block: the same image on one or more cores, one context each.
// Core c is hart c; hart 0 is core 0 besides managing the card, the others do nothing else. A context is resumable: it
// runs in slices, and between two slices hart 0 serves rings.
//
// Functions share cores and nothing else: each has launches, address spaces and a share of firmware memory of its own,
// and a core gives every function that has parts on it the same number of slices.
//
// A launch runs on the address space that was its function's current one at its start, to its end. What adds to a space
// (another region, core, image) is done in place; what takes something away retires it: launches under way go on there,
// later ones get a new space, and the old one is freed, with the released regions that it maps, when its last launch
// has ended. So no mapping is ever taken from under a running kernel.
//
// Who touches what: hart 0 prepares and collects launches and owns address spaces and areas; while a launch runs, the
// hart of each part runs it, handles its faults and reports through Launch. First error wins.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "firmware/core/fault_table.hpp"
#include "firmware/core/function.hpp"
#include "firmware/core/image.hpp"
#include "firmware/core/spinlock.hpp"
#include "firmware/core/timeouts.hpp"
#include "firmware/hal/context.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/control_block.hpp"
#include "shared/kernel_abi.hpp"

namespace fw {

struct Card;
class RegionPool;

inline constexpr unsigned kMaxCores = 64;        // bits of a core mask
inline constexpr unsigned kContextsPerCore = 4;  // of one address space on one core
inline constexpr unsigned kLaunchFunctions = wire::boot::kMaxVirtualFunctions + 2;
inline constexpr unsigned kLaunchesPerFunction = 8;  // under way
inline constexpr unsigned kMaxLaunches = kLaunchFunctions * kLaunchesPerFunction;
inline constexpr unsigned kLaunchIndexBits = 8;  // of a LaunchHandle: the launch's place; above it a serial number
inline constexpr std::uint64_t kLaunchIndexMask = (std::uint64_t{1} << kLaunchIndexBits) - 1;
static_assert(kMaxLaunches <= kLaunchIndexMask + 1);
inline constexpr unsigned kSpacesPerFunction = 4;  // the current one and those that only wait for their launches

struct LaunchResult {
  LaunchHandle launch;
  std::uint32_t function;
  std::uint32_t stream;
  wire::Outcome outcome;
  Verdict why;
  wire::FaultRecord fault;
  std::uint64_t end_time;
  std::uint64_t slices;
  std::uint64_t kernel_ticks;  // in U-mode, all cores
  bool warned;                 // the watchdog's warning has still to be told (take_warnings())
};

class CoreManager {
 public:
  enum class Start { Started, Unfinished, NoRoom, Refused };

  // `functions` is how many of them launch kernels: they share firmware memory in equal parts (share_bytes()).
  void init(unsigned cores, unsigned functions, std::uint64_t default_budget, RegionPool& pool, FaultTable& faults);

  // Judges and prepares the launch of a stream's head block; nothing runs before release(). Unfinished: a step of the
  // image's checksum is done, and more are needed; call again with the same block. NoRoom: launches of the same
  // function are under way and have all its contexts, areas, launches or memory; try again when one has ended.
  // `launch` is set when it has started, and names it until collect() tells its end.
  Start start(Card& card, Function& function, unsigned stream, Block& block, LaunchHandle& launch, Verdict& why);
  // Bytes that start() has summed, copied and cleared, since boot: what it took of hart 0.
  std::uint64_t prepared_bytes() const { return prepared_bytes_; }
  void release(LaunchHandle launch);

  // Kills a launch, or all of a function; they end as FAULT "stopped by its owner" through collect(), also one that was
  // prepared and not released. False: there is no such launch, or it has failed or ended already.
  bool stop(LaunchHandle launch);
  void stop(const Function& function);
  // The same with a reason of its own. A launch that is only prepared still has to be released.
  bool fail(LaunchHandle launch, Verdict why, const wire::FaultRecord& fault);

  bool active(const Function& function) const { return launches(function) != 0; }
  std::uint32_t launches(const Function& function) const { return tenants_[function.id].launches; }
  // Calls ended(const LaunchResult&) for every launch that has ended since the last call. True when there was one.
  template <typename Ended>
  bool collect(Ended ended);
  // Calls visit(function, stream, slices) for every launch that has used half of what its watchdog gives it, once each.
  template <typename Visit>
  void take_warnings(Visit visit);
  bool ended_pending() const { return ended_.load(std::memory_order_acquire) != 0; }

  // A region that is about to leave the function's table: later launches do not see it, those under way go on with it,
  // and its memory goes back to the pool when the last of them has ended, at once when there is none. False, and
  // nothing has changed: every address space of the function is in use; try again when a launch has ended.
  [[nodiscard]] bool release_region(const Function& function, unsigned ordinal);

  // Drops cached images, contexts and page tables. No launch of the function may be active.
  void forget(const Function& function);
  // [address, +bytes) of card memory is about to be written: images loaded from there no longer match.
  void note_write(const Function& function, hal::PhysicalAddress address, std::uint64_t bytes);

  // Firmware memory that one function may hold: an equal part of the arena, but at least smallest_share(), which is one
  // context on each of `cores` cores and one image, both as large as they may be. Only where the smallest shares do not
  // fit the arena together (15 functions and more on 64 cores) can other functions use up what one may have.
  std::uint64_t share_bytes() const { return share_; }
  static std::uint64_t smallest_share(unsigned cores);
  std::uint64_t held_pages_bytes(const Function& function) const { return tenants_[function.id].bytes; }
  // Pages of the arena that functions hold, as the arena itself counts them. The page of prepare_planted() is the card's.
  std::uint64_t arena_pages() const;

  // Slices that the function gets in its turn on every core, from 1 on.
  void set_weight(const Function& function, std::uint32_t weight) {
    weights_[function.id].store(static_cast<std::uint8_t>(weight), std::memory_order_relaxed);
  }

  // The most slices of other functions that a part of this one has waited for on any core, from when it wanted the core
  // until it had it, since forget(). At most the sum of the others' weights.
  std::uint64_t most_waited_slices(const Function& function) const;

  // A core's own work. True when a part ran. `slice_ticks` bounds one slice.
  bool has_work(unsigned core) const { return queues_[core].waiting.load(std::memory_order_acquire) != 0; }
  // Bit per function that has a part waiting for the core: a snapshot.
  std::uint32_t functions_on(unsigned core) const { return queues_[core].ready.load(std::memory_order_relaxed); }
  bool front_is_fresh(unsigned core) const { return queues_[core].fresh.load(std::memory_order_relaxed); }
  bool run_slice(unsigned core, std::uint64_t slice_ticks);
  // Whether a doorbell or a wake ended the core's last slice. By the core's own hart.
  bool signalled(unsigned core) const { return queues_[core].signalled; }

  // FaultPoint::Kernel: launches that begin from now on have mapped what a kernel that is broken runs into. False: no
  // memory for it.
  bool prepare_planted();

 private:
  struct Tenant;

  // What a space has on one core: a page table and contexts that only its function ever uses.
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
    std::uint8_t windows;  // regions shared into this root; the core's own hart reads it (atomic_ref)
    std::uint8_t planted;  // 1: the planted instructions are mapped; likewise
    std::array<ContextSlot, kContextsPerCore> contexts;
  };
  // A region as a space maps it. Written before its window is shared, constant while it is.
  struct MappedRegion {
    hal::PhysicalAddress base;
    std::uint64_t bytes;
    bool released;  // by its owner: goes back to the pool with the last space that maps it
  };
  // Lives in zeroed pages: every member starts as zero.
  struct FunctionSpace {
    Tenant* tenant;
    std::uint32_t launches;         // under way on this space
    std::uint32_t regions_version;  // of the region table that `windows` was made for
    std::uint64_t root;             // holds the region tables; never run itself
    std::uint64_t bytes;            // firmware memory of this space, page tables included
    std::uint8_t windows;           // regions whose tables exist
    std::array<MappedRegion, wire::kRegionsPerFunction> regions;
    std::array<ExecutionArea, wire::kExecutionAreas> areas;
    std::array<CoreSpace*, kMaxCores> cores;
    hal::PhysicalAddress images_begin;  // bounds of all cached images
    hal::PhysicalAddress images_end;
  };
  static constexpr std::uint64_t kCoreSpaceBytes = wire::align_up(sizeof(CoreSpace), kPageBytes);
  static constexpr std::uint64_t kFunctionSpaceBytes = wire::align_up(sizeof(FunctionSpace), kPageBytes);
  // What the cores hold of one function. Hart 0 only.
  struct Tenant {
    FunctionSpace* current = nullptr;
    std::array<FunctionSpace*, kSpacesPerFunction - 1> retired{};
    std::uint32_t launches = 0;  // under way, on all spaces
    std::uint64_t bytes = 0;     // firmware memory of all spaces
  };

  struct Part {
    std::uint8_t core;
    std::uint8_t context;
    bool parked;                 // at the barrier
    bool fresh;                  // has not run yet
    std::uint16_t stale_faults;  // faults on valid entries in a row (a stale translation is flushed once)
    std::uint64_t budget_used;   // device ticks in U-mode, at most one slice a turn
    std::uint64_t slow;          // FaultAction::Slow: the slice takes so many times as long; 0: it does not
    std::uint64_t not_before;    // device ticks, while a row of FaultPoint::Kernel is armed
  };
  enum class State : std::uint8_t { Free, Prepared, Running, Ended };
  struct Launch {
    std::atomic<State> state{State::Free};
    std::atomic<bool> kill{false};
    std::atomic<std::uint32_t> parts_left{0};
    std::atomic<std::uint64_t> kernel_ticks{0};
    FunctionSpace* space = nullptr;
    LaunchHandle handle = kNoLaunch;  // kNoLaunch: free
    std::uint32_t stream = 0;
    bool high_priority = false;             // its stream's
    std::uint64_t sequence = 0;             // of its block
    hal::PhysicalAddress result_begin = 0;  // FaultPoint::KernelResult: the first writable segment …
    std::uint64_t result_bytes = 0;         // … when the point was armed at the start; else 0
    std::atomic<bool> warned{false};        // the watchdog's warning: due …
    bool warning_told = false;              // … and told; hart 0 only
    std::uint32_t parts = 0;
    std::uint32_t arrived = 0;     // at the barrier
    std::uint32_t exited = 0;      // by their own call: such a part never comes to a barrier again
    std::uint32_t next_ended = 0;  // see CoreManager::ended_
    std::uint8_t area = 0;
    bool decided = false;  // the first error is kept
    LaunchResult result{};
    std::uint64_t budget_slices = 0;
    Spinlock lock;                     // arrived, exited, parked, decided, result
    std::array<Part, kMaxCores> part;  // [0, parts) are set
  };
  struct Ticket {
    std::uint8_t launch;
    std::uint8_t part;
  };
  static_assert(kMaxLaunches <= 256 && kMaxCores <= 256);
  // Oldest first. A launch has at most one part on a core, and a part at most one ticket, so there is room for all.
  struct TicketRing {
    std::uint8_t head = 0;
    std::uint8_t count = 0;
    std::array<Ticket, kLaunchesPerFunction> tickets{};

    void push(Ticket ticket) { tickets[(head + count++) % kLaunchesPerFunction] = ticket; }
    Ticket pop() {
      const Ticket first = tickets[head];
      head = (head + 1) % kLaunchesPerFunction;
      --count;
      return first;
    }
  };
  // The parts of one function that want a core.
  struct FunctionQueue {
    TicketRing low;
    TicketRing high;  // of streams of high priority
    PriorityTurns turns;
    std::uint64_t seen_slices = 0;              // CoreQueue::slices when it was served last, or began to wait
    std::atomic<std::uint32_t> most_waited{0};  // slices of others that it has waited for, at a time
    bool empty() const { return low.count == 0 && high.count == 0; }
  };
  struct CoreQueue {
    Spinlock lock;
    std::atomic<std::uint32_t> waiting{0};  // of all functions
    std::atomic<bool> fresh{false};
    std::atomic<std::uint32_t> ready{0};  // bit per function that has parts here; written under the lock
    std::uint32_t last = 0;               // the function served last: it is the last to be served again …
    std::uint32_t slices_left = 0;        // … but for so many slices more
    std::uint64_t slices = 0;             // that have begun here, of all functions
    bool signalled = false;               // a doorbell or a wake ended the last slice; the core's own hart only
    std::array<FunctionQueue, kLaunchFunctions> functions{};
  };
  static_assert(kLaunchFunctions < 32);

  // Whether a launch can be prepared. NoPages: the function's share, or the arena, is used up.
  // Unfinished: the image's checksum is.
  enum class Fit { Yes, Refused, Busy, NoPages, Unfinished };

  std::span<Launch, kLaunchesPerFunction> launches_of(const Function& function);
  // nullptr: it has been collected.
  Launch* find(LaunchHandle handle);
  static Verdict judge(const Function& function, const wire::ComputePayload& compute, hal::PhysicalAddress& image);
  Fit prepare(const Function& function, Launch& launch, unsigned stream, Block& block, hal::PhysicalAddress image,
              Verdict& why);
  Fit add_parts(const Function& function, Launch& launch, const wire::ComputePayload& compute);
  Fit add_part(Launch& launch, unsigned core);
  void prepare_entry(const Function& function, Launch& launch, unsigned index, const wire::ComputePayload& compute);
  void quit(Launch& launch);

  FunctionSpace* ensure_space(const Function& function);
  Fit find_area(FunctionSpace& space, hal::PhysicalAddress source, std::uint64_t bytes, std::uint8_t& index,
                ImageCheck& check, Verdict& why);
  Fit judge_image(std::span<const std::byte> image, hal::PhysicalAddress source, const wire::ImageHeader& header,
                  ImageCheck& check, Verdict& why);
  bool ensure_regions(const Function& function, FunctionSpace& space);
  CoreSpace* ensure_core(FunctionSpace& space, unsigned core);
  bool ensure_context(FunctionSpace& space, CoreSpace& core, unsigned slot, unsigned area_index);
  bool map_context_data(FunctionSpace& space, CoreSpace& core, unsigned slot);
  static bool share_regions(const FunctionSpace& space, CoreSpace& core);
  static bool maps(const FunctionSpace* space, hal::PhysicalAddress base);
  bool retire(Tenant& tenant);
  void destroy(FunctionSpace*& entry);
  static void destroy_core(FunctionSpace& space, CoreSpace& core);

  bool fits(const Tenant& tenant, std::uint64_t bytes) const { return tenant.bytes + bytes <= share_; }
  static void charge(FunctionSpace& space, std::uint64_t bytes);
  hal::PhysicalAddress take_pages(FunctionSpace& space, std::uint64_t bytes);
  template <typename Make>
  bool make_tables(FunctionSpace& space, Make make);

  void push(unsigned core, Ticket ticket, bool fresh);
  bool pop(unsigned core, Ticket& ticket);
  void kill(Launch& launch);
  bool fail(Launch& launch, wire::Outcome outcome, Verdict why, const wire::FaultRecord& fault);
  [[gnu::cold, gnu::noinline]] bool watchdog(Launch& launch, Part& part, const hal::Stop& stop);
  void part_done(Launch& launch, unsigned core);
  void arrive(Launch& launch, Ticket ticket, const hal::Stop& stop);
  void leave(Launch& launch, Part& part, const hal::Stop& stop);
  bool first_touch(Launch& launch, Part& part, const hal::Stop& stop);
  static bool stale_translation(const Launch& launch, Part& part, const hal::Stop& stop);
  bool handle_stop(Launch& launch, Ticket ticket, const hal::Stop& stop);
  [[gnu::cold, gnu::noinline]] bool plant_in(FunctionSpace& space, CoreSpace& core, hal::PhysicalAddress page);
  [[gnu::cold, gnu::noinline]] void note_result(const Function& function, Launch& launch,
                                                const wire::ComputePayload& compute);
  static Occurrence occurrence_of(const Launch& launch);
  // Out of line, so that a slice that nothing breaks pays for a branch and not for registers to save.
  [[gnu::cold, gnu::noinline]] bool break_slice(Launch& launch, Ticket ticket, hal::Context& context);
  void break_kernel(Launch& launch, Part& part, hal::Context& context, const Shot& shot);
  [[gnu::cold, gnu::noinline]] void corrupt_result(Launch& launch);
  wire::FaultRecord describe(const Launch& launch, const Part& part, const hal::Stop& stop) const;
  static std::uint64_t text_address(const Launch& launch, const Part& part);

  unsigned cores_ = 1;
  std::uint64_t default_budget_ = 0;
  std::uint64_t share_ = 0;
  std::uint64_t prepared_bytes_ = 0;
  RegionPool* pool_ = nullptr;
  FaultTable* faults_ = nullptr;
  std::uint64_t started_ = 0;          // launches; makes handles unique
  hal::PhysicalAddress planted_ = 0;   // the page of hal::plant(); 0: never asked for
  std::atomic<bool> warnings_{false};  // some launch's warning is due
  std::array<Tenant, kLaunchFunctions> tenants_;
  std::array<Launch, kMaxLaunches> launches_;  // those of function f from f * kLaunchesPerFunction on
  std::array<CoreQueue, kMaxCores> queues_;
  std::array<std::atomic<std::uint8_t>, kLaunchFunctions> weights_{};  // 1 from init() on
  // Launches that have ended and are not collected: the newest one's place + 1, the others behind it by next_ended.
  // Harts push, hart 0 takes them all at once; a look costs one load, however many launches there can be.
  std::atomic<std::uint32_t> ended_{0};
};

template <typename Ended>
bool CoreManager::collect(Ended ended) {
  if (!ended_pending()) return false;  // a plain load: this is asked every turn
  std::uint32_t next = ended_.exchange(0, std::memory_order_acquire);
  while (next != 0) {
    Launch& launch = launches_[next - 1];
    next = launch.next_ended;
    LaunchResult result = launch.result;
    for (std::uint32_t p = 0; p < launch.parts; ++p) {
      result.slices = std::max(result.slices, launch.part[p].budget_used / kSliceTicks);
    }
    result.kernel_ticks = launch.kernel_ticks.load(std::memory_order_relaxed);
    result.warned = launch.warned.load(std::memory_order_relaxed) && !launch.warning_told;
    quit(launch);
    ended(result);
  }
  return true;
}

template <typename Visit>
void CoreManager::take_warnings(Visit visit) {
  if (!warnings_.load(std::memory_order_relaxed) || !warnings_.exchange(false, std::memory_order_acquire)) return;
  for (Launch& launch : launches_) {
    if (launch.state.load(std::memory_order_relaxed) != State::Running || launch.warning_told) continue;
    if (!launch.warned.load(std::memory_order_relaxed)) continue;
    launch.warning_told = true;
    visit(launch.result.function, launch.stream, launch.budget_slices);
  }
}

}  // namespace fw
