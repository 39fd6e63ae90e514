// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/launch_plan.hpp"

#include <cstring>
#include <string>

namespace svp {
namespace {

[[noreturn]] void refuse_operand(const Job& job, std::size_t index, const std::string& what, std::string next_step) {
  const std::string operand = "operand " + job.binary()->metadata().operands[index].name;
  throw InvalidArgument(operand, operand + " of kernel " + job.binary()->name() + " " + what, std::move(next_step));
}

void check_form(const Job& job, std::size_t index, const Argument& argument) {
  const KernelOperand& operand = job.binary()->metadata().operands[index];
  if (argument.dtype != operand.dtype) {
    refuse_operand(job, index,
                   "is " + std::string(name(argument.dtype)) + ", compiled for " + std::string(name(operand.dtype)),
                   "convert the tensor");
  }
  for (std::size_t axis = 0; axis < argument.shape.rank(); ++axis) {
    if (argument.shape[axis] < 1) {
      refuse_operand(job, index,
                     "has extent " + std::to_string(argument.shape[axis]) + " in dimension " + std::to_string(axis),
                     "give positive extents");
    }
  }
  if (!wire::is_aligned(argument.offset, wire::kStickBytes)) {
    refuse_operand(job, index, "starts at byte " + std::to_string(argument.offset) + " of its allocation",
                   "start at a multiple of 128");
  }
}

}  // namespace

// ---- operands -------------------------------------------------------------------------------------------------------

BoundOperands::BoundOperands(FlexAllocator& allocator, const Job& job, std::span<const Argument> arguments,
                             bool allow_tiled_launch, AllocationUses& uses)
    : job_(job) {
  const KernelMetadata& kernel = job.binary()->metadata();
  if (arguments.size() != kernel.operands.size()) {
    throw InvalidArgument("arguments",
                          "kernel " + kernel.name + " takes " + std::to_string(kernel.operands.size()) + " operands, " +
                              std::to_string(arguments.size()) + " were given",
                          "give one tensor per operand, inputs and outputs");
  }
  const auto image = allocator.try_resolve(job.allocation_index());
  if (!image) {
    throw InvalidArgument("job", "kernel " + kernel.name + " is not on the card any more: " + image.error().message,
                          "load the plan again");
  }
  image_ = {image->address, image->region_generation};
  count_ = arguments.size();
  const auto& tiles = job.job_plan().compute()->expected_input_shapes;
  for (std::size_t i = 0; i < count_; ++i) {
    check_form(job, i, arguments[i]);
    resolve(allocator, arguments, i, uses);
  }
  tiling_ = plan_tiling(kernel, tiles, arguments, std::span(geometry_.data(), count_), allow_tiled_launch);
  if (tiling_.iterations > FlexStream::kMaxTiles) {
    throw InvalidArgument("arguments", std::to_string(tiling_.iterations) + " tiles are more than one launch takes",
                          "compile the kernel for a larger tile");
  }
  for (std::size_t i = 0; i < count_; ++i) {
    tile_span_[i] = geometry_[i].span_of(tiles[i], elements_per_stick(arguments[i].dtype));
  }
  check_overlap();
}

void BoundOperands::resolve(FlexAllocator& allocator, std::span<const Argument> arguments, std::size_t index,
                            AllocationUses& uses) {
  const Argument& argument = arguments[index];
  const auto resolved = allocator.try_use(argument.allocation, uses);
  if (!resolved) refuse_operand(job_, index, "has no memory: " + resolved.error().message, resolved.error().next_step);
  if (resolved->type != RegionType::Tensor)
    refuse_operand(job_, index, "lies in program memory", "allocate it as a tensor");
  geometry_[index] = StickGeometry::of(argument.shape, elements_per_stick(argument.dtype));
  if (!wire::range_inside(argument.offset, geometry_[index].bytes, resolved->block_bytes)) {
    refuse_operand(job_, index,
                   "needs " + std::to_string(geometry_[index].bytes) + " bytes for shape " + to_string(argument.shape) +
                       " from byte " + std::to_string(argument.offset) + ", its allocation has " +
                       std::to_string(resolved->block_bytes),
                   "allocate the tensor's size in device layout");
  }
  place_[index] = *resolved;
  place_[index].address.offset += argument.offset;
  regions_.region_id[resolved->region_ordinal] = resolved->address.region_id;
}

// A kernel may read an operand while it writes another: where they overlap the result would depend on the order.
void BoundOperands::check_overlap() const {
  const auto& operands = job_.binary()->metadata().operands;
  for (std::size_t i = 0; i < count_; ++i) {
    for (std::size_t j = 0; operands[i].writes() && j < count_; ++j) {
      const auto& a = place_[i];
      const auto& b = place_[j];
      if (i == j || a.region_ordinal != b.region_ordinal) continue;
      if (a.address.offset < b.address.offset + geometry_[j].bytes &&
          b.address.offset < a.address.offset + geometry_[i].bytes) {
        refuse_operand(job_, i, "is written and overlaps operand " + operands[j].name,
                       "give the output memory of its own");
      }
    }
  }
}

std::array<ResolvedOperand, kMaxOperands> BoundOperands::of_tile(std::uint32_t tile) const {
  std::array<ResolvedOperand, kMaxOperands> operands;
  for (std::size_t i = 0; i < count_; ++i) {
    operands[i] = {advanced(place_[i].address, tile * tiling_.step[i]), geometry_[i].stride};
  }
  return operands;
}

void BoundOperands::write_segments(std::uint32_t tile, wire::ComputePayload& compute, SegmentWindows& windows) const {
  const auto& operands = job_.binary()->metadata().operands;
  for (std::size_t i = 0; i < count_; ++i) {
    wire::Segment& segment = compute.segments[i];
    segment.region_id = place_[i].address.region_id;
    segment.offset = place_[i].address.offset + tile * tiling_.step[i];
    segment.bytes = tile_span_[i];
    segment.generation = place_[i].region_generation;
    segment.access = operands[i].access;
    windows[i] = static_cast<std::uint8_t>(place_[i].region_ordinal);
  }
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

namespace {

void start_block(Unit& unit, wire::Opcode opcode, std::uint32_t tile, std::uint32_t step) {
  unit.kind = Unit::Kind::Block;
  unit.tile = tile;
  unit.step = step;
  unit.block.header = {};
  unit.block.header.opcode = opcode;
  unit.block.header.cookie = std::uint64_t{tile} << 32 | step;  // readable in a trace
}

wire::Endpoint host_endpoint(std::uint64_t window_offset) {
  return {
      .region_id = 0, .offset = window_offset, .generation = 0, .kind = wire::EndpointKind::HostMemory, .reserved = {}};
}

[[noreturn]] void refuse_step(std::uint32_t step, const std::string& what, std::string next_step) {
  const std::string field = "job_plan.step[" + std::to_string(step) + "]";
  throw InvalidArgument(field, field + ": " + what, std::move(next_step));
}

// What a transfer works on, for one walk.
struct Walk {
  const LaunchSite& site;
  AllocationUses& uses;
};

DevicePlace place_of(const Walk& walk, const Unit& unit, AllocationIndex index, std::uint64_t offset,
                     std::uint64_t bytes) {
  const std::uint32_t step = unit.step;
  FlexAllocator& allocator = walk.site.allocator;
  // Every tile names the same memory: used once, it stays.
  const auto resolved = unit.tile == 0 ? allocator.try_use(index, walk.uses) : allocator.try_resolve(index);
  if (!resolved) refuse_step(step, resolved.error().message, resolved.error().next_step);
  if (!wire::range_inside(offset, bytes, resolved->block_bytes)) {
    refuse_step(step,
                std::to_string(bytes) + " bytes from byte " + std::to_string(offset) + " exceed the allocation of " +
                    std::to_string(resolved->block_bytes),
                "move less, or allocate more");
  }
  return {advanced(resolved->address, offset), resolved->region_generation};
}

// Pageable memory becomes a staged transfer, which the scheduler cuts into chunks.
void write_dma(const Walk& walk, const DMA& dma, Unit& unit) {
  wire::DmaPayload& payload = unit.block.payload.dma;
  payload = {};
  payload.bytes = dma.size;
  const wire::Endpoint card = place_of(walk, unit, dma.allocation_index, dma.offset, dma.size).endpoint();
  if (dma.direction == Direction::DeviceToDevice) {
    payload.source = place_of(walk, unit, dma.source_allocation_index, dma.source_offset, dma.size).endpoint();
    payload.destination = card;
    return;
  }
  const bool to_device = dma.direction == Direction::ToDevice;
  auto* host = static_cast<std::byte*>(dma.host_address);
  const auto window_offset =
      dma.converter != nullptr ? std::nullopt : walk.site.host_memory.window_offset_of({host, dma.size});
  (to_device ? payload.source : payload.destination) = host_endpoint(window_offset.value_or(0));
  (to_device ? payload.destination : payload.source) = card;
  if (window_offset) return;
  unit.kind = Unit::Kind::Staged;
  unit.staged = {};
  unit.staged.host = dma.converter != nullptr ? nullptr : host;
  unit.staged.converter = dma.converter;
  unit.staged.bytes = dma.size;
  unit.staged.to_device = to_device;
  unit.staged.end.stream = 0;
}

wire::Endpoint strided_endpoint(const Walk& walk, const StridedDMA::End& end, const Unit& unit) {
  const auto& [place, origin, reach] = end;
  if (const auto* card = std::get_if<CardPlace>(&place)) {
    const DevicePlace box = place_of(walk, unit, card->allocation_index, origin - reach.below, reach.bytes());
    return DevicePlace{advanced(box.address, reach.below), box.generation}.endpoint();
  }
  const auto& pinned = std::get<PinnedPlace>(place);
  const auto window_offset = walk.site.host_memory.window_offset_of({pinned.data, pinned.bytes});
  if (!window_offset) {
    refuse_step(unit.step, "the host memory of a strided transfer is not pinned",
                "allocate it from host_memory(), or copy through memory from there");
  }
  return host_endpoint(*window_offset + origin);
}

void write_strided(const Walk& walk, const StridedDMA& strided, Unit& unit) {
  wire::StridedDmaPayload& payload = unit.block.payload.strided;
  payload = {};
  payload.dma.source = strided_endpoint(walk, strided.source(), unit);
  payload.dma.destination = strided_endpoint(walk, strided.destination(), unit);
  payload.dma.bytes = strided.bytes();
  payload.dma.flags = wire::kDmaStrided;
  payload.loops = strided.loops();
}

void write_fill(const Walk& walk, const Fill& fill, Unit& unit) {
  wire::FillPayload& payload = unit.block.payload.fill;
  payload = {};
  payload.destination = place_of(walk, unit, fill.allocation_index, fill.offset, fill.size).endpoint();
  payload.bytes = fill.size;
  payload.pattern = fill.pattern;
}

void write_correction(const LaunchSite& site, std::uint64_t bytes, Unit& unit) {
  wire::DmaPayload& payload = unit.block.payload.dma;
  payload = {};
  payload.source = host_endpoint(unit.correction.window_offset);
  payload.destination = site.correction_slot.endpoint();
  payload.bytes = bytes;
}

std::uint64_t core_mask(const LaunchSite& site, const Job& job, const DeviceCompute& compute,
                        const LaunchOptions& options) {
  if (options.core_mask != 0) return options.core_mask;
  if (compute.core_mask != 0) return compute.core_mask;
  return job.worth_all_cores() ? site.all_cores : 1;
}

void write_compute(const LaunchSite& site, const Job& job, const BoundOperands& operands,
                   std::uint64_t correction_bytes, const DeviceCompute& compute, const LaunchOptions& options,
                   Unit& unit) {
  wire::ComputePayload& payload = unit.block.payload.compute;
  payload = {};
  payload.image_bytes = job.binary()->image().size();
  payload.image = operands.image().endpoint();
  if (correction_bytes != 0) payload.correction = site.correction_slot.endpoint();
  payload.correction_bytes = correction_bytes;
  payload.core_mask = core_mask(site, job, compute, options);
  operands.write_segments(unit.tile, payload, unit.windows);
  unit.block.header.budget = options.budget_slices != 0 ? options.budget_slices : compute.budget_slices;
}

std::uint64_t run_host_operation(const LaunchSite& site, const Job& job, const BoundOperands& bound,
                                 const HostOperation& host, const Unit& unit, std::uint32_t tile) {
  const auto operands = bound.of_tile(tile);
  RegionMap regions = bound.regions();
  regions.mode = site.mode;
  const std::span buffer(unit.correction.bytes, job.program_correction_metadata().max_bytes);
  std::memset(buffer.data(), 0, buffer.size());
  const HostOperationInput input{.metadata = job.program_correction_metadata(),
                                 .operands = std::span(operands.data(), bound.count()),
                                 .dimensions = job.compiled_extents(),
                                 .regions = regions,
                                 .tile = tile};
  const std::size_t bytes = host.function(input, buffer);
  if (bytes == 0 || bytes > buffer.size()) {
    throw InvalidArgument("HostOperation",
                          "the host operation of kernel " + job.binary()->name() + " produced " +
                              std::to_string(bytes) + " bytes, a correction tensor has 1 to " +
                              std::to_string(buffer.size()),
                          "return the number of bytes written");
  }
  return bytes;
}

}  // namespace

Unit* write_walk(const LaunchSite& site, const Job& job, const BoundOperands* operands, std::uint32_t tile,
                 const LaunchOptions& options, AllocationUses& uses, Unit* unit) {
  const Walk walk{site, uses};
  std::uint64_t correction_bytes = 0;
  const auto steps = job.job_plan().steps();
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    if (const auto* host = std::get_if<HostOperation>(&steps[i])) {
      correction_bytes = run_host_operation(site, job, *operands, *host, *unit, tile);
      continue;
    }
    if (const auto* compute = std::get_if<DeviceCompute>(&steps[i])) {
      start_block(*unit, wire::Opcode::Compute, tile, i);
      write_compute(site, job, *operands, correction_bytes, *compute, options, *unit);
    } else if (const auto* fill = std::get_if<Fill>(&steps[i])) {
      start_block(*unit, wire::Opcode::Fill, tile, i);
      write_fill(walk, *fill, *unit);
    } else {
      start_block(*unit, wire::Opcode::Dma, tile, i);
      if (const auto* dma = std::get_if<DMA>(&steps[i])) {
        write_dma(walk, *dma, *unit);
      } else if (const auto* strided = std::get_if<StridedDMA>(&steps[i])) {
        write_strided(walk, *strided, *unit);
      } else {
        write_correction(site, correction_bytes, *unit);
      }
    }
    unit = unit->next;
  }
  return unit;
}

}  // namespace svp
