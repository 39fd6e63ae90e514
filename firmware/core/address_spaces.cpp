// SPDX-License-Identifier: Apache-2.0
// The address spaces of functions: made step by step as launches need them, retired when a region goes away, destroyed
// when nothing runs on them, and paid for by the function's share of firmware memory. Hart 0 only.
#include <algorithm>
#include <atomic>
#include <utility>

#include "firmware/core/context_layout.hpp"
#include "firmware/core/launch.hpp"
#include "firmware/core/region_pool.hpp"
#include "firmware/hal/address_space.hpp"

namespace fw {

// ---- the share of a function --------------------------------------------------------------------------------------------

namespace {

// Page tables that one call of hal makes at most: a window of 16 GiB, one for each GiB.
constexpr std::uint64_t kMostTables = (std::uint64_t{1} << wire::kRegionShift) / wire::kGiB;
// Of a context with one image: one for its GiB, one each for text, pool, arguments, correction and stack. A scratchpad is
// one large page and needs none.
constexpr std::uint64_t kTablesPerContext = 6;

}  // namespace

std::uint64_t CoreManager::smallest_share(unsigned cores) {
  constexpr std::uint64_t kImage = wire::kMaxTextBytes + wire::kMaxPoolBytes;
  // Structure and root, and the tables of seven Tensor regions; once more what make_tables() wants to see free.
  constexpr std::uint64_t kSpace =
      kFunctionSpaceBytes + kPageBytes + (wire::kProgramRegion + 1) * kMostTables * kPageBytes;
  constexpr std::uint64_t kCore = kCoreSpaceBytes + kPageBytes + kTablesPerContext * kPageBytes + kContextDataBytes +
                                  wire::kScratchpadBytes + wire::kMaxPoolBytes;
  return kSpace + kImage + cores * kCore;
}

void CoreManager::charge(FunctionSpace& space, std::uint64_t bytes) {
  space.bytes += bytes;
  space.tenant->bytes += bytes;
}

std::uint64_t CoreManager::arena_pages() const { return hal::arena_pages_in_use() - (planted_ != 0 ? 1 : 0); }

// `bytes` is whole pages.
hal::PhysicalAddress CoreManager::take_pages(FunctionSpace& space, std::uint64_t bytes) {
  if (!fits(*space.tenant, bytes)) return 0;
  const hal::PhysicalAddress pages = hal::allocate_pages(bytes);
  if (pages == 0) return 0;
  charge(space, bytes);
  prepared_bytes_ += bytes;
  return pages;
}

// Page tables are made inside hal; only hart 0 makes any, so their number tells what a call took.
template <typename Make>
bool CoreManager::make_tables(FunctionSpace& space, Make make) {
  if (!fits(*space.tenant, kMostTables * kPageBytes)) return false;
  const std::uint64_t before = hal::table_pages();
  const bool made = make();
  charge(space, (hal::table_pages() - before) * kPageBytes);
  return made;
}

// ---- making -------------------------------------------------------------------------------------------------------------

CoreManager::FunctionSpace* CoreManager::ensure_space(const Function& function) {
  Tenant& tenant = tenants_[function.id];
  if (tenant.current != nullptr) return tenant.current;
  const hal::PhysicalAddress pages = fits(tenant, kFunctionSpaceBytes) ? hal::allocate_pages(kFunctionSpaceBytes) : 0;
  if (pages == 0) return nullptr;
  tenant.current = reinterpret_cast<FunctionSpace*>(hal::pointer(pages));  // zeroed: every member's start value
  tenant.current->tenant = &tenant;
  charge(*tenant.current, kFunctionSpaceBytes);
  return tenant.current;
}

// Tables of every Tensor region exist in the space's own root. Program regions have no data mapping at all.
bool CoreManager::ensure_regions(const Function& function, FunctionSpace& space) {
  if (space.regions_version == function.regions.version()) return true;
  if (space.root == 0 && !make_tables(space, [&] { return (space.root = hal::create_root()) != 0; })) return false;
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    const Region& region = function.regions.at(i);
    const auto bit = static_cast<std::uint8_t>(1u << i);
    if (region.bytes == 0 || region.type != wire::RegionType::Tensor || (space.windows & bit) != 0) continue;
    const auto window = [&] { return hal::prepare_window(space.root, wire::region_window(i), region.bytes); };
    if (!make_tables(space, window)) return false;
    space.regions[i] = {region.base, region.bytes, false};
    space.windows |= bit;
  }
  space.regions_version = function.regions.version();
  return true;
}

