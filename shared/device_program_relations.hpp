// SPDX-License-Identifier: Apache-2.0
// Part of device_program_check.hpp: the rules for the operands of one operation beside each other: their dimensions,
// their stick dimensions, and the memory that they share.
#pragma once

#include <bit>
#include <cstdint>

#include "shared/device_program_rules.hpp"

namespace wire::program::detail {

// Both have one stick dimension, or the input is the same for all positions along that of the output.
constexpr bool sticks_match(const Operand& input, const Operand& output) {
  if (input.stick_dim == output.stick_dim) return true;
  return input.stick_dim == kNoDimension && !has_dimension(input.present, output.stick_dim);
}

constexpr Where check_element_wise(const Context& c, unsigned i) {
  const Operand& input = c.operand(i);
  if ((input.present & ~c.output().present & c.wide()) != 0) return Where::Present;
  return sticks_match(input, c.output()) ? Where::Nothing : Where::StickDim;
}

// Copy keeps lanes where they are; this is for all other arrangements, also from and to one element in each stick.
constexpr Where check_relayout(const Context& c) {
  const Operand& input = c.operand(0);
  if (input.stick_dim == c.output().stick_dim) return Where::StickDim;
  return (input.present & ~c.output().present & c.wide()) != 0 ? Where::Present : Where::Nothing;
}

constexpr Where check_stagger(const Context& c) {
  if (c.output().stick_dim == kNoDimension || c.output().stick_dim != c.operand(0).stick_dim) return Where::StickDim;
  if (has_dimension(c.operation.reduced, c.output().stick_dim)) return Where::Reduced;
  return check_element_wise(c, 0);
}

// An index is of whole sticks of the output: it does not change along its stick dimension.
constexpr Where check_indexed(const Context& c, unsigned i) {
  const Operand& input = c.operand(i);
  const Operand& output = c.output();
  if (c.role(i) == Role::Index) {
    const bool scatters = c.role(c.last()) == Role::IndirectOutput;
    if (!scatters && (input.present & ~output.present & c.wide()) != 0) return Where::Present;
    const bool along_stick = output.stick_dim != kNoDimension && has_dimension(input.present, output.stick_dim);
    return along_stick ? Where::StickDim : Where::Nothing;
  }
  const std::uint8_t indexed = c.role(i) == Role::Input ? c.operand(0).present : 0;
  if ((input.present & ~(output.present | indexed) & c.wide()) != 0) return Where::Present;
  return sticks_match(input, output) ? Where::Nothing : Where::StickDim;
}

constexpr Where check_reduction(const Context& c) {
  const Operand& input = c.operand(0);
  const Operand& output = c.output();
  if ((input.present & ~(output.present | c.operation.reduced) & c.wide()) != 0) return Where::Present;
  if (input.stick_dim == output.stick_dim) return Where::Nothing;
  const bool along_stick = input.stick_dim != kNoDimension && has_dimension(c.operation.reduced, input.stick_dim);
  return along_stick && output.stick_dim == kNoDimension ? Where::Nothing : Where::StickDim;
}

// One dimension, of the output only, counts the ranks. An output without it has the first rank.
constexpr Where check_top_k(const Context& c) {
  const Operand& input = c.operand(0);
  const Operand& output = c.output();
  const auto ranks = static_cast<std::uint8_t>(output.present & ~input.present);
  if ((input.present & ~(output.present | c.operation.reduced) & c.wide()) != 0) return Where::Present;
  if (ranks != 0 && !std::has_single_bit(ranks)) return Where::Present;
  const auto searched = static_cast<unsigned>(std::countr_zero(c.operation.reduced));
  if (ranks != 0 && c.operation.extent[std::countr_zero(ranks)] > c.operation.extent[searched]) return Where::Extent;
  if (input.stick_dim == output.stick_dim) return Where::Nothing;
  const bool input_free = input.stick_dim == kNoDimension || input.stick_dim == searched;
  const bool output_free = output.stick_dim == kNoDimension || has_dimension(ranks, output.stick_dim);
  return input_free && output_free ? Where::Nothing : Where::StickDim;
}

constexpr Refusal check_mat_mul(const Context& c, std::uint32_t number) {
  const Operand& left = c.operand(0);
  const Operand& right = c.operand(1);
  const Operand& output = c.output();
  const auto refuse = [&](Where where, std::uint8_t operand) { return Refusal{where, operand, number}; };
  if ((right.present & c.operation.reduced) == 0) return refuse(Where::Reduced, 1);
  const auto around = static_cast<std::uint8_t>(output.present | c.operation.reduced);
  if ((left.present & ~around & c.wide()) != 0) return refuse(Where::Present, 0);
  if ((right.present & ~around & c.wide()) != 0) return refuse(Where::Present, 1);
  if ((output.present & ~(left.present | right.present)) != 0) return refuse(Where::Present, 2);
  if (left.stick_dim == kNoDimension || !has_dimension(c.operation.reduced, left.stick_dim)) {
    return refuse(Where::StickDim, 0);
  }
  if (output.stick_dim == kNoDimension) {
    if (is_weight(c.role(1))) return refuse(Where::StickDim, 2);
    const bool good = right.stick_dim == kNoDimension || has_dimension(c.operation.reduced, right.stick_dim);
    return good ? Refusal{} : refuse(Where::StickDim, 1);
  }
  const bool generated =
      has_dimension(right.present, output.stick_dim) && !has_dimension(left.present, output.stick_dim);
  if (!generated) return refuse(Where::StickDim, 2);
  return right.stick_dim == output.stick_dim ? Refusal{} : refuse(Where::StickDim, 1);
}

constexpr Where check_input(const Context& c, unsigned i) {
  if (c.role(i) == Role::Table) return Where::Nothing;
  switch (c.row.family) {
    case Family::Relayout: return check_relayout(c);
    case Family::Stagger: return check_stagger(c);
    case Family::Indexed: return check_indexed(c, i);
    case Family::Reduction: return check_reduction(c);
    case Family::TopK: return check_top_k(c);
    case Family::Copy:
    case Family::Pointwise:
    case Family::Function:
    case Family::LayerNorm: return check_element_wise(c, i);
    case Family::MatMul:
    case Family::Loop: break;
  }
  return Where::Nothing;
}

// In the same place element for element. What is read there is read before it is written, by the core that writes it.
constexpr bool is_in_place(const Operand& a, const Operand& b) {
  if (a.offset != b.offset || a.stick_dim != b.stick_dim || a.present != b.present) return false;
  if (item_bytes(a.format) != item_bytes(b.format)) return false;
  for (unsigned d = 0; d < kMaxRank; ++d) {
    if (a.stride[d] != b.stride[d] || a.split[d] != b.split[d] || a.split_stride[d] != b.split_stride[d]) return false;
  }
  for (unsigned l = 0; l < kMaxLoops; ++l) {
    if (a.loop_stride[l] != b.loop_stride[l]) return false;
  }
  return true;
}

constexpr bool may_be_in_place(const Context& c, unsigned i) {
  const Family family = c.row.family;
  const bool element_wise = family == Family::Copy || family == Family::Pointwise || family == Family::Function ||
                            family == Family::LayerNorm;
  return element_wise && c.role(i) == Role::Input;
}

// Loops around the operation move both in the same way, or each counts with all of its iterations.
constexpr Box box_beside(const Context& c, unsigned i, bool with_loops) {
  const Operand& operand = c.operand(i);
  Box box = box_of(c.row, c.operation, i);
  for (unsigned l = 0; with_loops && l < c.loops.depth; ++l) box.add(operand.loop_stride[l], c.loops.count[l]);
  if (c.role(i) != Role::Indirect && c.role(i) != Role::IndirectOutput) return box;
  Box all;  // an index may lead anywhere behind the first place
  all.offset = box.offset;
  all.bytes = bytes_of_base(c, operand) - box.offset;
  return all;
}

constexpr bool is_apart_from_output(const Context& c, unsigned i) {
  const Operand& input = c.operand(i);
  const Operand& output = c.output();
  if (input.base != output.base || input.argument != output.argument) return true;
  if (may_be_in_place(c, i) && is_in_place(input, output)) return true;
  if (c.row.family == Family::Indexed && output.base != Base::Argument) return true;
  bool same_loops = true;
  for (unsigned l = 0; l < kMaxLoops; ++l) same_loops = same_loops && input.loop_stride[l] == output.loop_stride[l];
  return are_apart(box_beside(c, i, !same_loops), box_beside(c, c.last(), !same_loops));
}

constexpr Refusal check_operands(const Context& c, std::uint32_t number) {
  const auto refuse = [&](Where where, unsigned i) { return Refusal{where, static_cast<std::uint8_t>(i), number}; };
  for (unsigned i = 0; i <= c.last(); ++i) {
    if (const Where where = check_operand(c, i); where != Where::Nothing) return refuse(where, i);
  }
  if (c.row.family == Family::MatMul) {
    if (const Refusal refusal = check_mat_mul(c, number); !refusal.ok()) return refusal;
  }
  for (unsigned i = 0; i < c.last(); ++i) {
    if (const Where where = check_input(c, i); where != Where::Nothing) return refuse(where, i);
    if (!is_apart_from_output(c, i)) return refuse(Where::Access, i);
  }
  return {};
}

}  // namespace wire::program::detail
