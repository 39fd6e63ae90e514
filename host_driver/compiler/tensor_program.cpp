// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/tensor_program.hpp"

#include <algorithm>
#include <bit>

#include "host_driver/compiler/bundle_text.hpp"
#include "host_driver/program/program_parts.hpp"
#include "shared/units.hpp"

namespace svp::compiler {

namespace {

namespace format = wire::program;
using format::Base;
using format::Opcode;

SourcePlace at_line(unsigned line) { return {.file = kBundleFileName, .line = line, .path = {}}; }

// What the format holds: bytes, multiples of a stick, not negative.
std::uint64_t stick_bytes(std::int64_t bytes, unsigned line, const char* what) {
  if (bytes < 0) refuse(at_line(line), std::string(what) + " of " + std::to_string(bytes) + " bytes goes backwards");
  if (bytes % static_cast<std::int64_t>(wire::kStickBytes) != 0) {
    refuse(at_line(line), std::string(what) + " of " + std::to_string(bytes) + " bytes is no whole number of sticks");
  }
  return static_cast<std::uint64_t>(bytes);
}

format::Operand operand_of(const TensorUse& use, unsigned line) {
  format::Operand operand{};
  operand.base = use.base;
  operand.format = use.format;
  operand.argument = static_cast<std::uint8_t>(use.argument);
  operand.stick_dim = use.stick == kNoStick ? format::kNoDimension : static_cast<std::uint8_t>(use.stick);
  operand.offset = stick_bytes(use.offset, line, "an address");
  for (unsigned d = 0; d < kMaxRank; ++d) {
    if (use.present[d]) operand.present |= static_cast<std::uint8_t>(1u << d);
    operand.stride[d] = use.present[d] ? stick_bytes(use.stride[d], line, "a stride") : 0;
    operand.split[d] = static_cast<std::uint8_t>(use.split[d]);
    operand.split_stride[d] = static_cast<std::uint8_t>(use.split[d] > 1 ? use.split_stride[d] : 0);
  }
  for (unsigned l = 0; l < kMaxLoops; ++l) {
    operand.loop_stride[l] = stick_bytes(use.loop_stride[l], line, "a step of a loop");
  }
  return operand;
}

format::Operation operation_of(const TensorOp& op) {
  format::Operation operation{};
  operation.opcode = op.opcode;
  operation.rank = static_cast<std::uint8_t>(op.extent.size());
  operation.operand_count = static_cast<std::uint8_t>(op.operands.size());
  operation.reduced = static_cast<std::uint8_t>(op.reduced == kNoStick ? 0 : 1u << op.reduced);
  operation.mask_count = static_cast<std::uint8_t>(op.masks.size());
  std::ranges::copy(op.extent, operation.extent);
  std::ranges::transform(op.masks, operation.mask, [](const TensorMask& mask) {
    return format::Mask{.dimension = mask.dimension, .start = mask.start, .count = mask.count};
  });
  operation.mask_value = std::bit_cast<std::uint32_t>(op.mask_value);
  std::ranges::transform(op.constants, operation.constant, [](float c) { return std::bit_cast<std::uint32_t>(c); });
  operation.source_line = op.line;
  operation.page = op.page;
  for (std::size_t i = 0; i < op.operands.size(); ++i) operation.operand[i] = operand_of(op.operands[i], op.line);
  return operation;
}

void check_counts(const TensorOp& op) {
  if (op.extent.size() > kMaxRank) refuse(at_line(op.line), "an operation over more than 8 dimensions");
  if (op.operands.size() > format::kMaxOperands) refuse(at_line(op.line), "an operation of more than 6 tensors");
  if (op.masks.size() > format::kMaxMasks) refuse(at_line(op.line), "more than 4 masks");
}

// What the launch has to bring, and the workspace that it needs.
class Needs {
 public:
  explicit Needs(ProgramParts& parts) : parts_(parts) {}

  void add(const TensorOp& op) {
    if (op.opcode == Opcode::LoopBegin) loops_.push_back(op.extent[0]);
    if (op.opcode == Opcode::LoopEnd) loops_.pop_back();
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      add(op.operands[i], op, i + 1 == op.operands.size());
    }
  }

