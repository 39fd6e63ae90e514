// SPDX-License-Identifier: Apache-2.0
// FlexAllocator: the card's budget of populated memory. A granule counts from when it is written first until the card
// is switched off, so memory that was in a block once is given before memory that never was; and when the budget is
// used up, an allocation waits for what was freed and is used by work under way.
#include <algorithm>

#include "host_driver/memory/flex_allocator.hpp"

namespace svp {

std::uint64_t FlexAllocator::touched_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& held : regions_) {
    if (held) sum += saturating_align_up(held->touched, wire::kGranuleBytes);
  }
  return sum;
}

bool FlexAllocator::something_comes_back() const { return doomed_bytes_ > stuck_bytes_; }

bool FlexAllocator::touch(HeldRegion& region, BlockId id, Untouched untouched) {
  const BlockNode& node = nodes_[id];
  const std::uint64_t end = (std::uint64_t{node.offset} + node.size) * kBlockUnit;
  if (end <= region.touched) return true;
  const std::uint64_t before = std::exchange(region.touched, end);
  if (untouched == Untouched::Any || !something_comes_back()) return true;
  const std::uint64_t budget = source_.budget_bytes();
  if (budget == 0 || touched_bytes() <= budget) return true;
  region.touched = before;
  return false;
}

// What was not freed in time is not waited for again: its work may wait for what the caller does next, or be a
// prepared launch that is kept.
bool FlexAllocator::await_any_freed(std::unique_lock<std::mutex>& lock,
                                    std::chrono::steady_clock::time_point deadline) {
  const std::uint64_t seen = freed_late_;
  if (freed_.wait_until(lock, deadline, [&] { return freed_late_ != seen || doomed_bytes_ == 0; })) return true;
  stuck_bytes_ = doomed_bytes_;
  return false;
}

}  // namespace svp
