// SPDX-License-Identifier: Apache-2.0
// Launches of programs from where the caller has put them.
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "host_driver/compat/flex/2026-08-21/guarded.hpp"
#include "host_driver/compat/flex/2026-08-21/transfers.hpp"

namespace flex::detail {
namespace {

// The tensors of a launch; their memory is somebody's until it is launched.
using Operands = std::vector<Place>;

std::vector<svp::Argument> arguments_of(const svp::Job& job, const Operands& operands) {
  const auto& metadata = job.binary()->metadata().operands;
  const auto& shapes = job.job_plan().compute()->expected_input_shapes;
  std::vector<svp::Argument> list(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    list[i].allocation = operands[i].allocation->index();
    list[i].shape = shapes[i];
    list[i].dtype = metadata[i].dtype;
    list[i].offset = operands[i].offset;
  }
  return list;
}

void require_count(const svp::Job& job, std::size_t given) {
  const svp::KernelMetadata& kernel = job.binary()->metadata();
  if (given == kernel.operands.size()) return;
  refuse("tensors",
         "kernel " + kernel.name + " takes " + std::to_string(kernel.operands.size()) + " operands, " +
             std::to_string(given) + " were given",
         "give one address per operand, inputs and outputs, in order");
}

Operands given_operands(const Context& context, const svp::Job& job,
                        const std::vector<const CompositeAddress*>& tensors) {
  require_count(job, tensors.size());
  Operands operands;
  operands.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) operands.push_back(context.place_of(tensors[i], {"tensor", i}));
  return operands;
}

// An address symbol of a correction tensor names a tensor's first byte by segment and offset.
Place place_at(const Context& context, const wire::CorrectionSymbol& symbol, std::size_t operand) {
  Place place = context.memory()->find(symbol.region_id, symbol.value, wire::kStickBytes);
  if (place.allocation != nullptr) return place;
  refuse("correction tensor",
         "operand " + std::to_string(operand) + " is byte " + std::to_string(symbol.value) + " of segment " +
             std::to_string(symbol.region_id) + ", where nothing is allocated",
         "keep the tensor until the launch, and make the correction tensor for each launch");
}

Operands corrected_operands(const Context& context, const svp::Job& job, std::span<const std::byte> tensor) {
  const svp::KernelMetadata& kernel = job.binary()->metadata();
  if (tensor.empty()) {
    refuse("tensors", "there are none, and no correction tensor was sent to the program's memory on this stream",
           "give the tensors' addresses, or make and send the correction tensor in front of the launch");
  }
  wire::CorrectionHeader header;
  const bool complete = tensor.size() >= wire::correction_bytes(static_cast<std::uint32_t>(kernel.symbols.size()));
  if (complete) std::memcpy(&header, tensor.data(), sizeof header);
  if (!complete || header.symbol_count != kernel.symbols.size()) {
    refuse("correction tensor", "it is not the one of kernel " + kernel.name,
           "make it by the hcm of the program's own directory");
  }
  Operands operands;
  operands.resize(kernel.operands.size());
  for (std::size_t i = 0; i < kernel.symbols.size(); ++i) {
    wire::CorrectionSymbol symbol;
    std::memcpy(&symbol, tensor.data() + sizeof header + i * sizeof symbol, sizeof symbol);
    const svp::KernelSymbol& expected = kernel.symbols[i];
    if (symbol.kind != expected.kind) {
      refuse("correction tensor", "symbol " + std::to_string(i) + " is not the one of kernel " + kernel.name,
             "make it by the hcm of the program's own directory");
    }
    if (expected.kind == wire::SymbolKind::Address) {
      operands[expected.operand] = place_at(context, symbol, expected.operand);
    }
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].allocation == nullptr) {
      refuse("correction tensor", "it does not say where operand " + kernel.operands[i].name + " lies",
             "give the tensors' addresses with the launch");
    }
  }
  return operands;
}

}  // namespace

void compute(Context& context, const Context::Call& call, unsigned stream, const ComputeParams& params) {
  const Place program = context.place_of(Access::program(params), "program address");
  ProgramMemory* const memory = program.allocation->program();
  if (memory == nullptr) refuse("program address", "it is memory of tensors", "allocate it with MemoryType::Program");
  const std::uint64_t offset = Access::bootstrap_offset(params);
  if (offset >= program.bytes) {
    refuse("bootstrap_offset",
           std::to_string(offset) + " lies behind the program's memory of " + std::to_string(program.bytes) + " bytes",
           "take job_bin_ptr, less PROG_OFFSET_BASE");
  }
  const auto job = memory->job_at(program.allocation->allocator(), program.allocation->index(), program.offset + offset,
                                  Access::name(params));
  const auto& tensors = Access::tensors(params);
  const bool none_needed = job->binary()->metadata().operands.empty();
  const Operands operands = !tensors.empty() || none_needed
                                ? given_operands(context, *job, tensors)
                                : corrected_operands(context, *job, memory->correction_of(stream));
  call.stream(stream).Launch(*job, arguments_of(*job, operands));
}

}  // namespace flex::detail
