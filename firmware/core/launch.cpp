// SPDX-License-Identifier: Apache-2.0
// Preparing a launch: image, address space, contexts, entry. Hart 0 only. What happens while it runs is in slices.cpp.
#include "firmware/core/launch.hpp"

#include <algorithm>
#include <cstring>

#include "firmware/core/card.hpp"
#include "firmware/hal/address_space.hpp"
#include "firmware/hal/hart.hpp"

namespace fw {

using wire::Field;
using wire::Outcome;
using wire::Status;

namespace {

// Page runs of a context: arguments page, correction page, stack.
constexpr std::uint64_t kArgumentsAt = 0;
constexpr std::uint64_t kCorrectionAt = kPageBytes;
constexpr std::uint64_t kStackAt = 2 * kPageBytes;
constexpr std::uint64_t kContextDataBytes = kStackAt + wire::kKernelStackBytes;

constexpr std::uint64_t context_base(unsigned slot) { return wire::kContextWindow + slot * wire::kContextStride; }
constexpr std::uint64_t area_base(unsigned slot, unsigned area) {
  return context_base(slot) + area * wire::kExecutionAreaStride;
}

}  // namespace

void CoreManager::init(unsigned cores, std::uint64_t default_budget, RegionPool& pool) {
  cores_ = std::min(cores, kMaxCores);
  default_budget_ = default_budget;
  pool_ = &pool;
}

CoreManager::Launch* CoreManager::find(const Function& function, unsigned stream) {
  for (Launch& launch : launches_) {
    if (launch.state.load(std::memory_order_relaxed) != State::Free && launch.function == &function &&
        launch.stream == stream) {
      return &launch;
    }
  }
  return nullptr;
}

bool CoreManager::active(const Function& function) const {
  return std::any_of(launches_.begin(), launches_.end(), [&](const Launch& launch) {
    return launch.state.load(std::memory_order_relaxed) != State::Free && launch.function == &function;
  });
}

std::uint64_t CoreManager::text_address(const Launch& launch, const Part& part) const {
  return area_base(part.context, launch.area) + wire::kTextOffset;
}

// ---- judging ------------------------------------------------------------------------------------------------------------

Verdict CoreManager::judge(const Function& function, const wire::ComputePayload& compute) const {
  const auto& regions = function.regions;
  const auto image =
      regions.resolve(compute.image.region_id, compute.image.generation, compute.image.offset, compute.image_bytes);
  if (!image) return {image.error(), Field::ComputeImage};
  if (regions.at(image->ordinal).type != wire::RegionType::Program) {
    return {Status::WrongRegionType, Field::ComputeImage};
  }
  if (compute.correction_bytes != 0) {
    const auto correction = regions.resolve(compute.correction.region_id, compute.correction.generation,
                                            compute.correction.offset, compute.correction_bytes);
    if (!correction) return {correction.error(), Field::ComputeCorrection};
    if (regions.at(correction->ordinal).type != wire::RegionType::Program) {
      return {Status::WrongRegionType, Field::ComputeCorrection};
    }
  }
  for (unsigned i = 0; i < wire::kSegments; ++i) {
    const wire::Segment& segment = compute.segments[i];
    if (segment.access == wire::kSegmentUnused) continue;
    const auto place = regions.resolve(segment.region_id, segment.generation, segment.offset, segment.bytes);
    if (!place) return {place.error(), Field::ComputeSegment, i};
    if (regions.at(place->ordinal).type != wire::RegionType::Tensor) {
      return {Status::WrongRegionType, Field::ComputeSegment, i};
    }
  }
  return {};
}

// The area that holds the image, loading it when needed; −1: see `why` (ok = no room, try again later).
int CoreManager::find_area(Function& function, const wire::ComputePayload& compute, Verdict& why) {
  const auto place = function.regions.resolve(compute.image.region_id, compute.image.generation, compute.image.offset,
                                              compute.image_bytes);
  auto& areas = space(function).areas;
  for (unsigned i = 0; i < areas.size(); ++i) {
    if (areas[i].matches(place->address, compute.image_bytes)) return static_cast<int>(i);
  }
  const std::span<const std::byte> image(hal::pointer(place->address), compute.image_bytes);
  wire::ImageHeader header;
  why = check_image(image, header);
  if (!why.ok()) return -1;
  auto free = std::find_if(areas.begin(), areas.end(), [](const ExecutionArea& a) { return a.source == 0; });
  if (free == areas.end()) {
    // Mappings of an area are removed only together with the page tables, and those only when nothing runs on them.
    if (active(function)) return -1;
    forget(function);
    free = areas.begin();
  }
  if (!load_image(image, place->address, header, *free)) {
    if (!active(function)) why = {Status::OutOfExecutionAreas, Field::ComputeImage};
    return -1;
  }
  FunctionSpace& functions = space(function);
  functions.images_begin = std::min(functions.images_begin, place->address);
  functions.images_end = std::max(functions.images_end, place->address + compute.image_bytes);
  return static_cast<int>(free - areas.begin());
}

void CoreManager::note_write(const Function& function, hal::PhysicalAddress address, std::uint64_t bytes) {
  FunctionSpace& functions = space(function);
  if (address >= functions.images_end || address + bytes <= functions.images_begin) return;
  for (ExecutionArea& area : functions.areas) {
    if (area.source != 0 && address < area.source + area.header.image_bytes && area.source < address + bytes) {
      area.stale = true;
    }
  }
}

// ---- address spaces -----------------------------------------------------------------------------------------------------

// Tables of every Tensor region exist in the function's own root. Program regions have no data mapping at all.
bool CoreManager::ensure_regions(Function& function) {
  FunctionSpace& functions = space(function);
  if (functions.root == 0 && (functions.root = hal::create_root()) == 0) return false;
  if (functions.regions_version == function.regions.version()) return true;
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    const Region& region = function.regions.at(i);
    const auto bit = static_cast<std::uint8_t>(1u << i);
    if (region.bytes == 0 || region.type != wire::RegionType::Tensor || (functions.windows & bit) != 0) continue;
    if (!hal::prepare_window(functions.root, wire::region_window(i), region.bytes)) return false;
    functions.windows |= bit;
  }
  functions.regions_version = function.regions.version();
  return true;
}

