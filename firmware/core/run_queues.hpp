// SPDX-License-Identifier: Apache-2.0
// Which part of a launch a core runs next. A core serves the functions that have parts on it in turn, as many slices
// each as its weight says (one, unless M or the PF gave it more): however many parts a function has, it gets no more of
// the core than another with one. The parts of a function go first in, first out, those of streams with high priority
// before the others (PriorityRotation).
//
// Threading: any hart pushes to any core and asks; a core's own hart pops. Polled every iteration of hart 0's loop:
// what is asked there is one load.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "firmware/core/launch_limits.hpp"
#include "firmware/core/memory_shares.hpp"
#include "firmware/core/stream.hpp"
#include "firmware/hal/spin_lock.hpp"

namespace fw {

// A part of a launch that wants a core: places in the tables of Launches.
struct Ticket {
  std::uint8_t launch;
  std::uint8_t part;
};
static_assert(kMaxLaunches <= 256 && kMaxCores <= 256);

class RunQueues {
 public:
  void init();

  // A function has at most kLaunchesPerFunction tickets on a core. `fresh`: the part has not run yet. Wakes another
  // hart.
  void push(unsigned core, Owner function, bool high_priority, Ticket ticket, bool fresh);
  // The part that runs next. False: the core has nothing to run.
  bool pop(unsigned core, Ticket& ticket);

  bool has_work(unsigned core) const { return queues_[core].waiting.load(std::memory_order_acquire) != 0; }
  // Bit per function that has a part waiting for the core: a snapshot.
  std::uint32_t functions_on(unsigned core) const { return queues_[core].ready.load(std::memory_order_relaxed); }
  // Whether the part that was queued last has not run yet.
  bool front_is_fresh(unsigned core) const { return queues_[core].fresh.load(std::memory_order_relaxed); }

  // Slices that the function gets per round on every core, from 1 on.
  void set_weight(Owner function, std::uint32_t weight) {
    weights_[function].store(static_cast<std::uint8_t>(weight), std::memory_order_relaxed);
  }

  // The most slices of other functions that a part of this one has waited for on any core, from when it wanted the core
  // until it had it, since forget(). At most the sum of the others' weights.
  std::uint64_t most_waited_slices(Owner function) const;
  void forget(Owner function);

 private:
  // Oldest first. A launch has at most one part on a core, and a part at most one ticket, so there is room for all.
  class TicketRing {
   public:
    bool empty() const { return count_ == 0; }
    void push(Ticket ticket) { tickets_[(head_ + count_++) % kLaunchesPerFunction] = ticket; }
    Ticket pop() {
      const Ticket first = tickets_[head_];
      head_ = (head_ + 1) % kLaunchesPerFunction;
      --count_;
      return first;
    }
    Ticket pop_newest() { return tickets_[(head_ + --count_) % kLaunchesPerFunction]; }
    bool several() const { return count_ > 1; }

   private:
    std::uint8_t head_ = 0;
    std::uint8_t count_ = 0;
    std::array<Ticket, kLaunchesPerFunction> tickets_{};
  };
  // The parts of one function that want a core.
  struct FunctionQueue {
    TicketRing low;
    TicketRing high;  // of streams of high priority
    PriorityRotation rotation;
    std::uint64_t seen_slices = 0;              // CoreQueue::slices when it was served last, or began to wait
    std::atomic<std::uint32_t> most_waited{0};  // slices of others that it has waited for, at a time
    bool empty() const { return low.empty() && high.empty(); }
  };
  struct CoreQueue {
    hal::SpinLock lock;
    std::atomic<std::uint32_t> waiting{0};  // of all functions
    std::atomic<bool> fresh{false};
    std::atomic<std::uint32_t> ready{0};  // bit per function that has parts here; written under the lock
    std::uint32_t last = 0;               // the function served last: it is the last to be served again …
    std::uint32_t slices_left = 0;        // … but for so many slices more
    std::uint64_t slices = 0;             // that have begun here, of all functions
    std::array<FunctionQueue, kLaunchFunctions> functions{};
  };
  static_assert(kLaunchFunctions < 32);

  FunctionQueue& choose(CoreQueue& queue, std::uint32_t ready);

  std::array<CoreQueue, kMaxCores> queues_;
  std::array<std::atomic<std::uint8_t>, kLaunchFunctions> weights_{};  // 1 from init() on
};

}  // namespace fw
