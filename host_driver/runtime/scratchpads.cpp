// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/scratchpads.hpp"

#include <algorithm>

#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/runtime/unit.hpp"

namespace svp {

// Allocating may call the program: without the lock. Of two threads that allocate the second one's is given back.
ResolvedAllocation Scratchpads::use(FlexAllocator& allocator, AllocationUses& uses) {
  const auto known = [&] {
    const std::lock_guard lock(mutex_);
    return memory_;
  };
  AllocationIndex memory = known();
  if (memory != AllocationIndex::Null) {
    if (const auto here = allocator.try_use(memory, uses)) return *here;
  }
  // A stick behind the last slice: see claim().
  const AllocationIndex mine = allocator.allocate(kBytes + wire::kStickBytes, AllocationPolicy{});
  {
    const std::lock_guard lock(mutex_);
    if (memory_ == memory) {
      memory_ = mine;
      cleared_ = 0;
    }
    memory = memory_;
  }
  if (memory != mine) allocator.deallocate(mine);
  const auto here = allocator.try_use(memory, uses);
  if (!here) throw Error(here.error());
  return *here;
}

std::optional<ClearedSlices> Scratchpads::to_clear(unsigned slices) const {
  const std::lock_guard lock(mutex_);
  if (slices <= cleared_) return std::nullopt;
  return ClearedSlices{memory_, cleared_, slices};
}

void Scratchpads::claim(ClearedSlices& slices, Unit& fill) {
  const std::lock_guard lock(mutex_);
  const bool same = slices.memory == memory_;  // else it is gone, and the launch fails
  const unsigned first = same ? std::clamp(cleared_, slices.first, slices.end) : slices.first;
  wire::FillPayload& payload = fill.block.payload.fill;
  if (first == slices.end) {
    payload.destination.offset += kBytes - slices.offset();
    payload.bytes = wire::kStickBytes;
  } else {
    const std::uint64_t others = (first - slices.first) * wire::program::kScratchpadStride;
    payload.destination.offset += others;
    payload.bytes -= others;
  }
  slices.first = first;
  if (same) cleared_ = std::max(cleared_, slices.end);
}

void Scratchpads::not_cleared(const ClearedSlices& slices) noexcept {
  const std::lock_guard lock(mutex_);
  if (slices.memory == memory_ && slices.first != slices.end) cleared_ = std::min(cleared_, slices.first);
}

void Scratchpads::enter(const UseClock& stream, std::uint64_t launch, std::vector<AwaitedUse>& after) {
  const std::lock_guard lock(mutex_);
  auto mine = std::ranges::find(last_, &stream, &AwaitedUse::stream);
  if (mine == last_.end()) mine = last_.insert(last_.end(), {&stream, 0});
  after.reserve(after.size() + last_.size());
  for (const AwaitedUse& other : last_) {
    if (other.stream != &stream && !other.ended()) after.push_back(other);
  }
  mine->launch = launch;
}

void Scratchpads::hold_back(StreamChannel& stream) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const bool known = std::ranges::find(waiting_, &stream) != waiting_.end();
    if (!known) waiting_.push_back(&stream);  // there is room for all streams
    any_waits_.store(true, std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // with StreamChannel::end_place()
}

// Who is woken may have to wait on, and is in the list again then.
void Scratchpads::wake() noexcept {
  std::unique_lock lock(mutex_);
  std::size_t left = waiting_.size();
  while (left-- != 0 && !waiting_.empty()) {
    StreamChannel* const stream = waiting_.front();
    waiting_.erase(waiting_.begin());
    any_waits_.store(!waiting_.empty(), std::memory_order_relaxed);
    lock.unlock();
    stream->awaited_event_came();
    lock.lock();
  }
}

}  // namespace svp
