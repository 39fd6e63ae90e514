// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/address_spaces.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "firmware/core/context_layout.hpp"
#include "firmware/core/region_pool.hpp"
#include "firmware/hal/address_space.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::Field;
using wire::Status;

void AddressSpaces::init(unsigned cores, unsigned functions, RegionPool& pool) {
  share_ = std::max(hal::arena_bytes() / functions, smallest_share(cores));
  pool_ = &pool;
}

// ---- the share of a function ----------------------------------------------------------------------------------------

namespace {

// Page tables that one call of hal makes at most: a window of 16 GiB, one for each GiB.
constexpr std::uint64_t kMostTables = (std::uint64_t{1} << wire::kRegionShift) / wire::kGiB;
// Of a context with one image: one for its GiB, one each for text, pool, arguments, correction and stack. A scratchpad
// is one large page and needs none.
constexpr std::uint64_t kTablesPerContext = 6;

}  // namespace

std::uint64_t AddressSpaces::smallest_share(unsigned cores) {
  constexpr std::uint64_t kImage = wire::kMaxTextBytes + wire::kMaxPoolBytes;
  // Structure and root, and the tables of seven Tensor regions; once more what make_tables() wants to see free.
  constexpr std::uint64_t kSpace =
      kFunctionSpaceBytes + kPageBytes + (wire::kProgramRegion + 1) * kMostTables * kPageBytes;
  constexpr std::uint64_t kCore = kCoreSpaceBytes + kPageBytes + kTablesPerContext * kPageBytes + kContextDataBytes +
                                  wire::kScratchpadBytes + wire::kMaxPoolBytes;
  return kSpace + kImage + cores * kCore;
}

void AddressSpaces::charge(FunctionSpace& space, std::uint64_t bytes) {
  space.bytes += bytes;
  tenant_of(space).bytes += bytes;
}

std::uint64_t AddressSpaces::arena_pages() const { return hal::arena_pages_in_use() - (planted_ != 0 ? 1 : 0); }

// `bytes` is whole pages.
hal::PhysicalAddress AddressSpaces::take_pages(FunctionSpace& space, std::uint64_t bytes) {
  if (!fits(tenant_of(space), bytes)) return 0;
  const hal::PhysicalAddress pages = hal::allocate_pages(bytes);
  if (pages == 0) return 0;
  charge(space, bytes);
  prepared_bytes_ += bytes;
  return pages;
}

hal::PhysicalAddress AddressSpaces::hold_pages(Owner function, std::uint64_t bytes) {
  Tenant& tenant = tenants_[function];
  const hal::PhysicalAddress pages = fits(tenant, bytes) ? hal::allocate_pages(bytes) : 0;
  if (pages != 0) tenant.bytes += bytes;
  return pages;
}

void AddressSpaces::give_pages(Owner function, hal::PhysicalAddress pages, std::uint64_t bytes) {
  hal::free_pages(pages, bytes);
  tenants_[function].bytes -= bytes;
}

// Page tables are made inside hal; only hart 0 makes any, so their number tells what a call took.
template <typename Make>
bool AddressSpaces::make_tables(FunctionSpace& space, Make make) {
  if (!fits(tenant_of(space), kMostTables * kPageBytes)) return false;
  const std::uint64_t before = hal::table_pages();
  const bool made = make();
  charge(space, (hal::table_pages() - before) * kPageBytes);
  return made;
}

// ---- making ---------------------------------------------------------------------------------------------------------

FunctionSpace* AddressSpaces::current(Owner function) {
  Tenant& tenant = tenants_[function];
  if (tenant.current != nullptr) return tenant.current;
  const hal::PhysicalAddress pages = fits(tenant, kFunctionSpaceBytes) ? hal::allocate_pages(kFunctionSpaceBytes) : 0;
  if (pages == 0) return nullptr;
  tenant.current = reinterpret_cast<FunctionSpace*>(hal::pointer(pages));  // zeroed: every member's start value
  tenant.current->function = function;
  charge(*tenant.current, kFunctionSpaceBytes);
  return tenant.current;
}

