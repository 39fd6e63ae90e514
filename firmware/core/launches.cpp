// SPDX-License-Identifier: Apache-2.0
// Preparing a launch: image, contexts, entry. Hart 0 only. What happens while a launch runs is in slices.cpp.
#include "firmware/core/launches.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "firmware/core/charges.hpp"
#include "firmware/core/command_buffers.hpp"
#include "firmware/core/context_layout.hpp"
#include "firmware/core/control_block_check.hpp"
#include "firmware/core/function.hpp"
#include "firmware/hal/array.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::Field;
using wire::Outcome;
using wire::Status;

void Launches::init(std::uint64_t default_budget, AddressSpaces& spaces, RunQueues& queues, RegionPool& pool,
                    FaultTable& faults, Traces& traces) {
  default_budget_ = default_budget;
  spaces_ = &spaces;
  queues_ = &queues;
  pool_ = &pool;
  faults_ = &faults;
  traces_ = &traces;
}

Launches::Launch* Launches::free_launch(Owner function) {
  for (Launch& launch : launches_of(function)) {
    if (launch.machine.is(State::Free, std::memory_order_relaxed)) return &launch;
  }
  return nullptr;
}

Launches::Launch* Launches::find(LaunchHandle handle) {
  if (handle == kNoLaunch) return nullptr;
  Launch& launch = launches_[handle & kLaunchIndexMask];
  return launch.handle == handle ? &launch : nullptr;
}

std::uint64_t Launches::text_address(const Launch& launch, const Part& part) {
  return area_base(part.context, launch.area) + wire::kTextOffset;
}

// ---- judging --------------------------------------------------------------------------------------------------------

