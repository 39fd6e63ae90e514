// SPDX-License-Identifier: Apache-2.0
// Preparing a launch: image, contexts, entry. Hart 0 only. The address spaces are in address_spaces.cpp, what happens
// while a launch runs is in slices.cpp.
#include "firmware/core/launch.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "firmware/core/card.hpp"
#include "firmware/core/context_layout.hpp"
#include "firmware/hal/address_space.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::Field;
using wire::Outcome;
using wire::Status;

void CoreManager::init(unsigned cores, unsigned functions, std::uint64_t default_budget, RegionPool& pool,
                       FaultTable& faults) {
  cores_ = std::min(cores, kMaxCores);
  default_budget_ = default_budget;
  share_ = std::max(hal::arena_bytes() / functions, smallest_share(cores_));
  pool_ = &pool;
  faults_ = &faults;
  for (auto& weight : weights_) weight.store(1, std::memory_order_relaxed);
}

std::span<CoreManager::Launch, kLaunchesPerFunction> CoreManager::launches_of(const Function& function) {
  return std::span<Launch, kLaunchesPerFunction>(&launches_[function.id * kLaunchesPerFunction], kLaunchesPerFunction);
}

CoreManager::Launch* CoreManager::find(LaunchHandle handle) {
  if (handle == kNoLaunch) return nullptr;
  Launch& launch = launches_[handle & kLaunchIndexMask];
  return launch.handle == handle ? &launch : nullptr;
}

std::uint64_t CoreManager::text_address(const Launch& launch, const Part& part) {
  return area_base(part.context, launch.area) + wire::kTextOffset;
}

// ---- judging ------------------------------------------------------------------------------------------------------------

// On success `image` is where the image lies.
Verdict CoreManager::judge(const Function& function, const wire::ComputePayload& compute, hal::PhysicalAddress& image) {
  const auto& regions = function.regions;
  const auto place =
      regions.resolve(compute.image.region_id, compute.image.generation, compute.image.offset, compute.image_bytes);
  if (!place) return {place.error(), Field::ComputeImage};
  if (regions.at(place->ordinal).type != wire::RegionType::Program && !mutated(Mutant::ProgramType)) {
    return {Status::WrongRegionType, Field::ComputeImage};
  }
  image = place->address;
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
    const auto at = regions.resolve(segment.region_id, segment.generation, segment.offset, segment.bytes);
    if (!at) return {at.error(), Field::ComputeSegment, i};
    if (regions.at(at->ordinal).type != wire::RegionType::Tensor) {
      return {Status::WrongRegionType, Field::ComputeSegment, i};
    }
  }
  return {};
}

// A step of the checksum, until it is done.
CoreManager::Fit CoreManager::judge_image(std::span<const std::byte> image, hal::PhysicalAddress source,
                                          const wire::ImageHeader& header, ImageCheck& check, Verdict& why) {
  if (check.source != source || check.summed > image.size()) check = {.source = source};
  if (check.summed != image.size()) prepared_bytes_ += sum_image(image, check);
  if (check.summed != image.size()) return Fit::Unfinished;
  if (check.crc == header.crc32c || mutated(Mutant::ImageChecksum)) return Fit::Yes;
  why = {Status::ImageCrc, Field::ImageHeaderField};
  return Fit::Refused;
}

// The area that holds the image, loading it when needed. What can be found out without looking at all of the image comes
// first: a launch that has to wait for room tries often.
CoreManager::Fit CoreManager::find_area(FunctionSpace& space, hal::PhysicalAddress source, std::uint64_t bytes,
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
  if (!fits(*space.tenant, pages)) return Fit::NoPages;
  if (const Fit judged = judge_image(image, source, header, check, why); judged != Fit::Yes) return judged;
  if (!load_image(image, source, header, *free)) return Fit::NoPages;
  charge(space, pages);
  prepared_bytes_ += 2 * pages;  // cleared, then written
  space.images_begin = space.images_end == 0 ? source : std::min(space.images_begin, source);
  space.images_end = std::max(space.images_end, source + bytes);
  index = static_cast<std::uint8_t>(free - areas.begin());
  return Fit::Yes;
}

