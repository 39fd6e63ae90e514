// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/launch_plan.hpp"

#include <cstring>
#include <string>

#include "host_driver/runtime/transfer_pieces.hpp"
#include "host_driver/trace/recorder.hpp"

namespace svp {
namespace {

template <typename Refusal = InvalidArgument>
[[noreturn]] void refuse_operand(const Job& job, std::size_t index, const std::string& what, std::string next_step) {
  const std::string operand = "operand " + job.binary()->metadata().operands[index].name;
  throw Refusal(operand, operand + " of kernel " + job.binary()->name() + " " + what, std::move(next_step));
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

// A kernel sees an operand through one window, that of its region.
void require_one_chunk(const Job& job, std::size_t index, const FlexAllocator& allocator, AllocationIndex allocation) {
  const auto memory = allocator.try_resolve_chunks(allocation);
  if (!memory || memory->count == 1) return;
  refuse_operand<spyre::CopyNeeded>(
      job, index,
      "(number " + std::to_string(index) + ") lies in " + std::to_string(memory->count) +
          " chunks, and a kernel takes operands of one",
      "launch with a copy of it (Context::contiguous()), or allocate it without interleaving");
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
  if (!resolved) require_one_chunk(job_, index, allocator, argument.allocation);
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

wire::Endpoint host_endpoint(std::uint64_t window_offset) {
  return {
      .region_id = 0, .offset = window_offset, .generation = 0, .kind = wire::EndpointKind::HostMemory, .reserved = {}};
}

[[noreturn]] void refuse_step(std::uint32_t step, const std::string& what, std::string next_step) {
  const std::string field = "job_plan.step[" + std::to_string(step) + "]";
  throw InvalidArgument(field, field + ": " + what, std::move(next_step));
}

// One walk, as far as it has been written.
struct Walk {
  const LaunchSite& site;
  AllocationUses& uses;
  std::uint32_t tile;
  std::uint32_t step;
  Unit* next;  // the first record that is not used
};

Unit& start_block(Walk& walk, wire::Opcode opcode) {
  // As many were counted before; a handle can not have changed its meaning since.
  if (walk.next == nullptr) refuse_step(walk.step, "its memory changed during the launch", "launch it again");
  Unit& unit = *walk.next;
  walk.next = unit.next;
  unit.kind = Unit::Kind::Block;
  unit.tile = walk.tile;
  unit.step = walk.step;
  unit.block.header = {};
  unit.block.header.opcode = opcode;
  unit.block.header.cookie = std::uint64_t{walk.tile} << 32 | walk.step;  // readable in a trace
  return unit;
}

wire::Endpoint endpoint(const ChunkPlace& place) {
  return DevicePlace{place.address, place.region_generation}.endpoint();
}

CardEnd end_of(const Walk& walk, AllocationIndex index, std::uint64_t offset, std::uint64_t bytes) {
  FlexAllocator& allocator = walk.site.allocator;
  // Every tile names the same memory: used once, it stays.
  const auto memory = walk.tile == 0 ? allocator.try_use_chunks(index, walk.uses) : allocator.try_resolve_chunks(index);
  if (!memory) refuse_step(walk.step, memory.error().message, memory.error().next_step);
  if (!wire::range_inside(offset, bytes, memory->block_bytes)) {
    refuse_step(walk.step,
                std::to_string(bytes) + " bytes from byte " + std::to_string(offset) + " exceed the allocation of " +
                    std::to_string(memory->block_bytes),
                "move less, or allocate more");
  }
  return {*memory, offset};
}

// Pageable memory becomes a staged transfer, which the scheduler cuts into chunks.
void write_host_dma(Walk& walk, const DMA& dma, const CardEnd& card) {
  const bool to_device = dma.direction == Direction::ToDevice;
  auto* host = static_cast<std::byte*>(dma.host_address);
  const auto window_offset =
      dma.converter != nullptr ? std::nullopt : walk.site.host_memory.window_offset_of({host, dma.size});
  for_each_piece(dma.size, card, nullptr, [&](std::uint64_t at, std::uint64_t bytes) {
    Unit& unit = start_block(walk, wire::Opcode::Dma);
    wire::DmaPayload& payload = unit.block.payload.dma;
    payload = {};
    payload.bytes = bytes;
    (to_device ? payload.source : payload.destination) = host_endpoint(window_offset ? *window_offset + at : 0);
    (to_device ? payload.destination : payload.source) = endpoint(card.at(at));
    if (window_offset) return;
    unit.kind = Unit::Kind::Staged;
    unit.staged = {};
    unit.staged.host = dma.converter != nullptr ? nullptr : host + at;
    unit.staged.converter = dma.converter;
    unit.staged.converter_offset = at;
    unit.staged.bytes = bytes;
    unit.staged.to_device = to_device;
    unit.staged.end.stream = 0;
  });
}

void write_dma(Walk& walk, const DMA& dma) {
  const CardEnd card = end_of(walk, dma.allocation_index, dma.offset, dma.size);
  if (dma.direction != Direction::DeviceToDevice) return write_host_dma(walk, dma, card);
  const CardEnd source = end_of(walk, dma.source_allocation_index, dma.source_offset, dma.size);
  for_each_piece(dma.size, card, &source, [&](std::uint64_t at, std::uint64_t bytes) {
    wire::DmaPayload& payload = start_block(walk, wire::Opcode::Dma).block.payload.dma;
    payload = {};
    payload.bytes = bytes;
    payload.source = endpoint(source.at(at));
    payload.destination = endpoint(card.at(at));
  });
}

wire::Endpoint strided_endpoint(const Walk& walk, const StridedDMA::End& end) {
  const auto& [place, origin, reach] = end;
  if (const auto* card = std::get_if<CardPlace>(&place)) {
    const ChunkPlace box = end_of(walk, card->allocation_index, origin - reach.below, reach.bytes()).at(0);
    if (box.bytes_left < reach.bytes()) {
      refuse_step(walk.step, "the elements of a strided transfer lie in several chunks",
                  "cut its loops where a chunk ends (split_at_chunks()), or copy through the host");
    }
    return DevicePlace{advanced(box.address, reach.below), box.region_generation}.endpoint();
  }
  const auto& pinned = std::get<PinnedPlace>(place);
  const auto window_offset = walk.site.host_memory.window_offset_of({pinned.data, pinned.bytes});
  if (!window_offset) {
    refuse_step(walk.step, "the host memory of a strided transfer is not pinned",
                "allocate it from host_memory(), or copy through memory from there");
  }
  return host_endpoint(*window_offset + origin);
}

void write_strided(Walk& walk, const StridedDMA& strided) {
  wire::StridedDmaPayload& payload = start_block(walk, wire::Opcode::Dma).block.payload.strided;
  payload = {};
  payload.dma.source = strided_endpoint(walk, strided.source());
  payload.dma.destination = strided_endpoint(walk, strided.destination());
  payload.dma.bytes = strided.bytes();
  payload.dma.flags = wire::kDmaStrided;
  payload.loops = strided.loops();
}

void write_fill(Walk& walk, const Fill& fill) {
  const CardEnd card = end_of(walk, fill.allocation_index, fill.offset, fill.size);
  for_each_piece(fill.size, card, nullptr, [&](std::uint64_t at, std::uint64_t bytes) {
    wire::FillPayload& payload = start_block(walk, wire::Opcode::Fill).block.payload.fill;
    payload = {};
    payload.destination = endpoint(card.at(at));
    payload.bytes = bytes;
    payload.pattern = fill.pattern;
  });
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
  const std::size_t bytes = [&] {
    trace::Span traced(trace::Kind::HostOperation);
    if (auto* fields = traced.fields()) {
      *fields = {.kind = trace::Kind::HostOperation, .tile = tile, .text = job.binary()->name()};
    }
    return host.function(input, buffer);
  }();
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

WalkSize size_of_walk(const FlexAllocator& allocator, const Job& job) {
  const JobPlan& plan = job.job_plan();
  WalkSize size{plan.blocks_per_walk(), plan.correction_at(), job.program_correction_metadata().max_bytes};
  if (!allocator.has_chunked()) return size;
  size.blocks = 0;
  for (const Step& step : plan.steps()) {
    if (std::holds_alternative<HostOperation>(step)) continue;
    if (std::holds_alternative<CorrectionDMA>(step)) size.correction_at = size.blocks;
    size.blocks += blocks_of(allocator, step);
  }
  return size;
}

Unit* write_walk(const LaunchSite& site, const Job& job, const BoundOperands* operands, std::uint32_t tile,
                 const LaunchOptions& options, AllocationUses& uses, Unit* unit) {
  Walk walk{site, uses, tile, 0, unit};
  std::uint64_t correction_bytes = 0;
  const auto steps = job.job_plan().steps();
  for (; walk.step < steps.size(); ++walk.step) {
    const Step& step = steps[walk.step];
    if (const auto* host = std::get_if<HostOperation>(&step)) {
      correction_bytes = run_host_operation(site, job, *operands, *host, *walk.next, tile);
    } else if (const auto* compute = std::get_if<DeviceCompute>(&step)) {
      write_compute(site, job, *operands, correction_bytes, *compute, options,
                    start_block(walk, wire::Opcode::Compute));
    } else if (const auto* fill = std::get_if<Fill>(&step)) {
      write_fill(walk, *fill);
    } else if (const auto* dma = std::get_if<DMA>(&step)) {
      write_dma(walk, *dma);
    } else if (const auto* strided = std::get_if<StridedDMA>(&step)) {
      write_strided(walk, *strided);
    } else {
      write_correction(site, correction_bytes, start_block(walk, wire::Opcode::Dma));
    }
  }
  return walk.next;
}

}  // namespace svp
