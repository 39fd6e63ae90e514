// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/packed_queue.hpp"

#include <algorithm>

#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::Descriptor;
using wire::DescriptorTail;

bool PackedQueue::set(std::span<std::byte> window, std::uint32_t size, std::uint64_t descriptors,
                      std::uint64_t driver_area, std::uint64_t device_area) {
  reset();
  if (size == 0 || size > wire::kMaxQueueSize) return mutated(Mutant::QueueRules, wire::Status::BadCount);
  const std::uint64_t ring_bytes = std::uint64_t{size} * sizeof(Descriptor);
  if (!wire::is_aligned(descriptors, sizeof(Descriptor)) || !wire::is_aligned(driver_area, 4) ||
      !wire::is_aligned(device_area, 4)) {
    return mutated(Mutant::QueueRules, wire::Status::BadAlignment);
  }
  // Rings may lie only in the window's queue block: a ring laid over another structure would let the driver make the
  // card overwrite its own header.
  const auto& block = wire::kQueueBlock;
  if (!block.contains(descriptors, ring_bytes) || !block.contains(driver_area, 4) || !block.contains(device_area, 4)) {
    return mutated(Mutant::QueueRules, wire::Status::OutOfBounds);
  }
  window_ = window;
  descriptors_offset_ = descriptors;
  driver_area_offset_ = driver_area;
  device_area_offset_ = device_area;
  size_ = static_cast<std::uint16_t>(size);
  armed_ = true;  // whatever the area holds now: the first disarm() writes it
  disarm();
  return true;
}

bool PackedQueue::add_buffer(Chain& chain, std::uint64_t address, DescriptorTail tail) const {
  Buffer& buffer = (tail.flags & wire::kDescWrite) != 0 ? chain.writable : chain.readable;
  const bool readable_after_writable = (tail.flags & wire::kDescWrite) == 0 && chain.writable.bytes != 0;
  if (buffer.bytes != 0 || tail.length == 0 || readable_after_writable) return false;
  buffer = {address, tail.length};
  return true;
}

bool PackedQueue::read_indirect(Chain& chain, std::uint64_t address, std::uint32_t bytes) const {
  if (!indirect_ || bytes == 0 || bytes % sizeof(Descriptor) != 0) return false;
  const std::uint32_t entries = bytes / sizeof(Descriptor);
  if (entries > wire::kMaxIndirectEntries || !wire::is_aligned(address, sizeof(Descriptor))) return false;
  if (!wire::host_memory(window_.size()).contains(address, bytes) && !wire::kQueueBlock.contains(address, bytes)) {
    return false;
  }
  const auto* table = reinterpret_cast<const wire::DescriptorWords*>(window_.data() + address);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::uint64_t at = wire::load_relaxed(table[i].address);
    const DescriptorTail tail = wire::unpack_tail(wire::load_relaxed(table[i].tail));
    // Only WRITE is valid inside a table (VIRTIO 1.4 §2.8.7).
    if ((tail.flags & ~wire::kDescWrite) != 0 || !add_buffer(chain, at, tail)) return false;
  }
  return true;
}

void PackedQueue::take(Chain& chain) {
  chain = Chain{};
  chain.well_formed = true;
  std::uint16_t at = next_avail_;
  bool wrap = avail_wrap_;
  for (;;) {  // bounded: a chain has at most as many slots as the ring
    const wire::DescriptorWords& words = ring()[at];
    const DescriptorTail tail = wire::unpack_tail(wire::load_acquire(words.tail));
    if (chain.slots != 0 && !wire::is_available(tail.flags, wrap)) {
      chain.well_formed = false;  // partly published: the rest, if it ever comes, is judged as a chain of its own
      break;
    }
    const std::uint64_t address = wire::load_relaxed(words.address);
    ++chain.slots;
    advance(at, wrap, 1);
    chain.id = tail.id;  // the id of a chain is the last descriptor's
    const bool has_next = (tail.flags & wire::kDescNext) != 0;
    if ((tail.flags & wire::kDescIndirect) != 0) {
      if (has_next || chain.slots != 1 || !read_indirect(chain, address, tail.length)) chain.well_formed = false;
    } else if (!add_buffer(chain, address, tail)) {
      chain.well_formed = false;
    }
    if (!has_next) break;
    if (chain.slots == size_) {
      chain.well_formed = false;  // NEXT on every descriptor of the ring: circular
      break;
    }
  }
  next_avail_ = at;
  avail_wrap_ = wrap;
}

void PackedQueue::push_used(std::uint16_t id, std::uint16_t slots, std::uint32_t written) {
  if (!active()) return;  // it was reset: its ring is nobody's
  const std::uint16_t flags =
      static_cast<std::uint16_t>(wire::used_flags(used_wrap_) | (written != 0 ? wire::kDescWrite : 0));
  // One 64-bit release store: length, id and flags can never be seen torn, and all payload writes come before it.
  wire::store_release(ring()[next_used_].tail, wire::pack_tail({written, id, flags}));
  advance(next_used_, used_wrap_, slots);
  // More than a lap between two looks is possible only with a driver that breaks the rules; the count must not come
  // round to zero for it.
  used_since_doorbell_ = static_cast<std::uint16_t>(std::min<unsigned>(used_since_doorbell_ + slots, size_));
}

bool PackedQueue::take_notification() {
  if (used_since_doorbell_ == 0) return false;
  wire::full_fence();
  const auto event = wire::unpack_event(wire::load_relaxed(*event_word(driver_area_offset_)));
  const bool wanted = wire::wants_notification(event, event_idx_, next_used_, used_wrap_, used_since_doorbell_, size_);
  used_since_doorbell_ = 0;
  return wanted;
}

void PackedQueue::arm() {
  if (!active() || armed_) return;
  armed_ = true;
  const wire::EventSuppression event{next_avail_, avail_wrap_,
                                     event_idx_ ? wire::EventFlags::Descriptor : wire::EventFlags::Enable};
  wire::store_relaxed(*event_word(device_area_offset_), wire::pack_event(event));
}

void PackedQueue::disarm() {
  if (!active() || !armed_) return;
  armed_ = false;
  wire::store_relaxed(*event_word(device_area_offset_), wire::pack_event({0, false, wire::EventFlags::Disable}));
}

}  // namespace fw
