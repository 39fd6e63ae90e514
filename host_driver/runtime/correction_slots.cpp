// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/correction_slots.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <span>
#include <utility>

#include "host_driver/runtime/unit.hpp"

namespace svp {

namespace {

// As many sizes as CorrectionPool has: kernels of about the same size share slots.
constexpr std::uint64_t kSmallest = 512;

std::atomic<std::uint64_t> last_id{0};

}  // namespace

std::shared_ptr<const SlotMemory> SlotMemory::allocate(std::shared_ptr<FlexAllocator> allocator, std::uint64_t bytes,
                                                       Need need) {
  const std::uint64_t slot_bytes = std::bit_ceil(std::max(bytes, kSmallest));
  const AllocationPolicy policy{.type = RegionType::Program};
  const auto index = need == Need::Required ? allocator->allocate(kSlots * slot_bytes, policy)
                                            : allocator->try_allocate(kSlots * slot_bytes, policy);
  if (!index) return nullptr;
  return std::make_shared<const SlotMemory>(std::move(allocator), *index, slot_bytes);
}

SlotMemory::SlotMemory(std::shared_ptr<FlexAllocator> allocator, AllocationIndex index, std::uint64_t slot_bytes)
    : allocator_(std::move(allocator)), index_(index), slot_bytes_(slot_bytes), id_(++last_id) {
  const ResolvedAllocation at = allocator_->resolve(index_);
  first_ = {at.address, at.region_generation};
}

SlotMemory::~SlotMemory() { (void)allocator_->try_deallocate(index_); }

DevicePlace SlotMemory::place(unsigned slot) const {
  return {advanced(first_.address, slot * slot_bytes_), first_.generation};
}

// Room for the contents now: a block is sent where nothing may fail.
CorrectionSlots::CorrectionSlots(bool leaves_out) : leaves_out_(leaves_out) {
  for (Content& content : contents_) content.bytes.reserve(leaves_out ? wire::kMaxCorrectionBytes : 0);
}

std::shared_ptr<const SlotMemory> CorrectionSlots::replace(std::shared_ptr<const SlotMemory> memory) {
  return std::exchange(memory_, std::move(memory));
}

namespace {

std::span<const std::byte> bytes_of(const Unit& dma) { return {dma.correction.bytes, dma.block.payload.dma.bytes}; }

}  // namespace

unsigned CorrectionSlots::slot_with(const Unit& dma) const {
  if (!leaves_out_ || dma.launch->slots->id() != contents_of_) return kNoSlot;
  for (unsigned slot = 0; slot < SlotMemory::kSlots; ++slot) {
    if (contents_[slot].known && std::ranges::equal(contents_[slot].bytes, bytes_of(dma))) return slot;
  }
  return kNoSlot;
}

void CorrectionSlots::note(unsigned slot, const Unit& dma) {
  if (!leaves_out_) return;
  if (dma.launch->slots->id() != contents_of_) forget();
  contents_of_ = dma.launch->slots->id();
  const auto bytes = bytes_of(dma);
  contents_[slot].bytes.assign(bytes.begin(), bytes.end());
  contents_[slot].known = true;
}

bool CorrectionSlots::place_dma(Unit& dma) {
  const SlotMemory* const memory = dma.launch->slots.get();
  if (memory == nullptr) {  // the stream's first slot, as it was written
    last_ = dma.slot = kNoSlot;
    return false;
  }
  const unsigned same = slot_with(dma);
  dma.slot = same != kNoSlot ? same : next_;
  if (same == kNoSlot) {
    // The computation in front of the DMA may be reading its own slot.
    if (dma.slot == last_) dma.slot = (dma.slot + 1) % SlotMemory::kSlots;
    next_ = (dma.slot + 1) % SlotMemory::kSlots;
    dma.block.payload.dma.destination = memory->place(dma.slot).endpoint();
    dma.block.payload.dma.flags |= wire::kDmaAhead;
    note(dma.slot, dma);
  }
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
  if (dma.slot != kNoSlot) contents_[dma.slot].known = false;
}

void CorrectionSlots::forget() {
  for (Content& content : contents_) content.known = false;
}

}  // namespace svp