namespace {

// On success `image` is where the image lies.
Verdict judge_image(const RegionTable& regions, const wire::ComputePayload& compute, hal::PhysicalAddress& image) {
  const auto place =
      regions.resolve(compute.image.region_id, compute.image.generation, compute.image.offset, compute.image_bytes);
  if (!place) return {place.error(), Field::ComputeImage};
  if (regions.at(place->ordinal).type != wire::RegionType::Program && !mutated(Mutant::ProgramType)) {
    return {Status::WrongRegionType, Field::ComputeImage};
  }
  image = place->address;
  return {};
}

// Everything but the image.
Verdict judge_operands(const RegionTable& regions, const wire::ComputePayload& compute) {
  if (compute.correction_bytes != 0 && compute.correction.kind == wire::EndpointKind::Region) {
    const auto correction = regions.resolve(compute.correction.region_id, compute.correction.generation,
                                            compute.correction.offset, compute.correction_bytes);
    if (!correction) return {correction.error(), Field::ComputeCorrection};
    if (regions.at(correction->ordinal).type != wire::RegionType::Program) {
      return {Status::WrongRegionType, Field::ComputeCorrection};
    }
  }
  const unsigned rows = segment_rows(compute);
  for (unsigned i = 0; i < rows; ++i) {
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

}  // namespace

Verdict judge_launch(const RegionTable& regions, const wire::ComputePayload& compute) {
  hal::PhysicalAddress image;
  const Verdict why = judge_image(regions, compute, image);
  return why.ok() ? judge_operands(regions, compute) : why;
}

// ---- entry ----------------------------------------------------------------------------------------------------------

// In an image's area, what depends on the image alone does not change: an area is emptied only with its space.
void Launches::tell(const Place& place, const ContextSlot::Told& told) {
  const wire::ImageHeader& header = place.image().header;
  const std::uint64_t base = context_base(place.context);
  const std::uint64_t area = area_base(place.context, place.area);
  wire::KernelArguments arguments{};
  arguments.core_index = told.index;
  arguments.core_count = told.parts;
  arguments.correction_address = base + wire::kCorrectionOffset;
  arguments.correction_bytes = told.correction_bytes;
  arguments.pool_address = area + wire::kPoolOffset;
  arguments.pool_bytes = header.pool_bytes;
  arguments.compute_entry = area + wire::kTextOffset + header.compute_entry;
  arguments.scratchpad_address = base + wire::kScratchpadOffset;
  arguments.scratchpad_bytes = wire::kScratchpadBytes;
  arguments.array_version = hal::array_version();
  std::memcpy(hal::pointer(place.slot().data + kArgumentsAt), &arguments, sizeof arguments);
  place.slot().told = told;
}

void Launches::charge_correction(std::uint64_t bytes) {
  if (bytes > kFreeCorrectionBytes) [[unlikely]]
    spaces_->note_prepared(bytes);
}

// Kernels only read it: what a launch of the same block has left is there still.
void Launches::bring_correction(const Function& function, ContextSlot& slot, const Block& block,
                                const wire::ComputePayload& compute) {
  std::byte* const to = hal::pointer(slot.data + kCorrectionAt);
  if (compute.correction.kind == wire::EndpointKind::BufferData) {
    const BufferEntry& entry = *entry_of(block);
    if (slot.tensor == entry.tensor) return;
    hal::copy(to, block.call.buffer->data() + entry.data_offset, compute.correction_bytes);
    slot.tensor = entry.tensor;
    charge_correction(compute.correction_bytes);
    return;
  }
  const auto from = function.regions.resolve(compute.correction.region_id, compute.correction.generation,
                                             compute.correction.offset, compute.correction_bytes);
  hal::copy(to, hal::pointer(from->address), compute.correction_bytes);
  slot.tensor = 0;
  charge_correction(compute.correction_bytes);
}

void Launches::prepare_entry(const Function& function, const Place& place, std::uint32_t index, std::uint32_t parts,
                             const Block& block, const wire::ComputePayload& compute) {
  ContextSlot& slot = place.slot();
  spaces_->note_prepared(kBytesOfALaunch);
  spaces_->restore_pool(place);
  const ContextSlot::Told told{compute.correction_bytes, index, parts, place.area};
  if (slot.told != told) [[unlikely]]
    tell(place, told);
  if (compute.correction_bytes != 0) bring_correction(function, slot, block, compute);
  const std::uint64_t base = context_base(place.context);
  const std::uint64_t text = area_base(place.context, place.area) + wire::kTextOffset;
  hal::start(slot.context, place.core->root, text + place.image().header.correction_entry,
             base + wire::kStackOffset + wire::kKernelStackBytes, base + wire::kArgumentsOffset);
}

Launches::Fit Launches::add_parts(const Function& function, Launch& launch, const wire::ComputePayload& compute) {
  if (!spaces_->ensure_regions(*launch.space, function.regions)) return Fit::NoPages;
  const bool planted = faults_->armed(wire::FaultPoint::Kernel);
  // No mask: one core of our choice. Core 0 needs no hand-over (13–26 µs), so it is the choice.
  for (std::uint64_t mask = compute.core_mask != 0 ? compute.core_mask : 1; mask != 0; mask &= mask - 1) {
    const auto core = static_cast<std::uint8_t>(std::countr_zero(mask));
    std::uint8_t context = 0;
    const Fit fit = spaces_->take_context(*launch.space, core, launch.area, planted, context);
    if (fit != Fit::Yes) return fit;
    launch.part[launch.parts++] = {core, context, false, 0, 0, 0, 0};
  }
  return Fit::Yes;
}

void Launches::note_result(const Function& function, Launch& launch, const wire::ComputePayload& compute) {
  for (const wire::Segment& segment : compute.segments) {
    if ((segment.access & wire::kSegmentWrite) == 0) continue;
    const auto at = function.regions.resolve(segment.region_id, segment.generation, segment.offset, segment.bytes);
    if (!at) return;
    launch.result_begin = at->address;
    launch.result_bytes = segment.bytes;
    return;
  }
}

void Launches::note_segments(const Function& function, Launch& launch, const wire::ComputePayload& compute) {
  launch.breakable = true;
  launch.segments = 0;
  for (unsigned i = 0; i < wire::kSegments; ++i) {
    const wire::Segment& segment = compute.segments[i];
    if (segment.access == wire::kSegmentUnused || segment.bytes == 0) continue;
    const auto at = function.regions.resolve(segment.region_id, segment.generation, segment.offset, segment.bytes);
    if (!at) continue;
    launch.segment[i] = {at->address, segment.bytes};
    launch.segments |= 1u << i;
  }
}

// The launch has left its space: collected, or never started.
void Launches::quit(Launch& launch) {
  for (std::uint32_t p = 0; p < launch.parts; ++p) {
    AddressSpaces::give_context(*launch.space, launch.part[p].core, launch.part[p].context);
  }
  launch.handle = kNoLaunch;
  launch.machine.set_state(State::Free);
  --under_way_[launch.result.function];
  spaces_->leave(*launch.space);
}

// The entry of the table, for a launch on `space`.
void Launches::begin(const Function& function, Launch& launch, unsigned stream, const Block& block,
                     FunctionSpace& space) {
  launch.space = &space;
  launch.stream = stream;
  launch.high_priority = function.streams[stream].high_priority;
  launch.parts = 0;
  launch.arrived = 0;
  launch.exited = 0;
  launch.claimed.store(0, std::memory_order_relaxed);
  launch.sequence = block.cb.header.sequence;
  launch.result_bytes = 0;
  launch.breakable = false;
  launch.traced = traces_->on(function.id());
  launch.warning.store(Warning::None, std::memory_order_relaxed);
  launch.handle = ++started_ << kLaunchIndexBits | place_of(launch);
  launch.result = {launch.handle, function.id(), stream, Outcome::Ok, {}, {}, 0, 0, 0, false, 0};
  launch.budget_slices = block.cb.header.budget != 0 ? block.cb.header.budget : default_budget_;
  if (mutated(Mutant::OwnBudget)) launch.budget_slices = std::min<std::uint64_t>(launch.budget_slices, 20);
  launch.kernel_ticks.store(0, std::memory_order_relaxed);
  launch.machine.set_state(State::Prepared);
  ++under_way_[function.id()];
  spaces_->enter(space);
}

// Everything but the release; on failure nothing is left but caches.
Launches::Fit Launches::prepare(const Function& function, Launch& launch, unsigned stream, Block& block,
                                hal::PhysicalAddress image, Verdict& why) {
  const wire::ComputePayload& compute = compute_of(block);
  FunctionSpace* space = spaces_->current(function.id());
  if (space == nullptr) return Fit::NoPages;
  Fit fit = spaces_->find_area(*space, image, compute.image_bytes, launch.area, block.image, why);
  if (fit != Fit::Yes) return fit;
  if (compute.correction_bytes > space->areas[launch.area].header.max_correction_bytes) {
    why = {Status::CorrectionTooLarge, Field::ComputeCorrectionBytes};
    return Fit::Refused;
  }
  begin(function, launch, stream, block, *space);
  fit = add_parts(function, launch, compute);
  if (fit != Fit::Yes) {
    quit(launch);
    return fit;
  }
  space->areas[launch.area].set_name(compute.image, function.regions.names_version());
  for (std::uint32_t p = 0; p < launch.parts; ++p) {
    const Part& part = launch.part[p];
    prepare_entry(function, {space, space->cores[part.core], launch.area, part.context}, p, launch.parts, block,
                  compute);
  }
  if (faults_->armed(wire::FaultPoint::KernelResult)) [[unlikely]]
    note_result(function, launch, compute);
  if (faults_->armed(wire::FaultPoint::Kernel)) [[unlikely]]
    note_segments(function, launch, compute);
  return Fit::Yes;
}

Launches::Start Launches::start(const Function& function, unsigned stream, Block& block, LaunchHandle& launch,
                                Verdict& why) {
  if (!hal::contexts_supported()) {
    why = {Status::Unsupported, Field::OpcodeField};
    return Start::Refused;
  }
  hal::PhysicalAddress image = 0;
  why = judge_image(function.regions, compute_of(block), image);
  if (why.ok()) why = judge_operands(function.regions, compute_of(block));
  if (!why.ok()) return Start::Refused;
  // The launch would get the memory that a damaged entry tells of, whether its block names it or not.
  if (spaces_->lacks_regions(function.id(), function.regions) && !function.regions.intact()) {
    why = {Status::RegionEntryDamaged, Field::ComputeSegment};
    return Start::Refused;
  }
  Launch* const free = free_launch(function.id());
  if (free == nullptr) return Start::NoRoom;
  Fit fit = prepare(function, *free, stream, block, image, why);
  if (fit == Fit::NoPages && spaces_->drop_idle(function.id()))
    fit = prepare(function, *free, stream, block, image, why);
  switch (fit) {
    case Fit::Yes: launch = free->handle; return Start::Started;
    case Fit::Unfinished: return Start::Unfinished;
    case Fit::Refused: return Start::Refused;
    case Fit::Busy: return Start::NoRoom;
    case Fit::NoPages: break;
  }
  spaces_->drop_idle(function.id());  // of no use to this function, but perhaps to another
  if (active(function.id())) return Start::NoRoom;
  why = {Status::OutOfExecutionAreas, Field::ComputeImage};
  return Start::Refused;
}

void Launches::release(LaunchHandle handle) {
  Launch* launch = find(handle);
  if (launch == nullptr) return;
  const bool condemned = launch->machine.is(State::Condemned);
  if (!condemned && !launch->machine.is(State::Prepared)) return;
  launch->parts_left.store(launch->parts, std::memory_order_relaxed);
  // The parts of a condemned one are queued as well: they find that it stops, and end it where every launch ends.
  launch->machine.set_state(condemned ? State::Stopping : State::Running);
  const std::uint8_t place = place_of(*launch);
  for (std::uint32_t p = 0; p < launch->parts; ++p) queue_part(*launch, {place, static_cast<std::uint8_t>(p)}, true);
}

// ---- at once --------------------------------------------------------------------------------------------------------

bool Launches::make_ready(const Function& function, const Block& block, Place& place) {
  const BufferEntry* const entry = entry_of(block);
  const wire::ComputePayload& compute = entry != nullptr ? entry->cb.payload.compute : block.cb.payload.compute;
  if (compute.core_mask > 1 || under_way_[function.id()] == kLaunchesPerFunction) return false;
  if (!spaces_->find_place(function.id(), function.regions, compute, place)) return false;
  if (compute.correction_bytes > place.image().header.max_correction_bytes) return false;
  if (entry == nullptr || entry->judged != function.regions.names_version()) {
    Verdict why;
    [[clang::always_inline]] why = judge_operands(function.regions, compute);
    if (!why.ok()) return false;
  }
  [[clang::always_inline]] prepare_entry(function, place, 0, 1, block, compute);
  return true;
}

void Launches::goes_on(const Function& function, unsigned stream, const Block& block, const Place& place,
                       const hal::Stop& stop, LaunchHandle& handle) {
  Launch& launch = *free_launch(function.id());  // there is one: make_ready()
  begin(function, launch, stream, block, *place.space);
  launch.area = place.area;
  place.slot().busy = true;
  launch.part[launch.parts++] = {0, place.context, false, 0, 0, 0, 0};
  launch.parts_left.store(1, std::memory_order_relaxed);
  launch.machine.set_state(State::Running);
  handle = launch.handle;
  const Ticket ticket{place_of(launch), 0};
  if (slice_ended(launch, ticket, stop)) queue_part(launch, ticket, false);
}

}  // namespace fw
