// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/run_queues.hpp"

#include <algorithm>
#include <bit>

#include "firmware/hal/hart.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

void RunQueues::init() {
  for (auto& weight : weights_) weight.store(1, std::memory_order_relaxed);
}

void RunQueues::push(unsigned core, Owner f, bool high_priority, Ticket ticket, bool fresh) {
  CoreQueue& queue = queues_[core];
  {
    const hal::LockGuard guard(queue.lock);
    FunctionQueue& function = queue.functions[f];
    if (function.empty()) function.seen_slices = queue.slices;
    (high_priority ? function.high : function.low).push(ticket);
    queue.ready.store(queue.ready.load(std::memory_order_relaxed) | 1u << f, std::memory_order_relaxed);
    queue.waiting.store(queue.waiting.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    queue.fresh.store(fresh, std::memory_order_relaxed);
  }
  if (core != hal::hart_id()) hal::wake(core);
}

// Which function is next, of those in `ready`.
RunQueues::FunctionQueue& RunQueues::choose(CoreQueue& queue, std::uint32_t ready) {
  if (queue.slices_left != 0 && (ready >> queue.last & 1) != 0) {
    --queue.slices_left;
  } else {
    const std::uint32_t behind = ready & ~std::uint32_t{1} << queue.last;
    queue.last =
        static_cast<std::uint32_t>(std::countr_zero(behind != 0 && !mutated(Mutant::FairSlices) ? behind : ready));
    queue.slices_left = weights_[queue.last].load(std::memory_order_relaxed) - 1u;
    if (mutated(Mutant::OneSlice)) queue.slices_left += 3;
  }
  return queue.functions[queue.last];
}

bool RunQueues::pop(unsigned core, Ticket& ticket) {
  CoreQueue& queue = queues_[core];
  if (queue.waiting.load(std::memory_order_acquire) == 0) return false;
  const hal::LockGuard guard(queue.lock);
  const std::uint32_t waiting = queue.waiting.load(std::memory_order_relaxed);
  if (waiting == 0) return false;
  const std::uint32_t ready = queue.ready.load(std::memory_order_relaxed);
  FunctionQueue& function = choose(queue, ready);
  const bool high = function.rotation.take(!function.high.empty(), !function.low.empty());
  TicketRing& ring = high ? function.high : function.low;
  ticket = ring.several() && mutated(Mutant::PartsInTurn) ? ring.pop_newest() : ring.pop();
  const auto waited = static_cast<std::uint32_t>(queue.slices - function.seen_slices);
  if (waited > function.most_waited.load(std::memory_order_relaxed)) {
    function.most_waited.store(waited, std::memory_order_relaxed);
  }
  function.seen_slices = ++queue.slices;
  if (function.empty()) queue.ready.store(ready & ~(1u << queue.last), std::memory_order_relaxed);
  queue.waiting.store(waiting - 1, std::memory_order_release);
  if (waiting == 1) queue.fresh.store(false, std::memory_order_relaxed);
  return true;
}

std::uint64_t RunQueues::most_waited_slices(Owner function) const {
  std::uint32_t most = 0;
  for (const CoreQueue& queue : queues_) {
    most = std::max(most, queue.functions[function].most_waited.load(std::memory_order_relaxed));
  }
  return most;
}

void RunQueues::forget(Owner function) {
  for (CoreQueue& queue : queues_) queue.functions[function].most_waited.store(0, std::memory_order_relaxed);
}

}  // namespace fw
