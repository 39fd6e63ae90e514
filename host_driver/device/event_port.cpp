// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/event_port.hpp"

#include <algorithm>

#include "host_driver/transport/guarded.hpp"

#include <utility>

namespace svp {

EventPort::EventPort(Window& window, PackedQueue queue) : window_(window), queue_(std::move(queue)) {
  (void)queue_.arm();  // events are rare: always ask for the doorbell
}

std::size_t EventPort::harvest(bool& kick) {
  if (!has_used()) return 0;
  std::size_t count = 0;
  do {
    PackedQueue::Used used;
    // At most one lap: a card that floods us gets its buffers back in the next iteration.
    for (std::uint16_t lap = 0; lap < wire::kEventQueueSize; ++lap) {
      const auto found = queue_.poll(used);
      if (found == PackedQueue::PollResult::Empty) break;
      if (found == PackedQueue::PollResult::Broken) {
        violation_ = text_or_less([&] { return queue_.violation(); });
        return count;
      }
      const std::uint64_t offset = wire::kEvents.offset + used.id * wire::kStickBytes;
      wire::DeviceEvent event;
      wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&event), window_.words(offset), sizeof event / 8);
      const RingBuffer buffer{wire::kEvents.offset + queue_.peek_id() * wire::kStickBytes, wire::kStickBytes, true};
      (void)queue_.add({&buffer, 1});
      if (used.written != sizeof event) continue;  // given back unused
      ++count;
      const std::lock_guard lock(mutex_);
      kept_[kept_end_++ % kKept] = event;
    }
    queue_.publish();
    kick = queue_.kick_needed() || kick;
  } while (count < wire::kEventQueueSize && queue_.arm());
  received_.fetch_add(count, std::memory_order_relaxed);
  return count;
}

std::vector<wire::DeviceEvent> EventPort::take() {
  const std::lock_guard lock(mutex_);
  std::vector<wire::DeviceEvent> events;
  const std::uint64_t oldest = kept_end_ > kKept ? kept_end_ - kKept : 0;
  events.reserve(kept_end_ - std::max(taken_, oldest));
  for (taken_ = std::max(taken_, oldest); taken_ != kept_end_; ++taken_) events.push_back(kept_[taken_ % kKept]);
  return events;
}

}  // namespace svp
