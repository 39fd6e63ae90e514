// SPDX-License-Identifier: Apache-2.0
// Packed virtqueue layout and the two computations that both sides must agree on (VIRTIO 1.4 §2.8). The state machines
// are host_driver/transport/packed_queue.hpp (driver side) and firmware/core/packed_queue.hpp (device side).
#pragma once

#include <cstddef>
#include <cstdint>

namespace wire {

struct Descriptor {
  std::uint64_t address;  // offset into the function's own window
  std::uint32_t length;   // bytes
  std::uint16_t id;
  std::uint16_t flags;
};
static_assert(sizeof(Descriptor) == 16 && alignof(Descriptor) == 8);
static_assert(offsetof(Descriptor, length) == 8);

inline constexpr std::uint16_t kDescNext = 1;
inline constexpr std::uint16_t kDescWrite = 2;  // device writes this buffer
inline constexpr std::uint16_t kDescIndirect = 4;
inline constexpr std::uint16_t kDescAvail = 1 << 7;
inline constexpr std::uint16_t kDescUsed = 1 << 15;

// length, id and flags are one naturally aligned 64-bit word: it is published and consumed by one atomic access, so
// nobody ever sees a torn descriptor.
struct DescriptorTail {
  std::uint32_t length;
  std::uint16_t id;
  std::uint16_t flags;
};
constexpr std::uint64_t pack_tail(DescriptorTail tail) {
  return std::uint64_t{tail.length} | std::uint64_t{tail.id} << 32 | std::uint64_t{tail.flags} << 48;
}
constexpr DescriptorTail unpack_tail(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word), static_cast<std::uint16_t>(word >> 32),
          static_cast<std::uint16_t>(word >> 48)};
}
// A descriptor in shared memory, as the two words that are accessed atomically.
struct DescriptorWords {
  std::uint64_t address;
  std::uint64_t tail;
};
static_assert(sizeof(DescriptorWords) == sizeof(Descriptor));

// Flags of a descriptor that the driver makes available in the lap with this wrap bit: AVAIL = wrap, USED = !wrap.
constexpr std::uint16_t avail_flags(bool wrap) { return wrap ? kDescAvail : kDescUsed; }
// Flags of a used descriptor: AVAIL = USED = wrap.
constexpr std::uint16_t used_flags(bool wrap) { return wrap ? kDescAvail | kDescUsed : 0; }

constexpr bool is_available(std::uint16_t flags, bool wrap) {
  return ((flags & kDescAvail) != 0) == wrap && ((flags & kDescUsed) != 0) != wrap;
}
constexpr bool is_used(std::uint16_t flags, bool wrap) {
  return ((flags & kDescAvail) != 0) == wrap && ((flags & kDescUsed) != 0) == wrap;
}

// Event suppression structure, read and written as one 32-bit word: bits 0–14 offset, 15 wrap, 16–17 flags.
enum class EventFlags : std::uint16_t { Enable = 0, Disable = 1, Descriptor = 2 };

struct EventSuppression {
  std::uint16_t offset;
  bool wrap;
  EventFlags flags;
};
constexpr std::uint32_t pack_event(EventSuppression event) {
  return std::uint32_t{event.offset} | std::uint32_t{event.wrap} << 15 |
         std::uint32_t{static_cast<std::uint16_t>(event.flags)} << 16;
}
// The reserved flag value 3 reads as Enable: a hostile peer gets more doorbells, never a lost one.
constexpr EventSuppression unpack_event(std::uint32_t word) {
  const auto flags = static_cast<std::uint16_t>(word >> 16 & 3);
  return {static_cast<std::uint16_t>(word & 0x7fff), (word >> 15 & 1) != 0,
          flags == 3 ? EventFlags::Enable : static_cast<EventFlags>(flags)};
}

// Whether moving the ring position from `old_index` to `new_index` (both in [0, size), `advanced` descriptors apart,
// `wrap` = wrap bit of `new_index`) passes the point the peer asked to be notified at (VIRTIO 1.4 §2.8.10). A test by
// equality would miss a chain or a batch that jumps over the armed slot.
constexpr bool wants_notification(EventSuppression event, bool event_idx, std::uint16_t new_index, bool wrap,
                                  std::uint16_t advanced, std::uint16_t size) {
  if (event.flags == EventFlags::Disable) return false;
  if (event.flags == EventFlags::Enable || !event_idx) return true;
  if (event.offset >= size) return true;  // nonsense from the peer: a doorbell too many is harmless
  const int position = event.wrap == wrap ? event.offset : event.offset - size;
  const int behind = int{new_index} - position - 1;  // descriptors passed since the armed one
  return behind >= 0 && behind < int{advanced};
}

inline constexpr std::uint16_t kMaxQueueSize = 1 << 10;
inline constexpr std::uint32_t kMaxIndirectEntries = 64;

}  // namespace wire