// Tables of every Tensor region exist in the space's own root. Program regions have no data mapping at all.
bool AddressSpaces::ensure_regions(FunctionSpace& space, const RegionTable& regions) {
  if (space.regions_version == regions.version()) return true;
  if (space.root == 0 && !make_tables(space, [&] { return (space.root = hal::create_root()) != 0; })) return false;
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    const Region& region = regions.at(i);
    const auto bit = static_cast<std::uint8_t>(1u << i);
    if (region.bytes == 0 || region.type != wire::RegionType::Tensor || (space.windows & bit) != 0) continue;
    const auto window = [&] { return hal::prepare_window(space.root, wire::region_window(i), region.bytes); };
    if (!make_tables(space, window)) return false;
    space.regions[i] = {region.base, region.bytes, false};
    space.windows |= bit;
  }
  space.regions_version = regions.version();
  return true;
}

namespace {

// On a core that runs launches of this space as well: they see the new window, the old ones do not change.
bool share_regions(const FunctionSpace& space, CoreSpace& core) {
  // as on all launches but the first: every iteration of the loop counts
  if (core.windows == space.windows) return true;
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    const auto bit = static_cast<std::uint8_t>(1u << i);
    if ((space.windows & bit) == 0 || (core.windows & bit) != 0) continue;
    if (!hal::share_window(space.root, core.root, wire::region_window(i), space.regions[i].bytes)) return false;
    std::atomic_ref(core.windows).store(core.windows | bit, std::memory_order_release);
  }
  return true;
}

}  // namespace

CoreSpace* AddressSpaces::ensure_core(FunctionSpace& space, unsigned core) {
  CoreSpace*& entry = space.cores[core];
  if (entry == nullptr) {
    const auto pages = take_pages(space, kCoreSpaceBytes);
    if (pages == 0) return nullptr;
    entry = reinterpret_cast<CoreSpace*>(hal::pointer(pages));  // zeroed: every member's start value
  }
  if (entry->root == 0 && !make_tables(space, [&] { return (entry->root = hal::create_root()) != 0; })) return nullptr;
  return share_regions(space, *entry) ? entry : nullptr;
}

bool AddressSpaces::prepare_planted() {
  if (planted_ == 0) {
    planted_ = hal::allocate_pages(kPageBytes);
    if (planted_ != 0) hal::plant(planted_);
  }
  return planted_ != 0;
}

bool AddressSpaces::plant_in(FunctionSpace& space, CoreSpace& core) {
  static_assert(kPlantedAt == context_base(kContextsPerCore));
  if (core.planted != 0) return true;
  const bool mapped = make_tables(
      space, [&] { return hal::map(core.root, kPlantedAt, planted_, kPageBytes, hal::Protection::ReadExecute); });
  if (mapped) std::atomic_ref(core.planted).store(1, std::memory_order_release);
  return mapped;
}

bool AddressSpaces::map_context_data(FunctionSpace& space, CoreSpace& core, unsigned index) {
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
           hal::map(core.root, base + wire::kCorrectionOffset, slot.data + kCorrectionAt, wire::kMaxCorrectionBytes,
                    hal::Protection::Read) &&
           hal::map(core.root, base + wire::kStackOffset, slot.data + kStackAt, wire::kKernelStackBytes,
                    hal::Protection::ReadWrite) &&
           hal::map(core.root, base + wire::kScratchpadOffset, slot.scratchpad, wire::kScratchpadBytes,
                    hal::Protection::ReadWrite);
  });
  return slot.mapped;
}

bool AddressSpaces::ensure_context(FunctionSpace& space, CoreSpace& core, unsigned index, unsigned area_index) {
  ContextSlot& slot = core.contexts[index];
  if (!map_context_data(space, core, index)) return false;
  const auto bit = static_cast<std::uint16_t>(1u << area_index);
  if ((slot.mapped_areas & bit) != 0) return true;
  const ExecutionArea& area = space.areas[area_index];
  hal::PhysicalAddress& pool = slot.pools[area_index];
  if (area.pool_pages != 0 && pool == 0) {
    pool = take_pages(space, area.pool_pages);
    if (pool == 0) return false;
  }
  const std::uint64_t base = area_base(index, area_index);
  const bool mapped = make_tables(space, [&] {
    return hal::map(core.root, base + wire::kTextOffset, area.text, area.text_pages, hal::Protection::ReadExecute) &&
           (pool == 0 ||
            hal::map(core.root, base + wire::kPoolOffset, pool, area.pool_pages, hal::Protection::ReadWrite));
  });
  if (mapped) slot.mapped_areas |= bit;
  return mapped;
}