void CoreManager::note_write(const Function& function, hal::PhysicalAddress address, std::uint64_t bytes) {
  // Retired spaces start nothing any more: what they hold is never looked up again.
  FunctionSpace* space = tenants_[function.id].current;
  if (space == nullptr || address >= space->images_end || address + bytes <= space->images_begin) return;
  for (ExecutionArea& area : space->areas) {
    if (area.source != 0 && address < area.source + area.header.image_bytes && area.source < address + bytes) {
      area.stale = true;
    }
  }
}

// ---- entry --------------------------------------------------------------------------------------------------------------

void CoreManager::prepare_entry(const Function& function, Launch& launch, unsigned index,
                                const wire::ComputePayload& compute) {
  const Part& part = launch.part[index];
  const ExecutionArea& area = launch.space->areas[launch.area];
  CoreSpace& core = *launch.space->cores[part.core];
  ContextSlot& slot = core.contexts[part.context];
  const std::uint64_t base = context_base(part.context);
  const std::uint64_t text = text_address(launch, part);
  if (area.header.pool_bytes != 0) {
    hal::copy(hal::pointer(slot.pools[launch.area]), hal::pointer(area.pool), area.header.pool_bytes);
    prepared_bytes_ += area.header.pool_bytes;
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

CoreManager::Fit CoreManager::add_part(Launch& launch, unsigned core_index) {
  CoreSpace* core = ensure_core(*launch.space, core_index);
  if (core == nullptr) return Fit::NoPages;
  if (faults_->armed(wire::FaultPoint::Kernel) && !plant_in(*launch.space, *core, planted_)) [[unlikely]]
    return Fit::NoPages;
  for (unsigned slot = 0; slot < kContextsPerCore; ++slot) {
    if (core->contexts[slot].busy) continue;
    if (!ensure_context(*launch.space, *core, slot, launch.area)) return Fit::NoPages;
    core->contexts[slot].busy = true;
    launch.part[launch.parts++] = {
        static_cast<std::uint8_t>(core_index), static_cast<std::uint8_t>(slot), false, true, 0, 0, 0, 0};
    return Fit::Yes;
  }
  return Fit::Busy;
}

CoreManager::Fit CoreManager::add_parts(const Function& function, Launch& launch, const wire::ComputePayload& compute) {
  if (!ensure_regions(function, *launch.space)) return Fit::NoPages;
  // No mask: one core of our choice. Core 0 needs no hand-over (13–26 µs), so it is the choice.
  for (std::uint64_t mask = compute.core_mask != 0 ? compute.core_mask : 1; mask != 0; mask &= mask - 1) {
    const Fit fit = add_part(launch, static_cast<unsigned>(std::countr_zero(mask)));
    if (fit != Fit::Yes) return fit;
  }
  return Fit::Yes;
}

void CoreManager::note_result(const Function& function, Launch& launch, const wire::ComputePayload& compute) {
  for (const wire::Segment& segment : compute.segments) {
    if ((segment.access & wire::kSegmentWrite) == 0) continue;
    const auto at = function.regions.resolve(segment.region_id, segment.generation, segment.offset, segment.bytes);
    if (!at) return;
    launch.result_begin = at->address;
    launch.result_bytes = segment.bytes;
    return;
  }
}

// The launch has left its space: collected, or never started.
void CoreManager::quit(Launch& launch) {
  FunctionSpace* space = launch.space;
  for (std::uint32_t p = 0; p < launch.parts; ++p) {
    space->cores[launch.part[p].core]->contexts[launch.part[p].context].busy = false;
  }
  launch.handle = kNoLaunch;
  launch.state.store(State::Free, std::memory_order_relaxed);
  Tenant& tenant = *space->tenant;
  --tenant.launches;
  if (--space->launches != 0 || space == tenant.current) return;
  destroy(*std::find(tenant.retired.begin(), tenant.retired.end(), space));
}

// Everything but the release; on failure nothing is left but caches.
CoreManager::Fit CoreManager::prepare(const Function& function, Launch& launch, unsigned stream, Block& block,
                                      hal::PhysicalAddress image, Verdict& why) {
  const wire::ComputePayload& compute = block.cb.payload.compute;
  FunctionSpace* space = ensure_space(function);
  if (space == nullptr) return Fit::NoPages;
  Fit fit = find_area(*space, image, compute.image_bytes, launch.area, block.image, why);
  if (fit != Fit::Yes) return fit;
  if (compute.correction_bytes > space->areas[launch.area].header.max_correction_bytes) {
    why = {Status::CorrectionTooLarge, Field::ComputeCorrectionBytes};
    return Fit::Refused;
  }
  launch.space = space;
  launch.stream = stream;
  launch.high_priority = function.streams[stream].high_priority;
  launch.parts = 0;
  launch.arrived = 0;
  launch.exited = 0;
  launch.decided = false;
  launch.sequence = block.cb.header.sequence;
  launch.result_bytes = 0;
  launch.warned.store(false, std::memory_order_relaxed);
  launch.warning_told = false;
  launch.handle = ++started_ << kLaunchIndexBits | static_cast<std::uint64_t>(&launch - launches_.data());
  launch.result = {launch.handle, function.id, stream, Outcome::Ok, {}, {}, 0, 0, 0, false};
  launch.budget_slices = block.cb.header.budget != 0 ? block.cb.header.budget : default_budget_;
  if (mutated(Mutant::OwnBudget)) launch.budget_slices = std::min<std::uint64_t>(launch.budget_slices, 20);
  launch.kill.store(false, std::memory_order_relaxed);
  launch.kernel_ticks.store(0, std::memory_order_relaxed);
  launch.state.store(State::Prepared, std::memory_order_relaxed);
  ++space->launches;
  ++space->tenant->launches;
  fit = add_parts(function, launch, compute);
  if (fit != Fit::Yes) {
    quit(launch);
    return fit;
  }
  for (unsigned p = 0; p < launch.parts; ++p) prepare_entry(function, launch, p, compute);
  if (faults_->armed(wire::FaultPoint::KernelResult)) [[unlikely]]
    note_result(function, launch, compute);
  return Fit::Yes;
}

CoreManager::Start CoreManager::start(Card&, Function& function, unsigned stream, Block& block, LaunchHandle& launch,
                                      Verdict& why) {
  if (!hal::contexts_supported()) {
    why = {Status::Unsupported, Field::OpcodeField};
    return Start::Refused;
  }
  hal::PhysicalAddress image = 0;
  why = judge(function, block.cb.payload.compute, image);
  if (!why.ok()) return Start::Refused;
  const Tenant& holder = tenants_[function.id];
  const bool maps_regions = holder.current == nullptr || holder.current->regions_version != function.regions.version();
  // The launch would get the memory that a damaged entry tells of, whether its block names it or not.
  if (maps_regions && !function.regions.intact()) {
    why = {Status::RegionEntryDamaged, Field::ComputeSegment};
    return Start::Refused;
  }
  const auto launches = launches_of(function);
  const auto free = std::find_if(launches.begin(), launches.end(), [](const Launch& launch) {
    return launch.state.load(std::memory_order_relaxed) == State::Free;
  });
  if (free == launches.end()) return Start::NoRoom;
  Tenant& tenant = tenants_[function.id];
  const auto idle = [&] { return tenant.current != nullptr && tenant.current->launches == 0; };
  Fit fit = prepare(function, *free, stream, block, image, why);
  if (fit == Fit::NoPages && idle()) {
    // What earlier launches left in the caches makes room.
    destroy(tenant.current);
    fit = prepare(function, *free, stream, block, image, why);
  }
  switch (fit) {
    case Fit::Yes: launch = free->handle; return Start::Started;
    case Fit::Unfinished: return Start::Unfinished;
    case Fit::Refused: return Start::Refused;
    case Fit::Busy: return Start::NoRoom;
    case Fit::NoPages: break;
  }
  if (idle()) destroy(tenant.current);  // of no use to this function, but perhaps to another
  if (active(function)) return Start::NoRoom;
  why = {Status::OutOfExecutionAreas, Field::ComputeImage};
  return Start::Refused;
}

void CoreManager::release(LaunchHandle handle) {
  Launch* launch = find(handle);
  if (launch == nullptr || launch->state.load(std::memory_order_relaxed) != State::Prepared) return;
  launch->parts_left.store(launch->parts, std::memory_order_relaxed);
  launch->state.store(State::Running, std::memory_order_release);
  const auto index = static_cast<std::uint8_t>(launch - launches_.data());
  for (std::uint32_t p = 0; p < launch->parts; ++p) {
    push(launch->part[p].core, {index, static_cast<std::uint8_t>(p)}, true);
  }
}

}  // namespace fw
