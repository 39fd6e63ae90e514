// SPDX-License-Identifier: Apache-2.0
// Where a stream's correction tensors lie on the card. Each stream has one slot from the start (CurrentFunction), and
// that is the one that launches use. Launches that overlap the next correction DMA with the computation before it, or
// leave out a DMA whose bytes are there already, or whose tensor is larger than that slot, use the slots of
// SlotMemory one after the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/runtime/bound_operands.hpp"

namespace svp {

struct Unit;

// Slots of one size in the Program region. Shared by the stream and by the launches that use it: given back when the
// stream has larger ones, or ends, and the last of those launches has ended.
class SlotMemory {
 public:
  static constexpr unsigned kSlots = 4;

  // `bytes`: the largest correction tensor. When the allocator has no memory for them: Required throws what
  // FlexAllocator::allocate() throws, Optional returns null.
  enum class Need : std::uint8_t { Optional, Required };
  static std::shared_ptr<const SlotMemory> allocate(std::shared_ptr<FlexAllocator> allocator, std::uint64_t bytes,
                                                    Need need);
  SlotMemory(std::shared_ptr<FlexAllocator> allocator, AllocationIndex index, std::uint64_t slot_bytes);
  ~SlotMemory();
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  std::uint64_t slot_bytes() const { return slot_bytes_; }
  DevicePlace place(unsigned slot) const;
  std::uint64_t id() const { return id_; }  // of no other in this process

 private:
  const std::shared_ptr<FlexAllocator> allocator_;
  const AllocationIndex index_;
  const std::uint64_t slot_bytes_;
  const std::uint64_t id_;
  DevicePlace first_;
};

// Which slot each correction tensor goes to, decided when its blocks are handed to the card, in their order. The
// channel's lock is held.
class CorrectionSlots {
 public:
  // `leaves_out`: RuntimeOptions::elide_corrections.
  explicit CorrectionSlots(bool leaves_out);

  const std::shared_ptr<const SlotMemory>& memory() const { return memory_; }
  // Returns what it replaces, to be let go of with no lock held.
  std::shared_ptr<const SlotMemory> replace(std::shared_ptr<const SlotMemory> memory);

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
  void forget();

 private:
  static constexpr unsigned kNoSlot = ~0u;
  struct Content {
    std::vector<std::byte> bytes;
    bool known = false;
  };
  unsigned slot_with(const Unit& dma) const;
  void note(unsigned slot, const Unit& dma);

  const bool leaves_out_;
  std::shared_ptr<const SlotMemory> memory_;
  unsigned next_ = 0;
  unsigned last_ = kNoSlot;        // of the last correction that was placed
  unsigned last_sent_ = kNoSlot;   // of the last one that was sent
  std::uint64_t contents_of_ = 0;  // SlotMemory::id()
  std::array<Content, SlotMemory::kSlots> contents_;
};

}  // namespace svp