AddressSpaces::Fit AddressSpaces::take_context(FunctionSpace& space, unsigned core_index, unsigned area, bool planted,
                                               std::uint8_t& context) {
  CoreSpace* core = ensure_core(space, core_index);
  if (core == nullptr) return Fit::NoPages;
  if (planted && !plant_in(space, *core)) [[unlikely]]
    return Fit::NoPages;
  for (unsigned slot = 0; slot < kContextsPerCore; ++slot) {
    if (core->contexts[slot].busy) continue;
    if (!ensure_context(space, *core, slot, area)) return Fit::NoPages;
    core->contexts[slot].busy = true;
    context = static_cast<std::uint8_t>(slot);
    return Fit::Yes;
  }
  return Fit::Busy;
}

bool AddressSpaces::find_place(Owner function, const RegionTable& regions, const wire::ComputePayload& compute,
                               Place& place) const {
  FunctionSpace* space = tenants_[function].current;
  if (space == nullptr || space->regions_version != regions.version()) return false;
  const std::uint64_t version = regions.names_version();
  unsigned area = 0;
  while (!space->areas[area].is_named(compute.image, compute.image_bytes, version)) {
    if (++area == space->areas.size()) return false;
  }
  CoreSpace* core = space->cores[0];
  if (core == nullptr || core->windows != space->windows) return false;
  unsigned context = 0;
  while (core->contexts[context].busy || (core->contexts[context].mapped_areas >> area & 1) == 0) {
    if (++context == kContextsPerCore) return false;
  }
  place = {space, core, static_cast<std::uint8_t>(area), static_cast<std::uint8_t>(context)};
  return true;
}

void AddressSpaces::restore_pool(const Place& place) {
  const ExecutionArea& area = place.image();
  if (area.header.pool_bytes == 0) return;
  hal::copy(hal::pointer(place.slot().pools[place.area]), hal::pointer(area.pool), area.header.pool_bytes);
  prepared_bytes_ += area.header.pool_bytes;
}

bool AddressSpaces::lacks_regions(Owner function, const RegionTable& regions) const {
  const FunctionSpace* space = tenants_[function].current;
  return space == nullptr || space->regions_version != regions.version();
}

// ---- images ---------------------------------------------------------------------------------------------------------

// A step of the checksum, until it is done.
AddressSpaces::Fit AddressSpaces::judge_image(std::span<const std::byte> image, hal::PhysicalAddress source,
                                              const wire::ImageHeader& header, ImageCheck& check, Verdict& why) {
  if (check.source != source || check.summed > image.size()) check = {.source = source};
  // A launch is tried once for each step: that costs as much again.
  if (check.summed != image.size()) prepared_bytes_ += 2 * sum_image(image, check);
  if (check.summed != image.size()) return Fit::Unfinished;
  if (check.crc == header.crc32c || mutated(Mutant::ImageChecksum)) return Fit::Yes;
  why = {Status::ImageCrc, Field::ImageHeaderField};
  return Fit::Refused;
}

// The area that holds the image, loading it when needed. What can be found out without looking at all of the image
// comes first: a launch that has to wait for room tries often.
AddressSpaces::Fit AddressSpaces::find_area(FunctionSpace& space, hal::PhysicalAddress source, std::uint64_t bytes,
                                            std::uint8_t& index, ImageCheck& check, Verdict& why) {
  auto& areas = space.areas;
  for (unsigned i = 0; i < areas.size(); ++i) {
    if (!areas[i].matches(source, bytes)) continue;
    index = static_cast<std::uint8_t>(i);
    return Fit::Yes;
  }
  const std::span<const std::byte> image(hal::pointer(source), bytes);
  wire::ImageHeader header;
  why = check_image_header(image, header);
  if (!why.ok() && !mutated(Mutant::ImageForm, why.status)) return Fit::Refused;
  const auto free = std::find_if(areas.begin(), areas.end(), [](const ExecutionArea& a) { return a.source == 0; });
  // An area is emptied only together with its space: launches under way may stand in it.
  if (free == areas.end()) return space.launches != 0 ? Fit::Busy : Fit::NoPages;
  const std::uint64_t pages =
      wire::align_up(header.text_bytes, kPageBytes) + wire::align_up(header.pool_bytes, kPageBytes);
  if (!fits(tenant_of(space), pages)) return Fit::NoPages;
  if (const Fit judged = judge_image(image, source, header, check, why); judged != Fit::Yes) return judged;
  if (!load_image(image, source, header, *free)) return Fit::NoPages;
  charge(space, pages);
  prepared_bytes_ += kBytesOfALoad + 2 * pages;  // cleared, then written
  space.images_begin = space.images_end == 0 ? source : std::min(space.images_begin, source);
  space.images_end = std::max(space.images_end, source + bytes);
  index = static_cast<std::uint8_t>(free - areas.begin());
  return Fit::Yes;
}

