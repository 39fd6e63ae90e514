// SPDX-License-Identifier: Apache-2.0
// Driver side of a packed virtqueue (VIRTIO 1.4 §2.8; layout and wrap arithmetic: shared/packed_ring.hpp).
//
// No locks inside: one thread at a time, except has_used(), which may be called by the only thread that calls poll()
// while others add and publish. The device is not trusted: a used element that names no chain in flight declares the
// queue broken (poll() == Broken from then on) and nothing else happens.
//
// Chains have ids of the driver's own choosing, 0 … max_chains - 1. peek_id() tells the next one before it is taken, so
// that the memory of a request can be a function of the id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shared/memory_order.hpp"
#include "shared/packed_ring.hpp"
#include "shared/window.hpp"

namespace svp {

// One element of a chain: bytes of the window that the device reads, or writes.
struct RingBuffer {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  bool writable = false;
};

class PackedQueue {
 public:
  enum class PollResult : std::uint8_t { Empty, Used, Broken };
  struct Used {
    std::uint16_t id = 0;
    std::uint32_t written = 0;  // bytes, as the device says; 0 unless it wrote
  };

  // `window` outlives the queue; `layout` lies inside of it (size 1 … 32767, any number). Descriptors and the driver
  // area are zeroed here, the device area is the device's. The device must not have been told of the queue yet.
  PackedQueue(std::span<std::byte> window, const wire::QueueLayout& layout, std::uint16_t max_chains, bool event_idx);

  std::uint16_t size() const { return size_; }
  std::uint16_t free_slots() const { return free_slots_; }
  std::uint16_t in_flight() const { return static_cast<std::uint16_t>(max_chains_ - free_ids_.size()); }
  bool can_add(std::size_t buffers) const { return !free_ids_.empty() && buffers <= free_slots_; }

  // Id of the next chain. Needs a free id (can_add()).
  std::uint16_t peek_id() const { return free_ids_.back(); }

  // Writes a chain (readable buffers before writable ones, at least one, none empty) behind those added before. The
  // device does not see it before publish(). Nullopt: no room, nothing changed.
  std::optional<std::uint16_t> add(std::span<const RingBuffer> buffers);

  // The same as one descriptor that points at a table which is written here: `table_offset` in the window is aligned to
  // 16 and holds 16 bytes per buffer, at most wire::kMaxIndirectEntries. It is in use until the chain is. Needs the
  // negotiated feature INDIRECT_DESC.
  std::optional<std::uint16_t> add_indirect(std::uint64_t table_offset, std::span<const RingBuffer> buffers);

  // Makes everything added since the last call available with one release store: the first head is written last, and
  // the device reads in ring order. No-op when nothing was added.
  void publish();

  // Whether the device wants a doorbell for what was published since the last call. Contains the store→load fence.
  bool kick_needed();

  // Whether poll() would find something. Cheap: one load.
  bool has_used() const { return broken() || wire::is_used(head_tail().flags, used_wrap_); }

  // Takes one used element.
  PollResult poll(Used& used);

  // Takes the id of a chain that poll() just gave back out of use for ever: what it carried may still be written.
  void quarantine(std::uint16_t id);
  // Fault hook: puts the used element of `id` into the ring again, as a card that gives a chain back twice.
  void repeat_used(std::uint16_t id);

  // Asks for a doorbell at the next used element; true when there is one already, which the caller must then take: with
  // event index the doorbell comes once per arm(). Contains the store→load fence.
  bool arm();
  // Asks for no doorbells. Lazily: one too many is harmless.
  void disarm();
  bool armed() const { return armed_; }

  bool broken() const { return violation_ != nullptr; }
  // What the device did, for people; empty while the queue works.
  std::string violation() const;

  // Ids of chains that the device has not given back: after a death, to end what they carried. No further call but
  // size(), violation() and the like makes sense afterwards.
  std::vector<std::uint16_t> chains_in_flight() const;
  void append_chains_in_flight(std::vector<std::uint16_t>& to) const;

 private:
  static constexpr std::uint16_t kNotInFlight = 0;

  wire::DescriptorWords& slot(std::uint16_t index) const { return ring_[index]; }
  wire::DescriptorTail head_tail() const { return wire::unpack_tail(wire::load_acquire(ring_[next_used_].tail)); }
  void write(std::uint64_t address, wire::DescriptorTail tail);
  std::uint16_t take_id(std::uint16_t slots);
  PollResult break_queue(const char* violation, wire::DescriptorTail tail);
  void advance(std::uint16_t& index, bool& wrap, unsigned by) const {
    const unsigned next = unsigned{index} + by;
    const bool lapped = next >= size_;  // also when a chain fills the whole ring
    index = static_cast<std::uint16_t>(lapped ? next - size_ : next);
    wrap = wrap != lapped;
  }

  std::span<std::byte> window_;
  wire::DescriptorWords* ring_;
  std::uint32_t* driver_area_;
  const std::uint32_t* device_area_;
  std::uint16_t size_;
  std::uint16_t max_chains_;
  bool event_idx_;

  // Available side
  std::uint16_t next_avail_ = 0;
  bool avail_wrap_ = true;
  std::uint16_t free_slots_;
  std::uint16_t added_since_kick_ = 0;
  bool unpublished_ = false;
  std::uint16_t first_head_ = 0;  // of the batch that is being added
  std::uint64_t first_head_tail_ = 0;

  // Used side
  std::uint16_t next_used_ = 0;
  bool used_wrap_ = true;
  bool armed_ = false;

  std::vector<std::uint16_t> free_ids_;  // last in, first out: the warmest slot is used again
  std::vector<std::uint16_t> slots_of_;  // ring slots of the chain with this id; kNotInFlight
  const char* violation_ = nullptr;
  wire::DescriptorTail offender_{};
};

}  // namespace svp
