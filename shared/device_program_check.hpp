// SPDX-License-Identifier: Apache-2.0
// Judges a device program: every field of it. What it accepts stays inside of its bases, ends, and gives results that
// do not depend on the number of cores. Three things it cannot see:
//  * arguments that overlap each other: whoever launches the program judges them;
//  * the values of index operands: the engine refuses a value that leads outside, when it meets it (Where::Index);
//  * an index that leads a Gather or Scatter in the pool or in a scratchpad to the operation's other operands. The result
//    is then undefined; it stays inside of the program's memory.
//
// Where several things are wrong, the refusal names one of them. The rules are listed in docs/device-programs.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "shared/crc32c.hpp"
#include "shared/device_program.hpp"
#include "shared/device_program_opcodes.hpp"
#include "shared/device_program_relations.hpp"
#include "shared/device_program_rules.hpp"

namespace wire::program {

namespace detail {

struct Part {
  std::uint64_t offset;
  std::uint64_t bytes;
};
constexpr bool is_placed(const Part& part, std::uint64_t program_bytes) {
  if (!is_aligned(part.offset, kStickBytes) || !range_inside(part.offset, part.bytes, program_bytes)) return false;
  return part.bytes == 0 || part.offset >= sizeof(Header);
}
constexpr bool are_disjoint(const Part& a, const Part& b) {
  return a.bytes == 0 || b.bytes == 0 || a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
}

constexpr bool offsets_are_good(const Header& header) {
  const Part parts[] = {{header.arguments_offset, std::uint64_t{header.argument_count} * sizeof(Argument)},
                        {header.operations_offset, std::uint64_t{header.operation_count} * sizeof(Operation)},
                        {header.data_offset, header.data_bytes}};
  for (const Part& part : parts) {
    if (!is_placed(part, header.program_bytes)) return false;
  }
  return are_disjoint(parts[0], parts[1]) && are_disjoint(parts[0], parts[2]) && are_disjoint(parts[1], parts[2]);
}

// ---- loops ----------------------------------------------------------------------------------------------------------

constexpr bool follow_loops(const Operation& operation, LoopStack& loops) {
  const std::uint64_t times = iterations(loops);
  if (operation.opcode == Opcode::LoopBegin) {
    if (loops.depth >= kMaxLoops) return false;
    loops.count[loops.depth++] = operation.extent[0];
  }
  if (operation.opcode == Opcode::LoopEnd) {
    if (loops.depth == 0) return false;
    loops.count[--loops.depth] = 0;
  }
  loops.executed = plus_product(loops.executed, times, 1);
  return loops.executed <= kMaxExecutedOperations;
}

}  // namespace detail

// `bytes_available`: from the header on, in the memory that holds the program. The checksum is not looked at.
constexpr Refusal check_header(const Header& header, std::uint64_t bytes_available) {
  const auto refuse = [](Where where) { return Refusal{where, kNoOperand, kWholeProgram}; };
  if (header.magic != kMagic) return refuse(Where::Magic);
  if (header.version != kVersion) return refuse(Where::Version);
  if (header.program_bytes < sizeof(Header) || header.program_bytes > kMaxProgramBytes)
    return refuse(Where::ProgramBytes);
  if (!is_aligned(header.program_bytes, kStickBytes)) return refuse(Where::ProgramBytes);
  if (header.program_bytes > bytes_available) return refuse(Where::ProgramBytes);
  if (header.argument_count > kMaxArguments) return refuse(Where::ArgumentCount);
  if (header.operation_count > kMaxOperations) return refuse(Where::OperationCount);
  if (!detail::offsets_are_good(header)) return refuse(Where::Offsets);
  if (header.pool_bytes > kMaxPoolBytes || !is_aligned(header.pool_bytes, kStickBytes)) return refuse(Where::Pool);
  if (header.slices > kMaxSlices || header.scratchpad_bytes > kMaxSliceScratchpadBytes) return refuse(Where::Slices);
  if (!is_aligned(header.scratchpad_bytes, kStickBytes)) return refuse(Where::Slices);
  if ((header.flags & ~(kOneStorage | kFunctionTables)) != 0) return refuse(Where::Reserved);
  return detail::all_zero(header.reserved) ? Refusal{} : refuse(Where::Reserved);
}

// A refusal has the argument's number in place of an operand's.
constexpr Refusal check_argument(const Argument& argument, std::uint8_t number) {
  const bool bytes = is_aligned(argument.bytes, kStickBytes) && argument.bytes <= kMaxArgumentBytes;
  const bool access = argument.access <= Access::ReadWrite && (argument.bytes != 0 || argument.access == Access::None);
  if (bytes && access && argument.reserved == 0) return {};
  return {Where::ArgumentEntry, number, kWholeProgram};
}

// For header and arguments that passed. Also follows LoopBegin and LoopEnd.
constexpr Refusal check_operation(const Header& header, std::span<const Argument> arguments, const Operation& operation,
                                  std::uint32_t number, LoopStack& loops) {
  const auto refuse = [&](Where where, std::uint8_t operand = kNoOperand) { return Refusal{where, operand, number}; };
  const OpcodeRow* row = find_opcode(operation.opcode);
  if (row == nullptr) return refuse(Where::Opcode);
  const detail::Context context{header, arguments, operation, *row, loops};
  if (const Where where = detail::check_fields(context); where != Where::Nothing) return refuse(where);
  for (unsigned i = operation.operand_count; i < kMaxOperands; ++i) {
    if (!detail::all_zero(operation.operand[i])) return refuse(Where::Reserved, static_cast<std::uint8_t>(i));
  }
  if (row->family != Family::Loop) {
    if (const Refusal refusal = detail::check_operands(context, number); !refusal.ok()) return refusal;
    if (!detail::masks_are_good(context)) return refuse(Where::Mask);
  }
  return detail::follow_loops(operation, loops) ? Refusal{} : refuse(Where::Loop);
}

// Behind the last operation: all loops have ended.
constexpr Refusal check_end(const LoopStack& loops) {
  return loops.depth == 0 ? Refusal{} : Refusal{Where::Loop, kNoOperand, kWholeProgram};
}

// The checksum that the header has to name.
inline std::uint32_t checksum_of(std::span<const std::byte> program) {
  constexpr std::size_t kAt = offsetof(Header, crc32c);
  constexpr std::uint8_t kZeros[sizeof(Header::crc32c)]{};
  std::uint32_t crc = crc32c(0, program.data(), kAt);
  crc = crc32c(crc, kZeros, sizeof kZeros);
  return crc32c(crc, program.data() + kAt + sizeof kZeros, program.size() - kAt - sizeof kZeros);
}

// All of a program, with its checksum. `program` may be longer than the program and need not be aligned.
inline Refusal check_program(std::span<const std::byte> program) {
  Header header;
  if (program.size() < sizeof header) return {Where::ProgramBytes, kNoOperand, kWholeProgram};
  std::memcpy(&header, program.data(), sizeof header);
  if (const Refusal refusal = check_header(header, program.size()); !refusal.ok()) return refusal;
  if (header.crc32c != checksum_of(program.first(header.program_bytes))) return {Where::Crc, kNoOperand, kWholeProgram};
  Argument arguments[kMaxArguments];
  for (unsigned i = 0; i < header.argument_count; ++i) {
    std::memcpy(&arguments[i], program.data() + header.arguments_offset + i * sizeof(Argument), sizeof(Argument));
    if (const Refusal refusal = check_argument(arguments[i], static_cast<std::uint8_t>(i)); !refusal.ok())
      return refusal;
  }
  LoopStack loops;
  for (std::uint32_t i = 0; i < header.operation_count; ++i) {
    Operation operation;
    std::memcpy(&operation, program.data() + header.operations_offset + i * sizeof operation, sizeof operation);
    const std::span<const Argument> given(arguments, header.argument_count);
    if (const Refusal refusal = check_operation(header, given, operation, i, loops); !refusal.ok()) return refusal;
  }
  return check_end(loops);
}

}  // namespace wire::program