bool CoreManager::share_regions(Function& function, CoreSpace& core) {
  const FunctionSpace& functions = space(function);
  if (core.windows == functions.windows)
    return true;  // as on all launches but the first: every turn of the loop counts
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    const auto bit = static_cast<std::uint8_t>(1u << i);
    if ((functions.windows & bit) == 0 || (core.windows & bit) != 0) continue;
    if (!hal::share_window(functions.root, core.root, wire::region_window(i), function.regions.at(i).bytes))
      return false;
    core.windows |= bit;
  }
  return true;
}

CoreManager::CoreSpace* CoreManager::ensure_core(Function& function, unsigned core) {
  CoreSpace*& entry = space(function).cores[core];
  if (entry == nullptr) {
    const auto pages = hal::allocate_pages(wire::align_up(sizeof(CoreSpace), kPageBytes));
    if (pages == 0) return nullptr;
    entry = reinterpret_cast<CoreSpace*>(hal::pointer(pages));  // zeroed: every member's start value
  }
  if (entry->root == 0 && (entry->root = hal::create_root()) == 0) return nullptr;
  return share_regions(function, *entry) ? entry : nullptr;
}

bool CoreManager::map_context_data(CoreSpace& core, unsigned index) {
  ContextSlot& slot = core.contexts[index];
  if (slot.mapped) return true;
  // What an attempt that ran out of memory has got already is kept for the next one.
  if (slot.data == 0) slot.data = hal::allocate_pages(kContextDataBytes);
  if (slot.scratchpad == 0) slot.scratchpad = hal::allocate_pages(wire::kScratchpadBytes);
  if (slot.data == 0 || slot.scratchpad == 0) return false;
  const std::uint64_t base = context_base(index);
  slot.mapped =
      hal::map(core.root, base + wire::kArgumentsOffset, slot.data + kArgumentsAt, kPageBytes, hal::Protection::Read) &&
      hal::map(core.root, base + wire::kCorrectionOffset, slot.data + kCorrectionAt, kPageBytes,
               hal::Protection::Read) &&
      hal::map(core.root, base + wire::kStackOffset, slot.data + kStackAt, wire::kKernelStackBytes,
               hal::Protection::ReadWrite) &&
      hal::map(core.root, base + wire::kScratchpadOffset, slot.scratchpad, wire::kScratchpadBytes,
               hal::Protection::ReadWrite);
  return slot.mapped;
}

