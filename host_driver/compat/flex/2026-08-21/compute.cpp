// SPDX-License-Identifier: Apache-2.0
// Launches of programs from where the caller has put them.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "host_driver/compat/flex/2026-08-21/guarded.hpp"
#include "host_driver/compat/flex/2026-08-21/transfers.hpp"
#include "host_driver/program/device_program.hpp"
#include "shared/device_program_rules.hpp"

namespace flex::detail {
namespace {

// The tensors of a launch; their memory is somebody's until it is launched.
using Operands = std::vector<Place>;

// Bytes of the allocation from where the tensor begins, in whole sticks: a launch says where a tensor begins, not where
// it ends.
std::vector<std::uint64_t> lengths_of(const Operands& operands) {
  std::vector<std::uint64_t> lengths;
  lengths.reserve(operands.size());
  for (const Place& operand : operands) {
    const std::uint64_t bytes = operand.allocation->memory().bytes;
    const std::uint64_t left = std::min(bytes - std::min(bytes, operand.offset), wire::program::kMaxArgumentBytes);
    lengths.push_back(left / wire::kStickBytes * wire::kStickBytes);
  }
  return lengths;
}

// A device program knows the layout of its arguments by itself.
std::vector<svp::Argument> raw_arguments_of(const Operands& operands) {
  std::vector<svp::Argument> list;
  list.reserve(operands.size());
  for (const Place& operand : operands) list.push_back(svp::Argument::raw(operand.allocation->index(), operand.offset));
  return list;
}

std::vector<svp::Argument> arguments_of(const svp::Job& job, const Operands& operands) {
  if (job.device_program() != nullptr) return raw_arguments_of(operands);
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

// The tensors that a launch has to name: of a device program the driver adds the others.
std::size_t tensors_of(const svp::Job& job) {
  return job.device_program() != nullptr ? job.device_program()->arguments().size()
                                         : job.binary()->metadata().operands.size();
}

void require_count(const svp::Job& job, std::size_t given) {
  const std::size_t takes = tensors_of(job);
  if (given == takes) return;
  refuse("tensors",
         "kernel " + job.binary()->name() + " takes " + std::to_string(takes) + " operands, " + std::to_string(given) +
             " were given",
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

// The symbols of the tensor: of a device program the addresses of its arguments, in order (docs/spyrecode.md).
std::vector<svp::KernelSymbol> symbols_of(const svp::Job& job) {
  if (job.device_program() == nullptr) return job.binary()->metadata().symbols;
  std::vector<svp::KernelSymbol> symbols(tensors_of(job));
  for (std::size_t i = 0; i < symbols.size(); ++i) symbols[i].operand = static_cast<std::uint32_t>(i);
  return symbols;
}

Operands corrected_operands(const Context& context, const svp::Job& job, std::span<const std::byte> tensor) {
  const svp::KernelMetadata& kernel = job.binary()->metadata();
  const auto symbols = symbols_of(job);
  const std::size_t first = job.device_program() != nullptr ? 1 : 0;  // of the operands that are tensors
  if (tensor.empty()) {
    refuse("tensors", "there are none, and no correction tensor was sent to the program's memory on this stream",
           "give the tensors' addresses, or make and send the correction tensor in front of the launch");
  }
  wire::CorrectionHeader header;
  const bool complete = tensor.size() >= wire::correction_bytes(static_cast<std::uint32_t>(symbols.size()));
  if (complete) std::memcpy(&header, tensor.data(), sizeof header);
  if (!complete || header.symbol_count != symbols.size()) {
    refuse("correction tensor", "it is not the one of kernel " + kernel.name,
           "make it by the hcm of the program's own directory");
  }
  Operands operands;
  operands.resize(tensors_of(job));
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    wire::CorrectionSymbol symbol;
    std::memcpy(&symbol, tensor.data() + sizeof header + i * sizeof symbol, sizeof symbol);
    const svp::KernelSymbol& expected = symbols[i];
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
      refuse("correction tensor", "it does not say where operand " + kernel.operands[i + first].name + " lies",
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
  auto job = memory->job_at(program.allocation->allocator(), program.allocation->index(), program.offset + offset,
                            Access::name(params));
  const auto& tensors = Access::tensors(params);
  const bool none_needed = tensors_of(*job) == 0;
  const Operands operands = !tensors.empty() || none_needed
                                ? given_operands(context, *job, tensors)
                                : corrected_operands(context, *job, memory->correction_of(stream));
  svp::FlexStream& on = call.stream(stream);
  if (job->device_program() != nullptr) {
    job = memory->loaded_program(call.runtime(), on, call.engine(), program.offset + offset, lengths_of(operands));
  }
  on.Launch(*job, arguments_of(*job, operands));
}

}  // namespace flex::detail
