// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/region_pool.hpp"

#include <algorithm>
#include <bit>

#include "firmware/core/detectors.hpp"
#include "firmware/hal/record.hpp"
#include "shared/units.hpp"

namespace fw {

using wire::kGranuleBytes;
using wire::Status;

void RegionPool::init(hal::MemoryRange range, std::byte* bitmaps, bool warm, std::uint64_t populated_budget_bytes) {
  base_ = range.begin;
  granules_ = std::min((range.end - range.begin) / kGranuleBytes, kMaxGranules);
  budget_granules_ = populated_budget_bytes == 0 ? granules_ : populated_budget_bytes / kGranuleBytes;
  dirty_ = reinterpret_cast<Word*>(bitmaps);
  populated_ = dirty_ + kMaxGranules / kBits;
  grant_count_ = 0;
  quarantined_ = 0;
  retired_ = populated_ + kMaxGranules / kBits;
  retired_count_ = 0;
  std::uint64_t populated = 0;
  for (std::uint64_t i = 0; i < kMaxGranules / kBits; ++i) {
    if (!warm) dirty_[i] = populated_[i] = retired_[i] = 0;
    retired_count_ += static_cast<std::uint64_t>(std::popcount(retired_[i]));
    populated += static_cast<std::uint64_t>(std::popcount(populated_[i]));
  }
  populated_count_.store(populated, std::memory_order_relaxed);
  if (!warm) return;
  // Whatever was granted before the reset has lost its owner: its dirty memory is quarantined until it is clean.
  for (std::uint64_t granule = 0; granule < granules_ && grant_count_ < kMaxGrants;) {
    if (!test(dirty_, granule)) {
      ++granule;
      continue;
    }
    const std::uint64_t first = granule;
    // The last free entry takes everything that is left, so that no dirty granule can ever be granted unscrubbed.
    const bool last = grant_count_ + 1 == kMaxGrants;
    granule = last ? granules_ : granule;
    while (granule < granules_ && test(dirty_, granule)) ++granule;
    grants_[grant_count_++] = {first, granule - first, 0, 0, true};
    ++quarantined_;
  }
}

bool RegionPool::test(const Word* map, std::uint64_t granule) {
  return (std::atomic_ref<Word>(const_cast<Word&>(map[granule / kBits])).load(std::memory_order_relaxed) >>
              granule % kBits &
          1) != 0;
}
bool RegionPool::set(Word* map, std::uint64_t granule) {
  const Word bit = Word{1} << granule % kBits;
  std::atomic_ref<Word> word(map[granule / kBits]);
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return false;
  return (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
}
void RegionPool::clear(Word* map, std::uint64_t granule) {
  std::atomic_ref<Word>(map[granule / kBits]).fetch_and(~(Word{1} << granule % kBits), std::memory_order_relaxed);
}
std::uint64_t RegionPool::granule_of(hal::PhysicalAddress address) const { return (address - base_) / kGranuleBytes; }

template <typename Visit>
void RegionPool::for_each_gap(Visit visit) const {
  // Retired granules cut a gap into pieces. Hardly any card has one.
  const auto visit_good = [&](std::uint64_t at, std::uint64_t count, std::size_t index) {
    const std::uint64_t end = at + count;
    for (std::uint64_t g = at; retired_count_ != 0 && g < end; ++g) {
      if (!test(retired_, g)) continue;
      if (g > at) visit(at, g - at, index);
      at = g + 1;
    }
    if (end > at) visit(at, end - at, index);
  };
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < grant_count_; ++i) {
    if (grants_[i].first > at) visit_good(at, grants_[i].first - at, i);
    at = grants_[i].first + grants_[i].count;
  }
  if (at < granules_) visit_good(at, granules_ - at, grant_count_);
}

bool RegionPool::retire(hal::PhysicalAddress address) {
  if (!set(retired_, granule_of(address))) return false;
  ++retired_count_;
  return true;
}

std::uint64_t RegionPool::free_bytes() const {
  std::uint64_t sum = 0;
  for_each_gap([&](std::uint64_t, std::uint64_t count, std::size_t) { sum += count; });
  return sum * kGranuleBytes;
}
std::uint64_t RegionPool::largest_bytes() const {
  std::uint64_t largest = 0;
  for_each_gap([&](std::uint64_t, std::uint64_t count, std::size_t) { largest = std::max(largest, count); });
  return largest * kGranuleBytes;
}

std::expected<hal::PhysicalAddress, Status> RegionPool::acquire(std::uint64_t bytes) {
  const std::uint64_t count = wire::align_up(bytes, kGranuleBytes) / kGranuleBytes;
  if (grant_count_ == kMaxGrants) return std::unexpected(Status::OutOfRegions);
  std::uint64_t first = granules_;
  std::size_t position = 0;
  for_each_gap([&](std::uint64_t at, std::uint64_t gap, std::size_t index) {
    if (first == granules_ && gap >= count) {
      first = at;
      position = index;
    }
  });
  if (count == 0 || first == granules_) return std::unexpected(Status::OutOfDeviceMemory);
  std::move_backward(grants_.begin() + static_cast<std::ptrdiff_t>(position),
                     grants_.begin() + static_cast<std::ptrdiff_t>(grant_count_),
                     grants_.begin() + static_cast<std::ptrdiff_t>(grant_count_ + 1));
  grants_[position] = {first, count, 0, 0, false};
  ++grant_count_;
  return base_ + first * kGranuleBytes;
}

void RegionPool::remove_grant(std::size_t index) {
  std::move(grants_.begin() + static_cast<std::ptrdiff_t>(index + 1),
            grants_.begin() + static_cast<std::ptrdiff_t>(grant_count_),
            grants_.begin() + static_cast<std::ptrdiff_t>(index));
  --grant_count_;
}

void RegionPool::release(hal::PhysicalAddress base) {
  for (std::size_t i = 0; i < grant_count_; ++i) {
    if (grants_[i].quarantined || grants_[i].first != granule_of(base)) continue;
    if (dirty_granules(base, grants_[i].count * kGranuleBytes) == 0) return remove_grant(i);
    grants_[i].quarantined = true;
    grants_[i].cleaned = 0;
    grants_[i].scrubbed = 0;
    ++quarantined_;
    return;
  }
}

bool RegionPool::scrub_step(std::uint64_t bytes) {
  if (quarantined_ == 0) return false;
  hal::mark(wire::Waypoint::Scrub);
  const auto grant = std::find_if(grants_.begin(), grants_.begin() + static_cast<std::ptrdiff_t>(grant_count_),
                                  [](const Grant& g) { return g.quarantined; });
  while (bytes > 0 && grant->cleaned < grant->count) {
    const std::uint64_t granule = grant->first + grant->cleaned;
    if (!test(dirty_, granule)) {
      ++grant->cleaned;
      continue;
    }
    const std::uint64_t step = std::min(bytes, kGranuleBytes - grant->scrubbed);
    if (detects(wire::kDetectResidue)) {
      hal::fill(hal::pointer(base_ + granule * kGranuleBytes + grant->scrubbed), 0, step);
    }
    grant->scrubbed += step;
    bytes -= step;
    if (grant->scrubbed == kGranuleBytes) {
      grant->scrubbed = 0;
      clear(dirty_, granule);
      ++grant->cleaned;
    }
  }
  if (grant->cleaned == grant->count) {
    remove_grant(static_cast<std::size_t>(grant - grants_.begin()));
    --quarantined_;
  }
  return true;
}

std::uint64_t RegionPool::quarantined_bytes() const {
  std::uint64_t dirty = 0;
  for (std::size_t i = 0; i < grant_count_; ++i) {
    const Grant& grant = grants_[i];
    if (!grant.quarantined) continue;
    dirty += dirty_granules(base_ + grant.first * kGranuleBytes, grant.count * kGranuleBytes) * kGranuleBytes -
             grant.scrubbed;
  }
  return dirty;
}

bool RegionPool::mark_written(hal::PhysicalAddress base, std::uint64_t bytes) {
  if (bytes == 0) return true;
  const std::uint64_t first = granule_of(base);
  const std::uint64_t last = granule_of(base + bytes - 1);
  std::uint64_t fresh = 0;
  for (std::uint64_t g = first; g <= last; ++g) fresh += test(populated_, g) ? 0 : 1;
  if (fresh != 0) {
    // Reserve first, so that harts that mark at the same time cannot pass the budget together.
    const std::uint64_t before = populated_count_.fetch_add(fresh, std::memory_order_relaxed);
    if (before + fresh > budget_granules_ && detects(wire::kDetectQuota)) {
      populated_count_.fetch_sub(fresh, std::memory_order_relaxed);
      return false;
    }
    std::uint64_t set_now = 0;
    for (std::uint64_t g = first; g <= last; ++g) set_now += set(populated_, g) ? 1 : 0;
    if (set_now < fresh) populated_count_.fetch_sub(fresh - set_now, std::memory_order_relaxed);
  }
  for (std::uint64_t g = first; g <= last; ++g) set(dirty_, g);
  return true;
}

std::uint64_t RegionPool::dirty_granules(hal::PhysicalAddress base, std::uint64_t bytes) const {
  std::uint64_t sum = 0;
  const std::uint64_t first = granule_of(base);
  for (std::uint64_t g = first; g < first + bytes / kGranuleBytes; ++g) sum += test(dirty_, g) ? 1 : 0;
  return sum;
}

}  // namespace fw
