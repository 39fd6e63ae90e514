// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/region_pool.hpp"

#include <algorithm>
#include <bit>

#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/units.hpp"

namespace fw {

using wire::kGranuleBytes;
using wire::Status;

namespace {
constexpr std::uint64_t kNoGrant = ~std::uint64_t{0};
}

// ---- bitmaps --------------------------------------------------------------------------------------------------------

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

std::uint64_t RegionPool::next_set(const Word* map, std::uint64_t from, std::uint64_t end) {
  while (from < end) {
    std::atomic_ref<Word> word(const_cast<Word&>(map[from / kBits]));
    const Word rest = word.load(std::memory_order_relaxed) >> from % kBits;
    if (rest != 0) return std::min(from + static_cast<unsigned>(std::countr_zero(rest)), end);
    from = (from / kBits + 1) * kBits;
  }
  return end;
}
std::uint64_t RegionPool::count_set(const Word* map, std::uint64_t from, std::uint64_t end) {
  std::uint64_t sum = 0;
  while (from < end) {
    const std::uint64_t behind = std::min(end, (from / kBits + 1) * kBits);
    std::atomic_ref<Word> word(const_cast<Word&>(map[from / kBits]));
    const Word bits = word.load(std::memory_order_relaxed) >> from % kBits;
    const std::uint64_t count = behind - from;
    sum += static_cast<std::uint64_t>(std::popcount(count == kBits ? bits : bits & ((Word{1} << count) - 1)));
    from = behind;
  }
  return sum;
}

// ---- boot -----------------------------------------------------------------------------------------------------------

void RegionPool::init(hal::MemoryRange range, std::byte* bitmaps, bool warm, const BootOptions& options) {
  base_ = range.begin;
  granules_ = std::min((range.end - range.begin) / kGranuleBytes, kMaxGranules);
  const std::uint64_t budget = options.populated_budget_bytes / kGranuleBytes;
  bounded_ = options.populated_budget_bytes != 0 && budget < granules_;
  shares_ = divide_memory(options, granules_, bounded_ ? budget : granules_);
  zones_ = options.virtual_functions + 1;
  dirty_ = reinterpret_cast<Word*>(bitmaps);
  populated_ = dirty_ + kMaxGranules / kBits;
  retired_ = populated_ + kMaxGranules / kBits;
  grant_count_ = quarantined_grants_ = 0;
  unclean_bytes_ = scrubs_begun_ = borrowed_ = 0;
  scrubbed_last_ = kNobody;
  scrubbed_at_ = kNoGrant;
  for (std::uint64_t i = 0; i < kMaxGranules / kBits && !warm; ++i) dirty_[i] = populated_[i] = retired_[i] = 0;
  retired_count_ = count_set(retired_, 0, kMaxGranules);
  populated_count_.store(count_set(populated_, 0, kMaxGranules), std::memory_order_relaxed);
  lay_out_zones();
  for (Owner zone = 0; zone <= zones_; ++zone) {
    Tenant& tenant = tenants_[zone];
    tenant.granted = tenant.quarantined = tenant.grants = tenant.quarantined_grants = 0;
    tenant.dirty.store(0, std::memory_order_relaxed);
    tenant.populated = count_set(populated_, zone_first_[zone], zone_end(zone));
    borrowed_ += beyond_share(zone, tenant.populated);
    quarantine_left_overs(zone);
  }
}

void RegionPool::lay_out_zones() {
  std::uint64_t at = 0;
  for (Owner zone = 1; zone <= zones_; ++zone) {
    zone_first_[zone] = at;
    at += shares_.memory[zone];
  }
  zone_first_[kNobody] = at;
}

// Whatever was granted before a reset has lost its owner: dirty memory is quarantined until it is clean, and counts for
// the function in whose zone it lies.
void RegionPool::quarantine_left_overs(Owner zone) {
  // Half of the table stays for the owner; the last entry takes all that is left, so that no dirty granule is ever
  // granted unscrubbed.
  constexpr std::uint32_t kMost = kGrantsPerOwner / 2;
  Tenant& tenant = tenants_[zone];
  const std::uint64_t end = zone_end(zone);
  for (std::uint64_t g = next_set(dirty_, zone_first_[zone], end); g < end; g = next_set(dirty_, g, end)) {
    const std::uint64_t first = g;
    if (tenant.grants + 1 == kMost) g = end;
    while (g < end && test(dirty_, g)) ++g;
    insert_grant({first, g - first, 0, 0, zone, true});
    ++tenant.quarantined_grants;
    tenant.quarantined += g - first;
    unclean_bytes_ += count_set(dirty_, first, g) * kGranuleBytes;
    ++quarantined_grants_;
    ++scrubs_begun_;
  }
}

// ---- the table of grants --------------------------------------------------------------------------------------------

Owner RegionPool::zone_of(std::uint64_t granule) const {
  Owner zone = zones_;
  while (zone != kNobody && (granule < zone_first_[zone] || granule >= zone_end(zone))) --zone;
  return zone;
}

std::size_t RegionPool::index_of(std::uint64_t granule) const {
  const auto end = grants_.begin() + static_cast<std::ptrdiff_t>(grant_count_);
  const auto at = std::lower_bound(grants_.begin(), end, granule,
                                   [](const Grant& grant, std::uint64_t g) { return grant.first < g; });
  return static_cast<std::size_t>(at - grants_.begin());
}

void RegionPool::insert_grant(const Grant& grant) {
  const auto place = grants_.begin() + static_cast<std::ptrdiff_t>(index_of(grant.first));
  const auto end = grants_.begin() + static_cast<std::ptrdiff_t>(grant_count_);
  std::move_backward(place, end, end + 1);
  *place = grant;
  ++grant_count_;
  ++tenants_[grant.owner].grants;
}

void RegionPool::remove_grant(std::size_t index) {
  --tenants_[grants_[index].owner].grants;
  std::move(grants_.begin() + static_cast<std::ptrdiff_t>(index + 1),
            grants_.begin() + static_cast<std::ptrdiff_t>(grant_count_),
            grants_.begin() + static_cast<std::ptrdiff_t>(index));
  --grant_count_;
}

// ---- gaps -----------------------------------------------------------------------------------------------------------

template <typename Visit>
void RegionPool::for_each_gap(Owner zone, When when, Visit visit) const {
  // Retired granules cut a gap into pieces. Hardly any card has one.
  const auto visit_good = [&](std::uint64_t at, std::uint64_t end) {
    while (at < end) {
      const std::uint64_t bad = retired_count_ == 0 ? end : next_set(retired_, at, end);
      if (bad > at) visit(at, bad - at);
      at = bad + 1;
    }
  };
  std::uint64_t at = zone_first_[zone];
  const std::uint64_t end = zone_end(zone);
  for (std::size_t i = index_of(at); i < grant_count_ && grants_[i].first < end; ++i) {
    if (when == When::Scrubbed && grants_[i].quarantined) continue;
    visit_good(at, grants_[i].first);
    at = grants_[i].first + grants_[i].count;
  }
  visit_good(at, end);
}

std::uint64_t RegionPool::largest_gap(Owner zone, When when) const {
  std::uint64_t largest = 0;
  for_each_gap(zone, when, [&](std::uint64_t, std::uint64_t count) { largest = std::max(largest, count); });
  return largest;
}

template <typename Visit>
void RegionPool::for_each_zone(Owner owner, Visit visit) const {
  for (Owner zone = 0; zone <= zones_; ++zone) {
    if (zone == kNobody || zone == owner || owner == kNobody) visit(zone);
  }
}

std::uint64_t RegionPool::reach_bytes(Owner owner) const {
  std::uint64_t sum = 0;
  for_each_zone(owner, [&](Owner zone) { sum += share_bytes(zone); });
  return sum;
}
std::uint64_t RegionPool::free_bytes(Owner owner) const {
  std::uint64_t sum = 0;
  for_each_zone(owner, [&](Owner zone) {
    for_each_gap(zone, When::Now, [&](std::uint64_t, std::uint64_t count) { sum += count; });
  });
  return sum * kGranuleBytes;
}
std::uint64_t RegionPool::largest_bytes(Owner owner) const {
  std::uint64_t largest = 0;
  for_each_zone(owner, [&](Owner zone) { largest = std::max(largest, largest_gap(zone, When::Now)); });
  return largest * kGranuleBytes;
}

RegionPool::Place RegionPool::lowest(Owner zone, std::uint64_t count) const {
  Place place{0, false};
  for_each_gap(zone, When::Now, [&](std::uint64_t at, std::uint64_t gap) {
    if (!place.found && gap >= count) place = {at, true};
  });
  return place;
}

// A run of `count` granules with the most populated ones is found among those that begin at a populated granule, or
// where a gap begins or ends: any other one can be moved up to the next of these and loses nothing. Of a long gap only
// so many are looked at: hart 0 has others to serve.
RegionPool::Place RegionPool::most_populated(Owner zone, std::uint64_t count) const {
  Place best{0, false};
  std::uint64_t best_populated = 0;
  for_each_gap(zone, When::Now, [&](std::uint64_t begin, std::uint64_t gap) {
    if (gap < count) return;
    constexpr std::uint64_t kPlaces = 128;
    const std::uint64_t last = begin + gap - count;
    const std::uint64_t stride = (last - begin) / kPlaces + 1;
    std::uint64_t inside = count_set(populated_, begin, begin + count);
    for (std::uint64_t at = begin;;) {  // bounded: kPlaces, each a stride further
      if (!best.found || inside > best_populated) {
        best = {at, true};
        best_populated = inside;
      }
      if (at == last) break;
      const std::uint64_t next = next_set(populated_, std::min(at + stride, last), last);
      inside -= count_set(populated_, at, next);
      inside += count_set(populated_, at + count, next + count);
      at = next;
    }
  });
  return best;
}

// Low addresses keep the zone in one piece, so they are left only when the owner could not use the memory there.
RegionPool::Place RegionPool::place(Owner zone, std::uint64_t count) const {
  return scarce(zone, count) ? most_populated(zone, count) : lowest(zone, count);
}

// ---- granting and releasing -----------------------------------------------------------------------------------------

std::expected<hal::PhysicalAddress, Status> RegionPool::acquire(Owner owner, std::uint64_t bytes) {
  const std::uint64_t count = wire::align_up(bytes, kGranuleBytes) / kGranuleBytes;
  if (count == 0 || bytes > total_bytes()) return std::unexpected(Status::OutOfDeviceMemory);
  Tenant& tenant = tenants_[owner];
  if (tenant.grants == kGrantsPerOwner) return std::unexpected(Status::OutOfRegions);
  // What this owner could write on is in quarantine: memory beside it would be of no use to it.
  if (tenant.quarantined_grants != 0 && scarce(owner, count) && largest_gap(owner, When::Scrubbed) >= count) {
    return std::unexpected(Status::OutOfDeviceMemory);
  }
  for (const Owner zone : {owner, kNobody}) {
    const Place found = place(zone, count);
    if (!found.found) continue;
    insert_grant({found.first, count, 0, 0, owner, false});
    tenant.granted += count;
    return base_ + found.first * kGranuleBytes;
  }
  return std::unexpected(Status::OutOfDeviceMemory);
}

RegionPool::Prospect RegionPool::prospect(Owner owner, std::uint64_t bytes) const {
  const std::uint64_t count = wire::align_up(bytes, kGranuleBytes) / kGranuleBytes;
  const Tenant& tenant = tenants_[owner];
  if (tenant.grants == kGrantsPerOwner && tenant.quarantined_grants == 0) return Prospect::Never;
  if (largest_gap(owner, When::Scrubbed) >= count) return Prospect::AfterOwn;
  return largest_gap(kNobody, When::Scrubbed) >= count ? Prospect::AfterOthers : Prospect::Never;
}

void RegionPool::release(hal::PhysicalAddress base) {
  const std::uint64_t first = granule_of(base);
  const std::size_t index = index_of(first);
  if (index == grant_count_ || grants_[index].first != first || grants_[index].quarantined) return;
  Grant& grant = grants_[index];
  Tenant& tenant = tenants_[grant.owner];
  tenant.granted -= grant.count;
  const std::uint64_t dirty = count_set(dirty_, first, first + grant.count);
  if (dirty == 0) return remove_grant(index);
  tenant.dirty.fetch_sub(dirty, std::memory_order_relaxed);
  grant.quarantined = true;
  grant.cleaned = 0;
  grant.scrubbed = 0;
  tenant.quarantined += grant.count;
  ++tenant.quarantined_grants;
  unclean_bytes_ += dirty * kGranuleBytes;
  ++quarantined_grants_;
  ++scrubs_begun_;
}

// ---- scrubbing ------------------------------------------------------------------------------------------------------

// A granule of one owner's, then one of the next owner's: who quarantines without end holds up nobody but itself.
RegionPool::Grant* RegionPool::next_to_scrub() {
  if (scrubbed_at_ != kNoGrant) return &grants_[index_of(scrubbed_at_)];
  Owner owner = scrubbed_last_;
  do {
    owner = owner >= zones_ ? kNobody : owner + 1;
  } while (tenants_[owner].quarantined_grants == 0);
  const auto grant = std::find_if(grants_.begin(), grants_.begin() + static_cast<std::ptrdiff_t>(grant_count_),
                                  [&](const Grant& g) { return g.quarantined && g.owner == owner; });
  scrubbed_last_ = owner;
  scrubbed_at_ = grant->first;
  return &*grant;
}

// At most `bytes`, and at most the rest of one granule.
void RegionPool::clean(Grant& grant, std::uint64_t bytes) {
  const std::uint64_t granule = grant.first + grant.cleaned;
  const std::uint64_t step = std::min(bytes, kGranuleBytes - grant.scrubbed);
  if (!mutated(Mutant::ScrubMemory)) {
    hal::fill(hal::pointer(base_ + granule * kGranuleBytes + grant.scrubbed), 0, step);
  }
  grant.scrubbed += step;
  unclean_bytes_ -= step;
  if (grant.scrubbed != kGranuleBytes) return;
  grant.scrubbed = 0;
  clear(dirty_, granule);
  ++grant.cleaned;
  scrubbed_at_ = kNoGrant;
}

bool RegionPool::scrub_step(std::uint64_t bytes) {
  if (quarantined_grants_ == 0) return false;
  hal::mark(wire::Waypoint::Scrub);
  while (bytes > 0 && quarantined_grants_ != 0) {
    Grant& grant = *next_to_scrub();
    const std::uint64_t end = grant.first + grant.count;
    grant.cleaned = next_set(dirty_, grant.first + grant.cleaned, end) - grant.first;
    if (grant.cleaned != grant.count) {
      const std::uint64_t before = unclean_bytes_;
      clean(grant, bytes);
      bytes -= before - unclean_bytes_;
      grant.cleaned = next_set(dirty_, grant.first + grant.cleaned, end) - grant.first;
    }
    if (grant.cleaned != grant.count) continue;
    Tenant& tenant = tenants_[grant.owner];
    tenant.quarantined -= grant.count;
    --tenant.quarantined_grants;
    --quarantined_grants_;
    scrubbed_at_ = kNoGrant;
    remove_grant(static_cast<std::size_t>(&grant - grants_.data()));
  }
  return true;
}

// ---- what is written ------------------------------------------------------------------------------------------------

std::uint64_t RegionPool::beyond_share(Owner zone, std::uint64_t populated) const {
  // Nobody's share of the budget is what is borrowed: all that is populated in nobody's zone is.
  const std::uint64_t share = zone == kNobody ? 0 : shares_.populated[zone];
  return populated - std::min(populated, share);
}

// Granules of the zone that can be populated for the first time, now.
std::uint64_t RegionPool::populatable(Owner zone) const {
  const hal::LockGuard guard(populate_lock_);
  const std::uint64_t share = zone == kNobody ? 0 : shares_.populated[zone];
  const std::uint64_t populated = tenants_[zone].populated;
  const std::uint64_t common = shares_.populated[kNobody];
  return share - std::min(populated, share) + common - std::min(borrowed_, common);
}

// The whole range or nothing. A granule is populated once between two power cycles and costs the machine a page fault,
// so that a lock costs nothing beside it, and gives exact counts: no hart is refused for what another only tried.
bool RegionPool::populate(std::uint64_t first, std::uint64_t last) {
  const hal::LockGuard guard(populate_lock_);
  std::uint64_t fresh = 0;
  for (std::uint64_t g = first; g <= last; ++g) fresh += test(populated_, g) ? 0 : 1;
  const Owner zone = zone_of(first);
  Tenant& tenant = tenants_[zone];
  const std::uint64_t borrowed =
      borrowed_ + beyond_share(zone, tenant.populated + fresh) - beyond_share(zone, tenant.populated);
  if (borrowed > std::max(borrowed_, shares_.populated[kNobody])) return false;
  for (std::uint64_t g = first; g <= last; ++g) set(populated_, g);
  borrowed_ = borrowed;
  tenant.populated += fresh;
  populated_count_.fetch_add(fresh, std::memory_order_relaxed);
  return true;
}

bool RegionPool::populated(hal::PhysicalAddress base, std::uint64_t bytes) const {
  bool all = true;
  for (std::uint64_t g = granule_of(base); g <= granule_of(base + bytes - 1); ++g) all &= test(populated_, g);
  return all;
}

bool RegionPool::mark_written(Owner owner, hal::PhysicalAddress base, std::uint64_t bytes) {
  if (bytes == 0) return true;
  const std::uint64_t first = granule_of(base);
  const std::uint64_t last = granule_of(base + bytes - 1);
  if (!populated(base, bytes) && !populate(first, last)) return false;
  std::uint64_t dirtied = 0;
  for (std::uint64_t g = first; g <= last; ++g) dirtied += set(dirty_, g) ? 1 : 0;
  if (dirtied != 0) tenants_[owner].dirty.fetch_add(dirtied, std::memory_order_relaxed);
  return true;
}

bool RegionPool::retire(hal::PhysicalAddress address) {
  if (!set(retired_, granule_of(address))) return false;
  ++retired_count_;
  return true;
}

std::uint64_t RegionPool::dirty_granules(Owner owner) const {
  return tenants_[owner].dirty.load(std::memory_order_relaxed);
}

// ---- scans ----------------------------------------------------------------------------------------------------------

std::uint64_t RegionPool::scan_dirty_granules(Owner owner) const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < grant_count_; ++i) {
    const Grant& grant = grants_[i];
    if (!grant.quarantined && grant.owner == owner) sum += count_set(dirty_, grant.first, grant.first + grant.count);
  }
  return sum;
}

std::uint64_t RegionPool::scan_unclean_bytes() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < grant_count_; ++i) {
    const Grant& grant = grants_[i];
    if (!grant.quarantined) continue;
    sum += count_set(dirty_, grant.first, grant.first + grant.count) * kGranuleBytes - grant.scrubbed;
  }
  return sum;
}

std::uint64_t RegionPool::scan_populated_granules() const { return count_set(populated_, 0, granules_); }

}  // namespace fw
