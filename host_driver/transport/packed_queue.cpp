// SPDX-License-Identifier: Apache-2.0
#include "host_driver/transport/packed_queue.hpp"

#include <cassert>
#include <limits>

namespace svp {

using wire::DescriptorTail;

PackedQueue::PackedQueue(std::span<std::byte> window, const wire::QueueLayout& layout, std::uint16_t max_chains,
                         bool event_idx)
    : window_(window),
      ring_(reinterpret_cast<wire::DescriptorWords*>(window.data() + layout.descriptors)),
      driver_area_(reinterpret_cast<std::uint32_t*>(window.data() + layout.driver_area)),
      device_area_(reinterpret_cast<const std::uint32_t*>(window.data() + layout.device_area)),
      size_(layout.size),
      max_chains_(max_chains),
      event_idx_(event_idx),
      free_slots_(layout.size),
      slots_of_(max_chains, kNotInFlight) {
  assert(size_ > 0 && size_ < 1 << 15 && max_chains_ > 0);
  for (std::uint16_t i = 0; i < size_; ++i) {
    wire::store_relaxed(slot(i).address, std::uint64_t{0});
    wire::store_relaxed(slot(i).tail, std::uint64_t{0});
  }
  free_ids_.reserve(max_chains_);
  for (std::uint16_t id = max_chains_; id-- != 0;) free_ids_.push_back(id);
  armed_ = true;  // whatever the area holds now: disarm() writes it
  disarm();
}

void PackedQueue::write(std::uint64_t address, DescriptorTail tail) {
  wire::DescriptorWords& words = slot(next_avail_);
  wire::store_relaxed(words.address, address);
  tail.flags = static_cast<std::uint16_t>(tail.flags | wire::avail_flags(avail_wrap_));
  if (unpublished_) {
    wire::store_relaxed(words.tail, wire::pack_tail(tail));  // ordered by the release in publish()
  } else {
    unpublished_ = true;
    first_head_ = next_avail_;
    first_head_tail_ = wire::pack_tail(tail);
  }
  advance(next_avail_, avail_wrap_, 1);
}

std::uint16_t PackedQueue::take_id(std::uint16_t slots) {
  const std::uint16_t id = free_ids_.back();
  free_ids_.pop_back();
  slots_of_[id] = slots;
  free_slots_ = static_cast<std::uint16_t>(free_slots_ - slots);
  added_since_kick_ = static_cast<std::uint16_t>(added_since_kick_ + slots);
  return id;
}

std::optional<std::uint16_t> PackedQueue::add(std::span<const RingBuffer> buffers) {
  if (buffers.empty() || !can_add(buffers.size())) return std::nullopt;
  const auto slots = static_cast<std::uint16_t>(buffers.size());
  const std::uint16_t id = take_id(slots);
  for (std::uint16_t i = 0; i < slots; ++i) {
    const RingBuffer& buffer = buffers[i];
    assert(buffer.bytes != 0 && (i == 0 || buffer.writable || !buffers[i - 1u].writable));
    const auto flags =
        static_cast<std::uint16_t>((buffer.writable ? wire::kDescWrite : 0) | (i + 1 != slots ? wire::kDescNext : 0));
    write(buffer.offset, {buffer.bytes, id, flags});  // the id counts in the last descriptor only; put it in all
  }
  return id;
}

std::optional<std::uint16_t> PackedQueue::add_indirect(std::uint64_t table_offset,
                                                       std::span<const RingBuffer> buffers) {
  if (buffers.empty() || buffers.size() > wire::kMaxIndirectEntries || !can_add(1)) return std::nullopt;
  assert(wire::is_aligned(table_offset, sizeof(wire::Descriptor)));
  auto* table = reinterpret_cast<wire::DescriptorWords*>(window_.data() + table_offset);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::uint16_t flags = buffers[i].writable ? wire::kDescWrite : 0;
    wire::store_relaxed(table[i].address, buffers[i].offset);
    wire::store_relaxed(table[i].tail, wire::pack_tail({buffers[i].bytes, 0, flags}));
  }
  const std::uint16_t id = take_id(1);
  write(table_offset, {static_cast<std::uint32_t>(buffers.size() * sizeof(wire::Descriptor)), id, wire::kDescIndirect});
  return id;
}

