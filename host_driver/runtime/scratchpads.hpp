// SPDX-License-Identifier: Apache-2.0
// The scratchpads of a function's device programs (shared/device_program.hpp): memory that outlives a launch. What one
// program leaves in them the next one finds, on whatever stream it is launched.
//
//   * One allocation, made when the first program needs it, again after a reset of the function. It is the context's
//     own: charged to its budget as any memory of it, in a region that no other function sees.
//   * A slice is cleared before the first program that has as many slices: a launch of its own, a Fill, which populates
//     the slice. What no program has touched takes no memory of the card.
//   * Launches that use them never run at the same time. Each stream runs its launches in order; one of another stream
//     is not sent before those that were launched earlier have ended, however they end. The order is that of the calls,
//     so no launches wait for each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "host_driver/memory/flex_allocator.hpp"
#include "shared/device_program.hpp"
#include "shared/window.hpp"

namespace svp {

struct Unit;

// Slices [first, end) of that memory, which a launch clears.
struct ClearedSlices {
  AllocationIndex memory = AllocationIndex::Null;
  unsigned first = 0;
  unsigned end = 0;

  std::uint64_t offset() const { return first * wire::program::kScratchpadStride; }
  std::uint64_t bytes() const { return (end - first) * wire::program::kScratchpadStride; }
};

// Thread-safe. Its lock is taken behind that of a stream.
class Scratchpads {
 public:
  Scratchpads() { waiting_.reserve(2 * wire::kStreamsPerFunction); }

  static constexpr std::uint64_t kBytes = wire::program::kMaxSlices * wire::program::kScratchpadStride;

  // Where they lie, for a launch. Throws OutOfMemory, and what FlexAllocator::allocate() throws; the memory-pressure
  // callbacks may run.
  ResolvedAllocation use(FlexAllocator& allocator, AllocationUses& uses);

  // What has to be cleared before a program of so many slices; empty: nothing.
  std::optional<ClearedSlices> to_clear(unsigned slices) const;
  // With the lock of the stream, when the launch that clears takes its place: what others have cleared meanwhile is
  // taken out of `fill`, and of `slices`. When nothing is left it fills the stick behind the last slice.
  void claim(ClearedSlices& slices, Unit& fill);
  // That launch has failed.
  void not_cleared(const ClearedSlices& slices) noexcept;

  // With the lock of `stream`: launch number `launch` of it takes its place. `after` gets the launches of other
  // streams that have to end before it begins. May throw std::bad_alloc; nothing has changed then.
  void enter(const UseClock& stream, std::uint64_t launch, std::vector<AwaitedUse>& after);
  // With the lock of `stream`, whose next launch may not begin yet: it is told by wake().
  void hold_back(StreamChannel& stream) noexcept;
  bool anyone_waits() const { return any_waits_.load(std::memory_order_relaxed); }
  // A stream's launch has ended: with no stream's lock held.
  void wake() noexcept;

 private:
  mutable std::mutex mutex_;
  AllocationIndex memory_ = AllocationIndex::Null;
  unsigned cleared_ = 0;                 // slices
  std::vector<AwaitedUse> last_;         // of each stream that has launched any
  std::vector<StreamChannel*> waiting_;  // at most once each
  std::atomic<bool> any_waits_{false};   // waiting_ is not empty
};

}  // namespace svp