// On a core that runs launches of this space as well: they see the new window, the old ones do not change.
bool CoreManager::share_regions(const FunctionSpace& space, CoreSpace& core) {
  if (core.windows == space.windows) return true;  // as on all launches but the first: every turn of the loop counts
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    const auto bit = static_cast<std::uint8_t>(1u << i);
    if ((space.windows & bit) == 0 || (core.windows & bit) != 0) continue;
    if (!hal::share_window(space.root, core.root, wire::region_window(i), space.regions[i].bytes)) return false;
    std::atomic_ref(core.windows).store(core.windows | bit, std::memory_order_release);
  }
  return true;
}

CoreManager::CoreSpace* CoreManager::ensure_core(FunctionSpace& space, unsigned core) {
  CoreSpace*& entry = space.cores[core];
  if (entry == nullptr) {
    const auto pages = take_pages(space, kCoreSpaceBytes);
    if (pages == 0) return nullptr;
    entry = reinterpret_cast<CoreSpace*>(hal::pointer(pages));  // zeroed: every member's start value
  }
  if (entry->root == 0 && !make_tables(space, [&] { return (entry->root = hal::create_root()) != 0; })) return nullptr;
  return share_regions(space, *entry) ? entry : nullptr;
}

bool CoreManager::prepare_planted() {
  if (planted_ == 0) {
    planted_ = hal::allocate_pages(kPageBytes);
    if (planted_ != 0) hal::plant(planted_);
  }
  return planted_ != 0;
}

bool CoreManager::plant_in(FunctionSpace& space, CoreSpace& core, hal::PhysicalAddress page) {
  static_assert(kPlantedAt == context_base(kContextsPerCore));
  if (core.planted != 0) return true;
  const bool mapped = make_tables(
      space, [&] { return hal::map(core.root, kPlantedAt, page, kPageBytes, hal::Protection::ReadExecute); });
  if (mapped) std::atomic_ref(core.planted).store(1, std::memory_order_release);
  return mapped;
}

bool CoreManager::map_context_data(FunctionSpace& space, CoreSpace& core, unsigned index) {
  ContextSlot& slot = core.contexts[index];
  if (slot.mapped) return true;
  // What an attempt that ran out of memory has got already is kept for the next one.
  if (slot.data == 0) slot.data = take_pages(space, kContextDataBytes);
  if (slot.scratchpad == 0) slot.scratchpad = take_pages(space, wire::kScratchpadBytes);
  if (slot.data == 0 || slot.scratchpad == 0) return false;
  const std::uint64_t base = context_base(index);
  slot.mapped = make_tables(space, [&] {
    return hal::map(core.root, base + wire::kArgumentsOffset, slot.data + kArgumentsAt, kPageBytes,
                    hal::Protection::Read) &&
           hal::map(core.root, base + wire::kCorrectionOffset, slot.data + kCorrectionAt, kPageBytes,
                    hal::Protection::Read) &&
           hal::map(core.root, base + wire::kStackOffset, slot.data + kStackAt, wire::kKernelStackBytes,
                    hal::Protection::ReadWrite) &&
           hal::map(core.root, base + wire::kScratchpadOffset, slot.scratchpad, wire::kScratchpadBytes,
                    hal::Protection::ReadWrite);
  });
  return slot.mapped;
}

