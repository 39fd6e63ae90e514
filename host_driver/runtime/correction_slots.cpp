// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/correction_slots.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <ranges>
#include <string_view>
#include <utility>

#include "host_driver/runtime/unit.hpp"

namespace svp {

namespace {

// As many sizes as CorrectionPool has: kernels of about the same size share slots.
constexpr std::uint64_t kSmallest = 512;

unsigned slots_of(std::uint64_t slot_bytes, bool keeps_contents) {
  if (!keeps_contents) return SlotMemory::kWays;
  const std::uint64_t fit = SlotMemory::kRoom / slot_bytes;  // both powers of two
  return static_cast<unsigned>(std::clamp<std::uint64_t>(fit, SlotMemory::kWays, SlotMemory::kMostSlots));
}

std::span<const std::byte> bytes_of(const Unit& dma) { return {dma.correction.bytes, dma.block.payload.dma.bytes}; }

}  // namespace

std::shared_ptr<SlotMemory> SlotMemory::allocate(std::shared_ptr<FlexAllocator> allocator, std::uint64_t bytes,
                                                 Need need, bool keeps_contents) {
  const std::uint64_t slot_bytes = std::bit_ceil(std::max(bytes, kSmallest));
  const unsigned slots = slots_of(slot_bytes, keeps_contents);
  const AllocationPolicy policy{.type = RegionType::Program};
  const auto index = need == Need::Required ? allocator->allocate(slots * slot_bytes, policy)
                                            : allocator->try_allocate(slots * slot_bytes, policy);
  if (!index) return nullptr;
  return std::make_shared<SlotMemory>(std::move(allocator), *index, slot_bytes, slots, keeps_contents);
}

// Room for the contents now: a block is sent where nothing may fail.
SlotMemory::SlotMemory(std::shared_ptr<FlexAllocator> allocator, AllocationIndex index, std::uint64_t slot_bytes,
                       unsigned slots, bool keeps_contents)
    : allocator_(std::move(allocator)),
      index_(index),
      slot_bytes_(slot_bytes),
      contents_(slots),
      bytes_(keeps_contents ? slots * slot_bytes : 0) {
  const ResolvedAllocation at = allocator_->resolve(index_);
  first_ = {at.address, at.region_generation};
}

SlotMemory::~SlotMemory() { (void)allocator_->try_deallocate(index_); }

DevicePlace SlotMemory::place(unsigned slot) const {
  return {advanced(first_.address, slot * slot_bytes_), first_.generation};
}

std::span<const std::byte> SlotMemory::kept(unsigned slot) const {
  return std::span(bytes_).subspan(slot * slot_bytes_, contents_[slot].bytes);
}

SlotMemory::Key SlotMemory::key_of(std::span<const std::byte> bytes, std::uint64_t epoch) {
  return {bytes, std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()}), epoch};
}

unsigned SlotMemory::find(const Key& key) const {
  for (unsigned slot = set_of(key.hash), end = slot + kWays; slot < end; ++slot) {
    const Content& content = contents_[slot];
    if (content.epoch == key.epoch && content.hash == key.hash && std::ranges::equal(kept(slot), key.bytes))
      return slot;
  }
  return kNone;
}

unsigned SlotMemory::oldest(const Key& key, unsigned busy) const {
  const auto age = [&](unsigned slot) {
    const Content& content = contents_[slot];
    return bytes_.empty() || content.epoch == key.epoch ? content.used : 0;
  };
  const unsigned first = set_of(key.hash);
  unsigned found = first == busy ? first + 1 : first;
  for (unsigned slot = found + 1; slot < first + kWays; ++slot) {
    if (slot != busy && age(slot) < age(found)) found = slot;
  }
  return found;
}

void SlotMemory::note(unsigned slot, const Key& key) {
  Content& content = contents_[slot];
  content.hash = key.hash;
  content.bytes = key.bytes.size();
  content.epoch = key.epoch;
  std::ranges::copy(key.bytes, std::span(bytes_).subspan(slot * slot_bytes_).begin());
}

std::shared_ptr<SlotMemory> CorrectionSlots::replace(std::shared_ptr<SlotMemory> memory) {
  return std::exchange(memory_, std::move(memory));
}

bool CorrectionSlots::place_dma(Unit& dma) {
  SlotMemory* const memory = dma.launch->slots.get();
  if (memory == nullptr) {  // the stream's first slot, as it was written
    last_ = dma.slot = kNoSlot;
    return false;
  }
  const SlotMemory::Key key = leaves_out_ ? SlotMemory::key_of(bytes_of(dma), epoch_) : SlotMemory::Key{};
  const unsigned same = leaves_out_ ? memory->find(key) : kNoSlot;
  dma.slot = same;
  if (same == kNoSlot) {
    // The computation in front of the DMA may be reading its own slot.
    dma.slot = memory->oldest(key, last_);
    dma.block.payload.dma.destination = memory->place(dma.slot).endpoint();
    dma.block.payload.dma.flags |= wire::kDmaAhead;
    if (leaves_out_) memory->note(dma.slot, key);
  }
  memory->use(dma.slot);
  last_ = dma.slot;
  return same != kNoSlot;
}

void CorrectionSlots::place_compute(Unit& compute) const {
  const SlotMemory* const memory = compute.launch->slots.get();
  wire::ComputePayload& payload = compute.block.payload.compute;
  if (memory != nullptr && payload.correction_bytes != 0) payload.correction = memory->place(last_).endpoint();
}

void CorrectionSlots::sent(const Unit& dma) { last_sent_ = dma.slot; }

void CorrectionSlots::not_sent(const Unit& dma) {
  if (dma.slot != kNoSlot) dma.launch->slots->forget(dma.slot);
}

}  // namespace svp
