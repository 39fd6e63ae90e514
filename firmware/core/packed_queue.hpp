// SPDX-License-Identifier: Apache-2.0
// Device side of a packed virtqueue (VIRTIO 1.4 §2.8). The driver is not trusted: geometry is latched when the queue is
// set, positions and wrap bits live here, every descriptor is copied once and the copy is judged. Whatever the driver
// writes, pop() ends after at most `size` descriptors and the ring goes on behind a bad chain.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shared/memory_order.hpp"
#include "shared/packed_ring.hpp"
#include "shared/window.hpp"

namespace fw {

// One buffer of a chain, as the driver described it: nothing about it has been checked but the chain's form.
struct Buffer {
  std::uint64_t offset;  // in the function's window
  std::uint32_t bytes;
};

// A chain as all our queues use it: at most one readable buffer followed by at most one writable buffer.
struct Chain {
  Buffer readable;  // bytes == 0: none
  Buffer writable;  // bytes == 0: none
  std::uint16_t id;
  std::uint16_t slots;  // ring slots that the chain occupies
  bool well_formed;     // false: more buffers than allowed, bad order or flags, partly published, bad indirect table
};

class PackedQueue {
 public:
  // Latches geometry inside `window`. False when size or any range is not legal; the queue stays off then.
  bool set(std::span<std::byte> window, std::uint32_t size, std::uint64_t descriptors, std::uint64_t driver_area,
           std::uint64_t device_area);
  void set_features(bool event_idx, bool indirect) {
    event_idx_ = event_idx;
    indirect_ = indirect;
  }
  void reset() { *this = PackedQueue{}; }

  bool active() const { return size_ != 0; }
  std::uint16_t size() const { return size_; }
  std::uint64_t descriptors() const { return descriptors_offset_; }
  std::uint64_t driver_area() const { return driver_area_offset_; }
  std::uint64_t device_area() const { return device_area_offset_; }

  bool ready() const { return active() && wire::is_available(head_flags(), avail_wrap_); }

  // Takes the next available chain; ready() must hold.
  void take(Chain& chain);
  // Takes the next available chain. False: the ring is empty (or off).
  bool pop(Chain& chain) {
    if (!ready()) return false;
    take(chain);
    return true;
  }

  // Gives a chain back with `written` bytes in its writable buffer. Completed chains may come in any order. Visible to
  // the driver at once; the doorbell waits for take_notification().
  void push_used(std::uint16_t id, std::uint16_t slots, std::uint32_t written);

  // After a batch of push_used: whether the driver asked for a doorbell. Call with the batch's writes done; contains
  // the store→load fence of protocol §8.
  bool take_notification();

  // Asks the driver for a doorbell when it makes anything available. The caller then fences and checks ready() again.
  void arm();
  // Lazily: a doorbell too many is harmless.
  void disarm();

 private:
  std::uint16_t head_flags() const { return wire::unpack_tail(wire::load_acquire(ring()[next_avail_].tail)).flags; }
  wire::DescriptorWords* ring() const {
    return reinterpret_cast<wire::DescriptorWords*>(window_.data() + descriptors_offset_);
  }
  std::uint32_t* event_word(std::uint64_t offset) const {
    return reinterpret_cast<std::uint32_t*>(window_.data() + offset);
  }
  bool add_buffer(Chain& chain, std::uint64_t address, wire::DescriptorTail tail) const;
  bool read_indirect(Chain& chain, std::uint64_t address, std::uint32_t bytes) const;
  void advance(std::uint16_t& index, bool& wrap, std::uint16_t by) const {
    const unsigned next = unsigned{index} + by;
    const bool lapped = next >= size_;
    index = static_cast<std::uint16_t>(lapped ? next - size_ : next);
    wrap = wrap != lapped;
  }

  std::span<std::byte> window_;
  std::uint64_t descriptors_offset_ = 0;
  std::uint64_t driver_area_offset_ = 0;
  std::uint64_t device_area_offset_ = 0;
  std::uint16_t size_ = 0;
  std::uint16_t next_avail_ = 0;
  std::uint16_t next_used_ = 0;
  std::uint16_t used_since_doorbell_ = 0;
  bool avail_wrap_ = true;
  bool used_wrap_ = true;
  bool event_idx_ = false;
  bool indirect_ = false;
  bool armed_ = false;
};

}  // namespace fw