 private:
  void add(const TensorUse& use, const TensorOp& op, bool written) {
    constexpr std::uint64_t kTooMany = format::kMaxSliceScratchpadBytes + wire::kStickBytes;
    const auto end = static_cast<std::uint64_t>(reach_of(use, op.extent, loops_).second);
    switch (use.base) {
      case Base::Argument: {
        format::Argument& argument = parts_.arguments[use.argument];
        argument.bytes = std::max(argument.bytes, end);
        const auto access = written ? format::Access::Write : format::Access::Read;
        argument.access =
            static_cast<format::Access>(static_cast<unsigned>(argument.access) | static_cast<unsigned>(access));
        break;
      }
      case Base::Pool: parts_.pool_bytes = std::max(parts_.pool_bytes, end); break;
      case Base::Scratchpad:
        parts_.scratchpad_bytes =
            std::max(parts_.scratchpad_bytes, static_cast<std::uint32_t>(std::min<std::uint64_t>(end, kTooMany)));
        for (unsigned d = 0, slices = 1; d < kMaxRank; ++d) {
          slices += (use.split[d] - 1) * use.split_stride[d];
          parts_.slices = std::max(parts_.slices, slices);
        }
        break;
      case Base::Tables: parts_.flags |= format::kFunctionTables; break;
      case Base::None:
      case Base::Data: break;
    }
  }

  ProgramParts& parts_;
  std::vector<std::uint32_t> loops_;
};

}  // namespace

std::pair<std::int64_t, std::int64_t> reach_of(const TensorUse& use, const std::vector<std::uint32_t>& extent,
                                               const std::vector<std::uint32_t>& loops) {
  using Wide = __int128;  // products of what a hostile bundle says
  Wide end = Wide{use.offset} + wire::kStickBytes;
  for (std::size_t d = 0; d < extent.size(); ++d) {
    if (!use.present[d]) continue;
    std::int64_t steps = extent[d] / use.split[d];
    const auto lanes = static_cast<std::int64_t>(wire::program::lanes_of(use.format));
    if (d == use.stick) steps = (steps + lanes - 1) / lanes;
    end += Wide{use.stride[d]} * (steps - 1);
  }
  for (std::size_t l = 0; l < loops.size() && l < kMaxLoops; ++l) end += Wide{use.loop_stride[l]} * (loops[l] - 1);
  constexpr Wide kMost = std::int64_t{1} << 56;  // more than any card has
  return {use.offset, static_cast<std::int64_t>(std::clamp<Wide>(end, 0, kMost))};
}

std::uint64_t reach_in_pool(const TensorProgram& program, std::uint64_t begin) {
  std::uint64_t end = 0;
  std::vector<std::uint32_t> loops;
  for (const TensorOp& op : program.operations) {
    if (op.opcode == Opcode::LoopBegin) loops.push_back(op.extent[0]);
    if (op.opcode == Opcode::LoopEnd) loops.pop_back();
    for (const TensorUse& use : op.operands) {
      if (use.base != Base::Pool || use.offset >= static_cast<std::int64_t>(begin)) continue;
      end = std::max(end, static_cast<std::uint64_t>(reach_of(use, op.extent, loops).second));
    }
  }
  return end;
}

std::vector<std::byte> write_program(const TensorProgram& program) {
  ProgramParts parts;
  if (program.arguments > format::kMaxArguments) {
    refuse({.file = kBundleFileName, .line = 0, .path = {}},
           std::to_string(program.arguments) + " tensors, and a launch takes at most " +
               std::to_string(format::kMaxArguments),
           "compile smaller graphs");
  }
  parts.arguments.resize(program.arguments);
  for (std::size_t i = 0; i < program.argument_bytes.size(); ++i) parts.arguments[i].bytes = program.argument_bytes[i];
  parts.data = program.data;
  parts.flags = format::kOneStorage;  // views of one tensor are arguments of their own, and begin where the tensor does
  parts.pool_bytes = wire::align_up(program.pool_bytes, wire::kStickBytes);
  Needs needs(parts);
  for (const TensorOp& op : program.operations) {
    check_counts(op);
    parts.operations.push_back(operation_of(op));
    needs.add(op);
  }
  return assemble(parts);
}

}  // namespace svp::compiler
