// SPDX-License-Identifier: Apache-2.0
// Where a stream's correction tensors lie on the card. Each stream has one slot from the start (CurrentFunction), and
// that is the one that launches use. Launches that overlap the next correction DMA with the computation before it, or
// leave out a DMA whose bytes are there already, or whose tensor is larger than that slot, use the slots of
// SlotMemory, the least recently used one first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/runtime/bound_operands.hpp"

namespace svp {

struct Unit;

// Slots of one size in the Program region, and what the driver knows to lie in them. Shared by the stream and by the
// launches that use it: given back when the stream has larger ones, or ends, and the last of those launches has ended.
// Sets of kWays slots: what a slot holds says which set it is in.
class SlotMemory {
 public:
  static constexpr unsigned kWays = 4;
  // Of those whose contents are kept: as many as fit into kRoom, at most kMostSlots, and one set at least. Without
  // contents one set is enough: each launch takes the slot that was used least recently.
  static constexpr std::uint64_t kRoom = 128 * wire::kKiB;
  static constexpr unsigned kMostSlots = 256;

  // `bytes`: the largest correction tensor. When the allocator has no memory for them: Required throws what
  // FlexAllocator::allocate() throws, Optional returns null.
  enum class Need : std::uint8_t { Optional, Required };
  static std::shared_ptr<SlotMemory> allocate(std::shared_ptr<FlexAllocator> allocator, std::uint64_t bytes, Need need,
                                              bool keeps_contents);
  SlotMemory(std::shared_ptr<FlexAllocator> allocator, AllocationIndex index, std::uint64_t slot_bytes, unsigned slots,
             bool keeps_contents);
  ~SlotMemory();
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  std::uint64_t slot_bytes() const { return slot_bytes_; }
  unsigned slots() const { return static_cast<unsigned>(contents_.size()); }
  DevicePlace place(unsigned slot) const;

  // The rest with the lock of the stream's channel. An epoch ends when contents are not known any more; 0 is none.
  static constexpr unsigned kNone = ~0u;
  struct Key {
    std::span<const std::byte> bytes;
    std::size_t hash;
    std::uint64_t epoch;
  };
  static Key key_of(std::span<const std::byte> bytes, std::uint64_t epoch);
  // The slot that has these bytes since some time of this epoch, or kNone.
  unsigned find(const Key& key) const;
  // The slot of the key's set that was used least recently, but not `busy`; unknown ones first.
  unsigned oldest(const Key& key, unsigned busy) const;
  void use(unsigned slot) { contents_[slot].used = ++uses_; }
  void note(unsigned slot, const Key& key);
  void forget(unsigned slot) { contents_[slot].epoch = 0; }

 private:
  struct Content {
    std::size_t hash = 0;
    std::size_t bytes = 0;
    std::uint64_t epoch = 0;
    std::uint64_t used = 0;
  };
  unsigned set_of(std::size_t hash) const { return static_cast<unsigned>(hash % (contents_.size() / kWays)) * kWays; }
  std::span<const std::byte> kept(unsigned slot) const;

  const std::shared_ptr<FlexAllocator> allocator_;
  const AllocationIndex index_;
  const std::uint64_t slot_bytes_;
  DevicePlace first_;
  std::vector<Content> contents_;
  std::vector<std::byte> bytes_;  // of all slots; empty: contents are not kept
  std::uint64_t uses_ = 0;
};

// Which slot each correction tensor goes to, decided when its blocks are handed to the card, in their order. The
// channel's lock is held.
class CorrectionSlots {
 public:
  // `leaves_out`: RuntimeOptions::elide_corrections.
  explicit CorrectionSlots(bool leaves_out) : leaves_out_(leaves_out) {}

  const std::shared_ptr<SlotMemory>& memory() const { return memory_; }
  // Returns what it replaces, to be let go of with no lock held.
  std::shared_ptr<SlotMemory> replace(std::shared_ptr<SlotMemory> memory);

  // Before blocks are submitted, in order: `dma` and `compute` get their slot. True: the bytes are in the slot already,
  // and the DMA is left out.
  bool place_dma(Unit& dma);
  void place_compute(Unit& compute) const;
  // Afterwards, in order: the DMA went to the card, or was left out.
  void sent(const Unit& dma);
  // Or it did not, and comes again.
  void not_sent(const Unit& dma);
  void begin_batch() { last_ = last_sent_; }

  // What the slots hold is not known any more.
  void forget() { ++epoch_; }

 private:
  static constexpr unsigned kNoSlot = SlotMemory::kNone;

  const bool leaves_out_;
  std::shared_ptr<SlotMemory> memory_;
  std::uint64_t epoch_ = 1;
  unsigned last_ = kNoSlot;       // of the last correction that was placed
  unsigned last_sent_ = kNoSlot;  // of the last one that was sent
};

}  // namespace svp
