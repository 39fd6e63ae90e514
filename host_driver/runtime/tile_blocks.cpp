// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/tile_blocks.hpp"

#include <cstring>
#include <string>
#include <variant>

#include "host_driver/runtime/plan_directory.hpp"
#include "host_driver/trace/recorder.hpp"

namespace svp {

void start_block(Unit& unit, wire::Opcode opcode, std::uint32_t tile, std::uint32_t step) {
  unit.kind = Unit::Kind::Block;
  unit.tile = tile;
  unit.step = step;
  unit.sent = 0;
  unit.leaves_out = false;
  unit.block.header = {};
  unit.block.header.opcode = opcode;
  unit.block.header.cookie = std::uint64_t{tile} << 32 | step;  // readable in a trace
}

void write_correction(const ComputeTerms& terms, std::uint64_t bytes, Unit& unit) {
  wire::DmaPayload& payload = unit.block.payload.dma;
  payload = {};
  payload.source.kind = wire::EndpointKind::HostMemory;
  payload.source.offset = unit.correction.window_offset;
  payload.destination = terms.correction_slot.endpoint();
  payload.bytes = bytes;
}

void write_compute(const ComputeTerms& terms, const BoundOperands& operands, const Tile& tile,
                   std::uint64_t correction_bytes, Unit& unit) {
  wire::ComputePayload& payload = unit.block.payload.compute;
  payload = {};
  payload.image_bytes = operands.kernel().image().size();
  payload.image = operands.image().endpoint();
  if (correction_bytes != 0) payload.correction = terms.correction_slot.endpoint();
  payload.correction_bytes = correction_bytes;
  payload.core_mask = terms.core_mask;
  operands.write_segments(tile, payload, unit.windows);
  unit.block.header.budget = terms.budget_slices;
}

std::uint64_t run_host_operation(const HostFunction& host, const ProgramCorrectionMetadata& metadata,
                                 const ComputeTerms& terms, const BoundOperands& operands, const Tile& tile,
                                 const CorrectionBuffer& correction) {
  const auto addresses = operands.of_tile(tile);
  RegionMap regions = operands.regions();
  regions.mode = terms.mode;
  const std::span buffer(correction.bytes, metadata.max_bytes);
  std::memset(buffer.data(), 0, buffer.size());
  const HostOperationInput input{.metadata = metadata,
                                 .operands = addresses.items(),
                                 .dimensions = tile.extent.items(),
                                 .regions = regions,
                                 .tile = tile.number,
                                 .pass = tile.pass};
  const std::size_t bytes = [&] {
    trace::Span traced(trace::Kind::HostOperation);
    if (auto* fields = traced.fields()) {
      *fields = {.kind = trace::Kind::HostOperation, .tile = tile.number, .text = operands.kernel().name()};
    }
    return host(input, buffer);
  }();
  if (bytes == 0 || bytes > buffer.size()) {
    throw InvalidArgument("HostOperation",
                          "the host operation of kernel " + operands.kernel().name() + " produced " +
                              std::to_string(bytes) + " bytes, a correction tensor has 1 to " +
                              std::to_string(buffer.size()),
                          "return the number of bytes written");
  }
  return bytes;
}

// ---- all tiles of a launch ------------------------------------------------------------------------------------------

namespace {

// Ours: they read nothing but their input, and may run with any lock held.
bool is_own(const HostFunction& function) {
  const auto* plain = function.target<std::size_t (*)(const HostOperationInput&, std::span<std::byte>)>();
  return (plain != nullptr && *plain == build_correction) || function.target<DirectoryCorrection>() != nullptr;
}

HostFunction host_of(const Job& job) {
  const auto* host = std::get_if<HostOperation>(&job.job_plan().steps()[0]);
  return host != nullptr ? host->function : HostFunction{};
}

}  // namespace

bool TileBlocks::can_write(const Job& job) {
  const auto steps = job.job_plan().steps();
  if (steps.size() == 1) return std::holds_alternative<DeviceCompute>(steps[0]);
  if (steps.size() != 3 || !std::holds_alternative<CorrectionDMA>(steps[1])) return false;
  const auto* host = std::get_if<HostOperation>(&steps[0]);
  return host != nullptr && (host->time == HostTime::InStream || is_own(host->function));
}

TileBlocks::TileBlocks(const Job& job, const BoundOperands& operands, const ComputeTerms& terms)
    : kernel_(job.binary()),
      operands_(operands),
      metadata_(job.program_correction_metadata()),
      terms_(terms),
      host_(host_of(job)),
      corrects_(job.job_plan().corrects()),
      in_stream_(job.job_plan().runs_in_stream()) {}

void TileBlocks::write(Unit* correction, Unit& compute) const {
  const Tile tile = tile_at(operands_.tiling(), next_);
  std::uint64_t bytes = 0;
  if (correction != nullptr) {
    bytes = run_host_operation(host_, metadata_, terms_, operands_, tile, correction->correction);
    start_block(*correction, wire::Opcode::Dma, tile.number, first_step());
    write_correction(terms_, bytes, *correction);
  }
  start_block(compute, wire::Opcode::Compute, tile.number, corrects_ ? 2 : 0);
  write_compute(terms_, operands_, tile, bytes, compute);
}

}  // namespace svp
