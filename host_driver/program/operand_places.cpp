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

}  // namespace

DeviceProgram::Place DeviceProgram::place_in_workspace(std::uint64_t offset) const {
  if (offset < header_.pool_bytes || header_.scratchpad_bytes == 0) {
    return {.base = Base::Pool, .argument = 0, .offset = offset};
  }
  return {.base = Base::Scratchpad, .argument = 0, .offset = (offset - header_.pool_bytes) % header_.scratchpad_bytes};
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
