// SPDX-License-Identifier: Apache-2.0
// Which region serves a request of FlexAllocator.
#include <algorithm>
#include <bit>
#include <string>

#include "host_driver/memory/flex_allocator.hpp"

namespace svp {
namespace {

constexpr std::uint32_t regions_of(RegionType type) {
  constexpr std::uint32_t kProgramRegions = 1U << wire::kProgramRegion;
  return type == RegionType::Program ? kProgramRegions : kProgramRegions - 1;
}

std::string region_list(std::uint32_t regions) {
  std::string text;
  for (; regions != 0; regions &= regions - 1) {
    text += (text.empty() ? "" : ", ") + std::to_string(std::countr_zero(regions));
  }
  return text;
}

// Whether no region serves it but those that it names.
constexpr bool is_confined(const AllocationPolicy& policy) {
  return policy.placement == Placement::Bind || (policy.placement == Placement::Interleave && policy.regions != 0);
}

}  // namespace

void FlexAllocator::check_placement(const AllocationPolicy& policy) {
  if (policy.placement == Placement::Anywhere) {
    if (policy.regions == 0) return;
    throw InvalidArgument("regions", "regions are named, and the placement is Anywhere",
                          "say Bind, Preferred or Interleave");
  }
  if (policy.placement > Placement::Interleave) {
    throw InvalidArgument("placement", "there is no such placement", "say Anywhere, Bind, Preferred or Interleave");
  }
  if (policy.placement == Placement::Interleave && policy.regions == 0) return;
  if (policy.regions == 0) {
    throw InvalidArgument("regions", "no region is named", "name one, or let the placement be Anywhere");
  }
  if (const std::uint32_t wrong = policy.regions & ~regions_of(policy.type); wrong != 0) {
    throw InvalidArgument(
        "regions", "no region for this type of memory: " + region_list(wrong),
        policy.type == RegionType::Program ? "name region 7 for programs" : "name regions 0 to 6 for tensors");
  }
}

std::uint32_t FlexAllocator::eligible(const AllocationPolicy& policy) {
  const std::uint32_t of_type = regions_of(policy.type);
  return is_confined(policy) ? of_type & policy.regions : of_type;
}

FlexAllocator::HeldRegion* FlexAllocator::next_region(const AllocationPolicy& policy, std::uint32_t tried) {
  std::uint32_t candidates = held_ & eligible(policy) & ~tried;
  if (const std::uint32_t named = candidates & policy.regions; named != 0) candidates = named;
  HeldRegion* chosen = nullptr;
  for (; candidates != 0; candidates &= candidates - 1) {
    HeldRegion& region = *regions_[static_cast<unsigned>(std::countr_zero(candidates))];
    const bool better = chosen == nullptr ||
                        (policy.order == RegionOrder::MostFree ? region.heap.free_bytes() > chosen->heap.free_bytes()
                                                               : region.heap.free_bytes() < chosen->heap.free_bytes());
    if (better) chosen = &region;
  }
  return chosen;
}

// The firmware gives the lowest ordinal that is free.
std::optional<unsigned> FlexAllocator::next_ordinal(RegionType type) const {
  const std::uint32_t of_type = regions_of(type);
  if (type == RegionType::Tensor && std::popcount(held_ & of_type) >= static_cast<int>(options_.max_regions)) return {};
  const std::uint32_t free = of_type & ~held_;
  return free != 0 ? std::optional(static_cast<unsigned>(std::countr_zero(free))) : std::nullopt;
}

bool FlexAllocator::can_hold_another(const AllocationPolicy& policy) const {
  const auto ordinal = next_ordinal(policy.type);
  return ordinal && (eligible(policy) >> *ordinal & 1U) != 0;
}

FlexAllocator::Failure FlexAllocator::none_can_serve(const AllocationPolicy& policy, std::uint64_t bytes) const {
  if (!is_confined(policy) || (held_ & eligible(policy)) != 0 || can_hold_another(policy)) {
    return {.shortage = shortage(policy, bytes), .error = std::nullopt};
  }
  const auto next = next_ordinal(policy.type);
  return {
      .shortage = {},
      .error = ErrorInfo{.layer = Layer::Memory,
                         .source = "region " + region_list(policy.regions),
                         .outcome = wire::Outcome::Rejected,
                         .recoverable = true,
                         .next_step = "bind to a region that the statistics list, use Preferred, or acquire regions "
                                      "when the context is opened",
                         .message = "an allocation is bound to regions that are not held, and " +
                                    (next ? "the card gives region " + std::to_string(*next) + " next"
                                          : std::string("no further one may be held"))}};
}

MemoryShortage FlexAllocator::shortage(const AllocationPolicy& policy, std::uint64_t bytes) const {
  MemoryShortage result{.requested = saturating_align_up(bytes, kBlockUnit), .limit = limiting(policy, bytes)};
  for (const auto& held : regions_) {
    if (!held || (eligible(policy) >> held->grant.ordinal & 1U) == 0) continue;
    result.free_bytes += held->heap.free_bytes();
    result.total_bytes += held->heap.total_bytes();
    result.largest_block = std::max(result.largest_block, held->heap.largest_free());
  }
  if (policy.placement == Placement::Interleave) result.largest_block = free_in_chunks(policy);
  return result;
}

}  // namespace svp
