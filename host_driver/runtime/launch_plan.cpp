// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/launch_plan.hpp"

#include <string>

#include "host_driver/runtime/transfer_pieces.hpp"

namespace svp {

namespace {

wire::Endpoint host_endpoint(std::uint64_t window_offset) {
  return {
      .region_id = 0, .offset = window_offset, .generation = 0, .kind = wire::EndpointKind::HostMemory, .reserved = {}};
}

std::string name_of_step(std::uint32_t step) { return "job_plan.step[" + std::to_string(step) + "]"; }

[[noreturn]] void refuse_step(std::uint32_t step, const std::string& what, std::string next_step) {
  const std::string field = name_of_step(step);
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
  start_block(unit, opcode, walk.tile, walk.step);
  return unit;
}

wire::Endpoint endpoint(const ChunkPlace& place) {
  return DevicePlace{place.address, place.region_generation}.endpoint();
}

CardEnd end_of(const Walk& walk, AllocationIndex index, std::uint64_t offset, std::uint64_t bytes) {
  FlexAllocator& allocator = walk.site.allocator;
  // Every tile names the same memory: used once, it stays.
  const auto memory = walk.tile == 0 ? allocator.try_use_chunks(index, walk.uses) : allocator.try_resolve_chunks(index);
  if (!memory) allocator.refuse(index, name_of_step(walk.step), ": ");
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

std::uint64_t core_mask(const LaunchSite& site, const Job& job, const DeviceCompute& compute,
                        const LaunchOptions& options) {
  if (options.core_mask != 0) return options.core_mask;
  if (compute.core_mask != 0) return compute.core_mask;
  return job.worth_all_cores() ? site.all_cores : 1;
}

}  // namespace

ComputeTerms terms_of(const LaunchSite& site, const Job& job, const LaunchOptions& options) {
  const DeviceCompute& compute = *job.job_plan().compute();
  return {.correction_slot = site.correction_slot,
          .mode = site.mode,
          .core_mask = core_mask(site, job, compute, options),
          .budget_slices = options.budget_slices != 0 ? options.budget_slices : compute.budget_slices};
}

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
  const ComputeTerms terms = operands != nullptr ? terms_of(site, job, options) : ComputeTerms{};
  const Tile place = operands != nullptr ? tile_at(operands->tiling(), tile) : Tile{};
  std::uint64_t correction_bytes = 0;
  const auto steps = job.job_plan().steps();
  for (; walk.step < steps.size(); ++walk.step) {
    const Step& step = steps[walk.step];
    if (const auto* host = std::get_if<HostOperation>(&step)) {
      correction_bytes = run_host_operation(host->function, job.program_correction_metadata(), terms, *operands, place,
                                            walk.next->correction);
    } else if (std::holds_alternative<DeviceCompute>(step)) {
      write_compute(terms, *operands, place, correction_bytes, start_block(walk, wire::Opcode::Compute));
    } else if (const auto* fill = std::get_if<Fill>(&step)) {
      write_fill(walk, *fill);
    } else if (const auto* dma = std::get_if<DMA>(&step)) {
      write_dma(walk, *dma);
    } else if (const auto* strided = std::get_if<StridedDMA>(&step)) {
      write_strided(walk, *strided);
    } else {
      write_correction(terms, correction_bytes, start_block(walk, wire::Opcode::Dma));
    }
  }
  return walk.next;
}

}  // namespace svp
