// SPDX-License-Identifier: Apache-2.0
// Which operand of an operation a byte belongs to: for the message of a launch that failed there.
#include <algorithm>

#include "host_driver/program/device_program.hpp"
#include "shared/device_program_places.hpp"

namespace svp {
namespace {

using wire::program::Base;
using wire::program::Box;
using wire::program::Opcode;
using wire::program::Operation;

// Iterations of the loops around an operation, the outermost first.
std::vector<std::uint32_t> loops_around(const DeviceProgram& program, std::uint32_t number) {
  std::vector<std::uint32_t> counts;
  for (std::uint32_t i = 0; i < number; ++i) {
    const Operation operation = program.operation(i);
    if (operation.opcode == Opcode::LoopBegin) counts.push_back(operation.extent[0]);
    if (operation.opcode == Opcode::LoopEnd && !counts.empty()) counts.pop_back();
  }
  return counts;
}

bool reaches(const wire::program::OpcodeRow& row, const Operation& operation, unsigned number,
             const std::vector<std::uint32_t>& loops, const DeviceProgram::Place& place) {
  const wire::program::Operand& operand = operation.operand[number];
  if (operand.base != place.base || operand.argument != place.argument) return false;
  const wire::program::Role role = role_of(row, operation, number);
  const bool indirect = role == wire::program::Role::Indirect || role == wire::program::Role::IndirectOutput;
  if (indirect) return true;  // an index leads anywhere in its memory
  Box box = box_of(row, operation, number);
  const std::size_t depth = std::min<std::size_t>(loops.size(), wire::program::kMaxLoops);
  for (std::size_t l = 0; l < depth; ++l) box.add(operand.loop_stride[l], loops[l]);
  return place.offset >= box.offset && place.offset - box.offset < box.reach();
}

std::uint64_t bytes_of_base(const DeviceProgram& program, const wire::program::Operand& operand) {
  const wire::program::Header& header = program.header();
  switch (operand.base) {
    case Base::Argument:
      return operand.argument < program.arguments().size() ? program.arguments()[operand.argument].bytes : 0;
    case Base::Data: return header.data_bytes;
    case Base::Pool: return header.pool_bytes;
    case Base::Scratchpad: return header.scratchpad_bytes;
    case Base::Tables: return wire::program::kAllTablesBytes;
    case Base::None: break;
  }
  return 0;
}

std::string name_of_base(const wire::program::Operand& operand) {
  switch (operand.base) {
    case Base::Argument: return "argument " + std::to_string(operand.argument);
    case Base::Data: return "the program's data";
    case Base::Pool: return "the pool";
    case Base::Scratchpad: return "a scratchpad";
    case Base::Tables: return "the tables of functions";
    case Base::None: break;
  }
  return "no memory";
}

}  // namespace

std::uint64_t DeviceProgram::rows_of(std::uint32_t operation, std::uint8_t operand) const {
  if (operation >= header_.operation_count) return 0;
  const Operation its = this->operation(operation);
  const wire::program::OpcodeRow* row = wire::program::find_opcode(its.opcode);
  if (row == nullptr || operand >= its.operand_count || its.page == 0) return 0;
  const Box first = box_of(*row, its, operand);  // what the first row reaches
  const std::uint64_t bytes = bytes_of_base(*this, its.operand[operand]);
  const std::uint64_t end = wire::program::plus_product(first.reach(), first.offset, 1);
  return bytes < end ? 0 : (bytes - end) / its.page + 1;
}

std::string DeviceProgram::describe_index(const wire::program::Refusal& refusal) const {
  const Operation its = refusal.operation < header_.operation_count ? operation(refusal.operation) : Operation{};
  const bool is_signed = its.operand[0].format == wire::program::Format::Int32;
  const bool known = refusal.operand < its.operand_count;
  return "index " +
         (is_signed ? std::to_string(static_cast<std::int32_t>(refusal.index)) : std::to_string(refusal.index)) +
         " is outside of " + (known ? name_of_base(its.operand[refusal.operand]) : "its table") + ", which has " +
         std::to_string(rows_of(refusal.operation, refusal.operand)) +
         " rows: " + describe_operation(refusal.operation, refusal.operand);
}

DeviceProgram::Place DeviceProgram::place_behind_arguments(std::size_t index, std::uint64_t offset) const {
  if (uses_tables() && index-- == 0) return {.base = Base::Tables, .argument = 0, .offset = offset};
  if (index == 0 && workspace_bytes() != 0) return {.base = Base::Pool, .argument = 0, .offset = offset};
  return {.base = Base::Scratchpad, .argument = 0, .offset = offset % wire::program::kScratchpadStride};
}

std::optional<std::uint8_t> DeviceProgram::operand_at(std::uint32_t number, const Place& place, bool written) const {
  if (number >= header_.operation_count) return std::nullopt;
  const Operation operation = this->operation(number);
  const wire::program::OpcodeRow* row = wire::program::find_opcode(operation.opcode);
  if (row == nullptr || operation.operand_count == 0) return std::nullopt;
  const std::vector<std::uint32_t> loops = loops_around(*this, number);
  const auto output = static_cast<std::uint8_t>(operation.operand_count - 1);
  for (std::uint8_t i = written ? output : 0; i < (written ? operation.operand_count : output); ++i) {
    if (reaches(*row, operation, i, loops, place)) return i;
  }
  return std::nullopt;
}

}  // namespace svp