void PackedQueue::publish() {
  if (!unpublished_) return;
  unpublished_ = false;
  wire::store_release(slot(first_head_).tail, first_head_tail_);
}

bool PackedQueue::kick_needed() {
  if (added_since_kick_ == 0) return false;
  wire::full_fence();
  const auto event = wire::unpack_event(wire::load_relaxed(*device_area_));
  const bool wanted = wire::wants_notification(event, event_idx_, next_avail_, avail_wrap_, added_since_kick_, size_);
  added_since_kick_ = 0;
  return wanted;
}

PackedQueue::PollResult PackedQueue::break_queue(const char* violation, DescriptorTail tail) {
  violation_ = violation;
  offender_ = tail;
  return PollResult::Broken;
}

PackedQueue::PollResult PackedQueue::poll(Used& used) {
  if (broken()) return PollResult::Broken;
  const DescriptorTail tail = head_tail();
  if (!wire::is_used(tail.flags, used_wrap_)) return PollResult::Empty;
  if (tail.id >= max_chains_) return break_queue("gave back an id that does not exist", tail);
  const std::uint16_t slots = slots_of_[tail.id];
  if (slots == kNotInFlight) return break_queue("gave back a chain that is not in flight", tail);
  slots_of_[tail.id] = kNotInFlight;
  free_ids_.push_back(tail.id);
  free_slots_ = static_cast<std::uint16_t>(free_slots_ + slots);
  advance(next_used_, used_wrap_, slots);
  used = {tail.id, (tail.flags & wire::kDescWrite) != 0 ? tail.length : 0};  // VIRTIO 1.4 §2.8.21: else meaningless
  return PollResult::Used;
}

void PackedQueue::quarantine(std::uint16_t id) { std::erase(free_ids_, id); }

void PackedQueue::repeat_used(std::uint16_t id) {
  const auto flags = static_cast<std::uint16_t>(wire::used_flags(used_wrap_) | wire::kDescWrite);
  wire::store_release(ring_[next_used_].tail, wire::pack_tail({0, id, flags}));
}

bool PackedQueue::arm() {
  armed_ = true;
  const wire::EventSuppression event{next_used_, used_wrap_,
                                     event_idx_ ? wire::EventFlags::Descriptor : wire::EventFlags::Enable};
  wire::store_relaxed(*driver_area_, wire::pack_event(event));
  wire::full_fence();
  return has_used();  // at next_used_, not at any event offset: a chain may have jumped over that
}

void PackedQueue::disarm() {
  if (!armed_) return;
  armed_ = false;
  wire::store_relaxed(*driver_area_, wire::pack_event({0, false, wire::EventFlags::Disable}));
}

std::string PackedQueue::violation() const {
  if (violation_ == nullptr) return {};
  return std::string("the device ") + violation_ + " (id " + std::to_string(offender_.id) + ", length " +
         std::to_string(offender_.length) + ", flags " + std::to_string(offender_.flags) + ", ring position " +
         std::to_string(next_used_) + " of " + std::to_string(size_) + ")";
}

std::vector<std::uint16_t> PackedQueue::chains_in_flight() const {
  std::vector<std::uint16_t> ids;
  append_chains_in_flight(ids);
  return ids;
}

void PackedQueue::append_chains_in_flight(std::vector<std::uint16_t>& to) const {
  for (std::uint16_t id = 0; id < max_chains_; ++id) {
    if (slots_of_[id] != kNotInFlight) to.push_back(id);
  }
}

}  // namespace svp