bool CoreManager::ensure_context(FunctionSpace& space, CoreSpace& core, unsigned index, unsigned area_index) {
  ContextSlot& slot = core.contexts[index];
  if (!map_context_data(space, core, index)) return false;
  const auto bit = static_cast<std::uint16_t>(1u << area_index);
  if ((slot.mapped_areas & bit) != 0) return true;
  const ExecutionArea& area = space.areas[area_index];
  hal::PhysicalAddress& pool = slot.pools[area_index];
  if (area.pool_pages != 0 && pool == 0 && (pool = take_pages(space, area.pool_pages)) == 0) return false;
  const std::uint64_t base = area_base(index, area_index);
  const bool mapped = make_tables(space, [&] {
    return hal::map(core.root, base + wire::kTextOffset, area.text, area.text_pages, hal::Protection::ReadExecute) &&
           (pool == 0 ||
            hal::map(core.root, base + wire::kPoolOffset, pool, area.pool_pages, hal::Protection::ReadWrite));
  });
  if (mapped) slot.mapped_areas |= bit;
  return mapped;
}

// ---- retiring and destroying --------------------------------------------------------------------------------------------

bool CoreManager::maps(const FunctionSpace* space, hal::PhysicalAddress base) {
  if (space == nullptr) return false;
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    if ((space->windows >> i & 1) != 0 && space->regions[i].base == base) return true;
  }
  return false;
}

bool CoreManager::retire(Tenant& tenant) {
  const auto place = std::find(tenant.retired.begin(), tenant.retired.end(), nullptr);
  if (place == tenant.retired.end()) return false;
  *place = std::exchange(tenant.current, nullptr);
  return true;
}

bool CoreManager::release_region(const Function& function, unsigned ordinal) {
  Tenant& tenant = tenants_[function.id];
  const Region& region = function.regions.at(ordinal);
  if (tenant.current != nullptr && tenant.current->launches == 0) {
    destroy(tenant.current);
  } else if (region.type == wire::RegionType::Program) {
    note_write(function, region.base, region.bytes);  // the images in it are gone; what was loaded of them runs on
  } else if (maps(tenant.current, region.base) && !retire(tenant)) {
    return false;
  }
  bool held = false;
  for (FunctionSpace* space : tenant.retired) {
    if (!maps(space, region.base)) continue;
    for (MappedRegion& mapped : space->regions) mapped.released |= mapped.base == region.base;
    held = true;
  }
  if (!held) pool_->release(region.base);
  return true;
}

void CoreManager::destroy_core(FunctionSpace& space, CoreSpace& core) {
  for (ContextSlot& slot : core.contexts) {
    hal::drop(slot.context);
    if (slot.data != 0) hal::free_pages(slot.data, kContextDataBytes);
    if (slot.scratchpad != 0) hal::free_pages(slot.scratchpad, wire::kScratchpadBytes);
    for (unsigned a = 0; a < wire::kExecutionAreas; ++a) {
      if (slot.pools[a] != 0) hal::free_pages(slot.pools[a], space.areas[a].pool_pages);
    }
  }
  if (core.root != 0) hal::destroy_root(core.root);
  hal::free_pages(hal::address_of(reinterpret_cast<std::byte*>(&core)), kCoreSpaceBytes);
}

// Frees a space that nothing runs on; regions that were released meanwhile go back unless another space maps them too.
void CoreManager::destroy(FunctionSpace*& entry) {
  FunctionSpace& space = *std::exchange(entry, nullptr);
  Tenant& tenant = *space.tenant;
  for (CoreSpace* core : space.cores) {
    if (core != nullptr) destroy_core(space, *core);
  }
  for (ExecutionArea& area : space.areas) unload_image(area);
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    if ((space.windows >> i & 1) == 0) continue;
    const MappedRegion& region = space.regions[i];
    hal::release_window(space.root, wire::region_window(i), region.bytes);
    const auto mapped = [&](const FunctionSpace* other) { return maps(other, region.base); };
    if (region.released && std::none_of(tenant.retired.begin(), tenant.retired.end(), mapped)) {
      pool_->release(region.base);
    }
  }
  if (space.root != 0) hal::destroy_root(space.root);
  tenant.bytes -= space.bytes;
  hal::free_pages(hal::address_of(reinterpret_cast<std::byte*>(&space)), kFunctionSpaceBytes);
}

void CoreManager::forget(const Function& function) {
  Tenant& tenant = tenants_[function.id];
  // Retired spaces are gone already: they end with their launches.
  if (tenant.current != nullptr) destroy(tenant.current);
  for (CoreQueue& queue : queues_) queue.functions[function.id].most_waited.store(0, std::memory_order_relaxed);
}

}  // namespace fw