bool CoreManager::ensure_context(CoreSpace& core, unsigned index, unsigned area_index, const ExecutionArea& area) {
  ContextSlot& slot = core.contexts[index];
  if (!map_context_data(core, index)) return false;
  const auto bit = static_cast<std::uint16_t>(1u << area_index);
  if ((slot.mapped_areas & bit) != 0) return true;
  const std::uint64_t base = area_base(index, area_index);
  if (!hal::map(core.root, base + wire::kTextOffset, area.text, area.text_pages, hal::Protection::ReadExecute)) {
    return false;
  }
  if (area.pool_pages != 0) {
    if (slot.pools[area_index] == 0) slot.pools[area_index] = hal::allocate_pages(area.pool_pages);
    if (slot.pools[area_index] == 0 || !hal::map(core.root, base + wire::kPoolOffset, slot.pools[area_index],
                                                 area.pool_pages, hal::Protection::ReadWrite)) {
      return false;
    }
  }
  slot.mapped_areas |= bit;
  return true;
}

void CoreManager::forget(Function& function) {
  FunctionSpace& functions = space(function);
  for (CoreSpace*& core : functions.cores) {
    if (core == nullptr) continue;
    for (ContextSlot& slot : core->contexts) {
      hal::drop(slot.context);
      if (slot.data != 0) hal::free_pages(slot.data, kContextDataBytes);
      if (slot.scratchpad != 0) hal::free_pages(slot.scratchpad, wire::kScratchpadBytes);
      for (unsigned a = 0; a < wire::kExecutionAreas; ++a) {
        if (slot.pools[a] != 0) hal::free_pages(slot.pools[a], functions.areas[a].pool_pages);
      }
    }
    if (core->root != 0) hal::destroy_root(core->root);
    hal::free_pages(hal::address_of(reinterpret_cast<std::byte*>(core)), wire::align_up(sizeof(CoreSpace), kPageBytes));
    core = nullptr;
  }
  for (ExecutionArea& area : functions.areas) unload_image(area);
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    if ((functions.windows >> i & 1) != 0) {
      hal::release_window(functions.root, wire::region_window(i), function.regions.at(i).bytes);
    }
  }
  if (functions.root != 0) hal::destroy_root(functions.root);
  functions = FunctionSpace{};
}

// ---- entry --------------------------------------------------------------------------------------------------------------

void CoreManager::prepare_entry(Function& function, Launch& launch, Part& part, unsigned index,
                                const wire::ComputePayload& compute) {
  FunctionSpace& functions = space(function);
  const ExecutionArea& area = functions.areas[launch.area];
  CoreSpace& core = *functions.cores[part.core];
  ContextSlot& slot = core.contexts[part.context];
  const std::uint64_t base = context_base(part.context);
  const std::uint64_t text = text_address(launch, part);
  if (area.header.pool_bytes != 0) {
    hal::copy(hal::pointer(slot.pools[launch.area]), hal::pointer(area.pool), area.header.pool_bytes);
  }
  wire::KernelArguments arguments{};
  arguments.core_index = index;
  arguments.core_count = launch.parts;
  arguments.correction_address = base + wire::kCorrectionOffset;
  arguments.correction_bytes = compute.correction_bytes;
  arguments.pool_address = area_base(part.context, launch.area) + wire::kPoolOffset;
  arguments.pool_bytes = area.header.pool_bytes;
  arguments.compute_entry = text + area.header.compute_entry;
  arguments.scratchpad_address = base + wire::kScratchpadOffset;
  arguments.scratchpad_bytes = wire::kScratchpadBytes;
  std::memcpy(hal::pointer(slot.data + kArgumentsAt), &arguments, sizeof arguments);
  if (compute.correction_bytes != 0) {
    const auto from = function.regions.resolve(compute.correction.region_id, compute.correction.generation,
                                               compute.correction.offset, compute.correction_bytes);
    hal::copy(hal::pointer(slot.data + kCorrectionAt), hal::pointer(from->address), compute.correction_bytes);
  }
  hal::start(slot.context, core.root, text + area.header.correction_entry,
             base + wire::kStackOffset + wire::kKernelStackBytes, base + wire::kArgumentsOffset);
}

