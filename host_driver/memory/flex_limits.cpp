// SPDX-License-Identifier: Apache-2.0
// How much memory FlexAllocator may hold, and regions that it acquires before somebody needs them.
#include <algorithm>
#include <bit>
#include <string>

#include "host_driver/base/number_text.hpp"
#include "host_driver/memory/flex_allocator.hpp"

namespace svp {
namespace {

constexpr std::uint64_t whole_granules(std::uint64_t bytes) {
  return bytes / wire::kGranuleBytes * wire::kGranuleBytes;
}

std::uint64_t checked_limit(const char* field, std::optional<std::uint64_t> bytes, std::uint64_t none) {
  if (bytes != 0) return bytes.value_or(none);
  throw InvalidArgument(field, "a memory limit of 0 bytes lets nothing be allocated",
                        "give 2 MiB or more, or no limit");
}

double checked_fraction(const char* field, double fraction) {
  if (fraction > 0 && fraction <= 1) return fraction;  // false for what is no number
  throw InvalidArgument(field, svp::text_of(fraction) + " is not a part of the memory",
                        "give more than 0 and at most 1");
}

}  // namespace

void FlexAllocator::check_limits() const {
  if (options_.max_regions == 0 || options_.max_regions > wire::kProgramRegion) {
    throw InvalidArgument("max_regions", std::to_string(options_.max_regions) + " tensor regions can not be held",
                          "give 1 to " + std::to_string(wire::kProgramRegion));
  }
  if (options_.acquire_at_open.size() > options_.max_regions) {
    throw InvalidArgument("acquire_at_open",
                          std::to_string(options_.acquire_at_open.size()) + " regions are more than the " +
                              std::to_string(options_.max_regions) + " that may be held",
                          "name fewer, or raise max_regions");
  }
  (void)checked_limit("limit_bytes", options_.limit_bytes, kNoLimit);
  if (!options_.limit_fraction) return;
  (void)checked_fraction("limit_fraction", *options_.limit_fraction);
  if (options_.limit_bytes) {
    throw InvalidArgument("limit_fraction", "a limit in bytes was given as well", "give one of the two");
  }
}

void FlexAllocator::set_memory_limit(std::optional<std::uint64_t> bytes) {
  require_own_process();
  const std::uint64_t limit = checked_limit("bytes", bytes, kNoLimit);
  const std::scoped_lock grow(grow_mutex_);  // what is being acquired was allowed by the limit before
  const std::scoped_lock lock(mutex_);
  limit_ = limit;
}

void FlexAllocator::set_memory_fraction(double fraction) {
  (void)checked_fraction("fraction", fraction);
  const auto total = static_cast<double>(memory_info().total_bytes);
  const auto limit = static_cast<std::uint64_t>(fraction * total);
  set_memory_limit(std::max<std::uint64_t>(limit, 1));
}

std::optional<std::uint64_t> FlexAllocator::memory_limit() const {
  require_own_process();
  const std::scoped_lock lock(mutex_);
  return limit_ != kNoLimit ? std::optional(limit_) : std::nullopt;
}

void FlexAllocator::apply_limit_fraction() {
  if (options_.limit_fraction) set_memory_fraction(*options_.limit_fraction);
}

void FlexAllocator::acquire_at_open() {
  require_own_process();
  const std::scoped_lock grow(grow_mutex_);
  const std::vector<std::uint64_t>& wanted = options_.acquire_at_open;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (is_held(i)) continue;
    Expected<Region> region = acquire_within_limit(wanted[i]);
    if (region) {
      const std::scoped_lock lock(mutex_);
      add_region(*region);
      continue;
    }
    ErrorInfo& refused = region.error();
    refused.message = "region " + std::to_string(i) + " of acquire_at_open, " + std::to_string(wanted[i]) +
                      " bytes, can not be held: " + refused.message;
    throw Error(std::move(refused));
  }
}

bool FlexAllocator::is_held(std::size_t ordinal) const {
  const std::scoped_lock lock(mutex_);
  return (held_ >> ordinal & 1U) != 0;
}

Expected<Region> FlexAllocator::acquire_within_limit(std::uint64_t bytes) {
  if (largest_region(RegionType::Tensor, bytes) >= bytes) return acquire_exactly(RegionType::Tensor, bytes);
  return std::unexpected(ErrorInfo{.layer = Layer::Memory,
                                   .source = "memory limit",
                                   .outcome = wire::Outcome::Rejected,
                                   .recoverable = true,
                                   .next_step = "raise the memory limit, or acquire less",
                                   .message = "the memory limit does not allow it"});
}

std::uint64_t FlexAllocator::room_in_limit() const {
  return whole_granules(limit_ - std::min(limit_, usage_.reserved_bytes()));
}

std::uint64_t FlexAllocator::largest_region(RegionType type, std::uint64_t needed) const {
  constexpr std::uint64_t kProgramPart = 16;
  const std::uint64_t guaranteed = source_.guaranteed_bytes();
  const std::scoped_lock lock(mutex_);
  const std::uint64_t most = std::min(kMaxRegionBytes, room_in_limit());
  // Beyond the share there is only what nobody is guaranteed, and nobody knows how much that is.
  const std::uint64_t share = std::min(limit_, guaranteed != 0 ? guaranteed : kNoLimit);
  const std::uint64_t left = share - std::min(share, usage_.reserved_bytes());
  if (share == kNoLimit || needed > left) return most;
  const std::uint64_t wanted = type == RegionType::Program ? share / kProgramPart : left;
  return std::min(most, std::max(whole_granules(wanted), needed));
}

std::uint32_t FlexAllocator::regions_left() const {
  std::uint32_t held = 0;
  for (const auto& region : regions_) held += region && region->grant.type == RegionType::Tensor ? 1 : 0;
  return options_.max_regions - std::min(options_.max_regions, held);
}

std::uint64_t FlexAllocator::least_region() const {
  const std::uint64_t share = source_.guaranteed_bytes();
  const std::scoped_lock lock(mutex_);
  const std::uint32_t left = regions_left();
  const std::uint64_t most = std::min(share, limit_);
  const std::uint64_t rest = whole_granules(most - std::min(most, usage_.reserved_bytes()));
  const std::uint64_t others = left > 1 ? (left - 1) * kMaxRegionBytes : 0;
  return std::min(rest - std::min(rest, others), kMaxRegionBytes);
}

std::uint64_t FlexAllocator::limiting(const AllocationPolicy& policy, std::uint64_t bytes) const {
  const std::uint64_t needed = saturating_align_up(region_needed(policy, bytes), wire::kGranuleBytes);
  const bool limited = needed <= kMaxRegionBytes && needed > room_in_limit() && can_hold_another(policy);
  return limited ? limit_ : 0;
}

bool FlexAllocator::make_room_in_limit(const MemoryShortage& missing) {
  if (missing.limit == 0) return false;
  {
    const std::scoped_lock lock(mutex_);
    std::uint64_t room = room_in_limit();
    for (const auto& held : regions_) room += held && held->heap.unused() ? held->grant.bytes : 0;
    if (room < missing.requested) return false;
  }
  return release_unused_regions() != 0;
}

}  // namespace svp