void AddressSpaces::note_write(Owner function, hal::PhysicalAddress address, std::uint64_t bytes) {
  // Retired spaces start nothing any more: what they hold is never looked up again.
  FunctionSpace* space = tenants_[function].current;
  if (space == nullptr || address >= space->images_end || address + bytes <= space->images_begin) return;
  for (ExecutionArea& area : space->areas) {
    if (area.source != 0 && address < area.source + area.header.image_bytes && area.source < address + bytes) {
      area.stale = !mutated(Mutant::ImageWritten);
    }
  }
}

// ---- retiring and destroying ----------------------------------------------------------------------------------------

bool AddressSpaces::retire(Tenant& tenant) {
  const auto place = std::find(tenant.retired.begin(), tenant.retired.end(), nullptr);
  if (place == tenant.retired.end()) return false;
  *place = std::exchange(tenant.current, nullptr);
  return true;
}

bool AddressSpaces::release_region(Owner function, const Region& region) {
  Tenant& tenant = tenants_[function];
  if (drop_idle(function)) {
    // Later launches get a space without it.
  } else if (region.type == wire::RegionType::Program) {
    note_write(function, region.base, region.bytes);  // the images in it are gone; what was loaded of them runs on
  } else if (tenant.current != nullptr && tenant.current->maps(region.base) && !retire(tenant)) {
    return false;
  }
  bool held = false;
  for (FunctionSpace* space : tenant.retired) {
    if (space == nullptr || !space->maps(region.base)) continue;
    for (MappedRegion& mapped : space->regions) mapped.released |= mapped.base == region.base;
    held = true;
  }
  if (!held) pool_->release(region.base);
  return true;
}

namespace {

void destroy_core(FunctionSpace& space, CoreSpace& core) {
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

}  // namespace

// Frees a space that nothing runs on; regions that were released meanwhile go back unless another space maps them too.
void AddressSpaces::destroy(FunctionSpace*& entry) {
  FunctionSpace& space = *std::exchange(entry, nullptr);
  Tenant& tenant = tenant_of(space);
  for (CoreSpace* core : space.cores) {
    if (core != nullptr) destroy_core(space, *core);
  }
  for (ExecutionArea& area : space.areas) unload_image(area);
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    if ((space.windows >> i & 1) == 0) continue;
    const MappedRegion& region = space.regions[i];
    hal::release_window(space.root, wire::region_window(i), region.bytes);
    const auto mapped = [&](const FunctionSpace* other) { return other != nullptr && other->maps(region.base); };
    if (region.released && std::none_of(tenant.retired.begin(), tenant.retired.end(), mapped)) {
      pool_->release(region.base);
    }
  }
  if (space.root != 0) hal::destroy_root(space.root);
  tenant.bytes -= space.bytes;
  hal::free_pages(hal::address_of(reinterpret_cast<std::byte*>(&space)), kFunctionSpaceBytes);
}

bool AddressSpaces::drop_idle(Owner function) {
  FunctionSpace*& current = tenants_[function].current;
  if (current == nullptr || current->launches != 0) return false;
  destroy(current);
  return true;
}

void AddressSpaces::leave(FunctionSpace& space) {
  Tenant& tenant = tenant_of(space);
  if (--space.launches != 0 || &space == tenant.current) return;
  destroy(*std::find(tenant.retired.begin(), tenant.retired.end(), &space));
}

void AddressSpaces::forget(Owner function) {
  // Retired spaces are gone already: they end with their launches.
  FunctionSpace*& current = tenants_[function].current;
  if (current != nullptr) destroy(current);
}

}  // namespace fw