bool CoreManager::add_part(Function& function, Launch& launch, unsigned core_index, const wire::ComputePayload&) {
  CoreSpace* core = ensure_core(function, core_index);
  if (core == nullptr) return false;
  for (unsigned slot = 0; slot < kContextsPerCore; ++slot) {
    if (core->contexts[slot].busy) continue;
    if (!ensure_context(*core, slot, launch.area, space(function).areas[launch.area])) return false;
    core->contexts[slot].busy = true;
    launch.part[launch.parts++] = {
        static_cast<std::uint8_t>(core_index), static_cast<std::uint8_t>(slot), false, true, 0, 0};
    return true;
  }
  return false;
}

void CoreManager::abandon(Launch& launch) {
  FunctionSpace& functions = space(*launch.function);
  for (std::uint32_t p = 0; p < launch.parts; ++p) {
    functions.cores[launch.part[p].core]->contexts[launch.part[p].context].busy = false;
  }
  --functions.areas[launch.area].users;
  launch.state.store(State::Free, std::memory_order_relaxed);
}

CoreManager::Start CoreManager::start(Card& card, Function& function, unsigned stream, const wire::ControlBlock& block,
                                      Verdict& why) {
  const wire::ComputePayload& compute = block.payload.compute;
  if (!hal::contexts_supported()) {
    why = {Status::Unsupported, Field::OpcodeField};
    return Start::Refused;
  }
  why = judge(function, compute);
  if (!why.ok()) return Start::Refused;
  const auto free = std::find_if(launches_.begin(), launches_.end(), [](const Launch& launch) {
    return launch.state.load(std::memory_order_relaxed) == State::Free;
  });
  if (free == launches_.end()) return Start::NoRoom;
  const int area = find_area(function, compute, why);
  if (area < 0) return why.ok() ? Start::NoRoom : Start::Refused;
  if (compute.correction_bytes > space(function).areas[static_cast<unsigned>(area)].header.max_correction_bytes) {
    why = {Status::CorrectionTooLarge, Field::ComputeCorrectionBytes};
    return Start::Refused;
  }
  Launch& launch = *free;
  launch.function = &function;
  launch.stream = stream;
  launch.area = static_cast<std::uint8_t>(area);
  launch.parts = 0;
  launch.arrived = 0;
  launch.exited = 0;
  launch.decided = false;
  launch.result = {function.id, stream, Outcome::Ok, {}, {}, 0, 0, 0};
  launch.budget_slices = block.header.budget != 0 ? block.header.budget : default_budget_;
  launch.kill.store(false, std::memory_order_relaxed);
  launch.kernel_ticks.store(0, std::memory_order_relaxed);
  ++space(function).areas[launch.area].users;
  // No mask: one core of our choice. Core 0 needs no hand-over (13–26 µs), so it is the choice.
  std::uint64_t mask = compute.core_mask != 0 ? compute.core_mask : 1;
  bool room = ensure_regions(function);
  for (; room && mask != 0; mask &= mask - 1) {
    room = add_part(function, launch, static_cast<unsigned>(std::countr_zero(mask)), compute);
  }
  launch.state.store(State::Prepared, std::memory_order_relaxed);
  if (!room) {
    const bool others = std::count_if(launches_.begin(), launches_.end(), [](const Launch& l) {
                          return l.state.load(std::memory_order_relaxed) != State::Free;
                        }) > 1;
    abandon(launch);
    if (others) return Start::NoRoom;
    why = {Status::OutOfExecutionAreas, Field::ComputeImage};
    return Start::Refused;
  }
  for (unsigned p = 0; p < launch.parts; ++p) prepare_entry(function, launch, launch.part[p], p, compute);
  (void)card;
  return Start::Started;
}

void CoreManager::release(const Function& function, unsigned stream) {
  Launch* launch = find(function, stream);
  if (launch == nullptr) return;
  launch->parts_left.store(launch->parts, std::memory_order_relaxed);
  launch->state.store(State::Running, std::memory_order_release);
  const auto index = static_cast<std::uint8_t>(launch - launches_.data());
  for (std::uint32_t p = 0; p < launch->parts; ++p) {
    push(launch->part[p].core, {index, static_cast<std::uint8_t>(p)}, true);
  }
}

}  // namespace fw
