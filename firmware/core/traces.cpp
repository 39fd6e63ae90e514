// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/traces.hpp"

#include "firmware/hal/hart.hpp"
#include "shared/memory_order.hpp"
#include "shared/window.hpp"

namespace fw {

void Traces::start(Owner function, std::span<std::byte> window) {
  if (emptying(function)) return;
  stop(function);
  drain();
  lost_[function].store(0, std::memory_order_relaxed);
  Ring& ring = rings_[function];
  ring.entries = reinterpret_cast<wire::TraceEntry*>(window.data() + wire::kTraceRing.offset);
  ring.next = 1;
  ring.emptied = 0;
  emptying_ |= bit(function);
}

void Traces::empty_part(Owner function) {
  static_assert(wire::kTraceEntries % kEmptiedEntries == 0);
  Ring& ring = rings_[function];
  const std::uint32_t end = ring.emptied + kEmptiedEntries;
  for (; ring.emptied != end; ++ring.emptied) {
    wire::store_relaxed(ring.entries[ring.emptied].number, std::uint64_t{0});
  }
  if (end != wire::kTraceEntries) return;
  wire::store_fence();
  emptying_ &= ~bit(function);
  on_ |= bit(function);
}

void Traces::write(Owner function, const wire::TraceEntry& entry) {
  Ring& ring = rings_[function];
  const std::uint64_t number = ring.next++;
  wire::TraceEntry& place = ring.entries[(number - 1) % wire::kTraceEntries];
  wire::store_relaxed(place.number, std::uint64_t{0});
  wire::store_fence();
  constexpr std::size_t kWords = sizeof(wire::TraceEntry) / 8;
  wire::store_shared_words(reinterpret_cast<std::uint64_t*>(&place) + 1,
                           reinterpret_cast<const std::uint64_t*>(&entry) + 1, kWords - 1);
  wire::store_release(place.number, number);
}

void Traces::note(unsigned core, Owner function, const wire::TraceEntry& entry) {
  if (core == 0) {
    if (on(function)) write(function, entry);
    return;
  }
  Queue& queue = queues_[core];
  const std::uint32_t at = queue.written.load(std::memory_order_relaxed);
  if (at - queue.read.load(std::memory_order_acquire) == kQueued) {
    lost_[function].fetch_add(1, std::memory_order_relaxed);
    return;
  }
  queue.items[at % kQueued] = {function, entry};
  queue.written.store(at + 1, std::memory_order_release);
}

void Traces::drain() {
  for (Queue& queue : queues_) {
    const std::uint32_t end = queue.written.load(std::memory_order_acquire);
    std::uint32_t at = queue.read.load(std::memory_order_relaxed);
    if (at == end) continue;
    for (; at != end; ++at) {
      const Queue::Item& item = queue.items[at % kQueued];
      if (on(item.function)) write(item.function, item.entry);
    }
    queue.read.store(end, std::memory_order_release);
  }
  for (Owner function = 0; function < kLaunchFunctions; ++function) {
    if (!on(function) || lost_[function].load(std::memory_order_relaxed) == 0) continue;
    wire::TraceEntry entry{};
    entry.kind = wire::TraceKind::Lost;
    entry.begin = entry.end = hal::now();
    entry.value = lost_[function].exchange(0, std::memory_order_relaxed);
    write(function, entry);
  }
}

}  // namespace fw
