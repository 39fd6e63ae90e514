// SPDX-License-Identifier: Apache-2.0
// Judges a device program: every field of it. What it accepts stays inside of its bases, ends, and gives results that
// do not depend on the number of cores. Three things it cannot see:
//  * arguments that overlap each other: whoever launches the program judges them;
//  * the values of index operands: the engine refuses a value that leads outside, when it meets it (Where::Bounds);
//  * an index that leads a Gather or Scatter in the pool or in a scratchpad to the operation's other operands. The result
//    is then undefined; it stays inside of the program's memory.
//
// Where several things are wrong, the refusal names one of them. The rules are listed in docs/device-programs.md.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "shared/crc32c.hpp"
#include "shared/device_program.hpp"
#include "shared/device_program_opcodes.hpp"
#include "shared/device_program_places.hpp"
#include "shared/dl16.hpp"

namespace wire::program {

// How often operations are executed, loops counted: a program that passes ends after so many. A loop's beginning and
// its end count as one each time.
inline constexpr std::uint64_t kMaxExecutedOperations = std::uint64_t{1} << 22;
// The product of the extents of an operation.
inline constexpr std::uint64_t kMaxPositions = std::uint64_t{1} << 48;
inline constexpr std::uint64_t kMaxArgumentBytes = 16 * kGiB;  // all of a region's window

// The loops around an operation. Begin with an empty one, hand it to check_operation() for all operations in order.
struct LoopStack {
  unsigned depth = 0;
  std::uint32_t count[kMaxLoops]{};
  std::uint64_t executed = 0;
};

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

// In words where there are some: this is a good part of what the check of an operation costs.
template <typename T>
constexpr bool all_zero(const T& value) {
  using Word = std::conditional_t<sizeof(T) % 8 == 0, std::uint64_t, std::uint8_t>;
  struct Words {
    Word of[sizeof(T) / sizeof(Word)];
  };
  const auto words = std::bit_cast<Words>(value);
  Word any = 0;
  for (const Word word : words.of) any |= word;
  return any == 0;
}

// What every rule of an operation looks at.
struct Context {
  const Header& header;
  std::span<const Argument> arguments;
  const Operation& operation;
  const OpcodeRow& row;
  const LoopStack& loops;

  constexpr const Operand& operand(unsigned i) const { return operation.operand[i]; }
  constexpr unsigned last() const { return operation.operand_count - 1u; }
  constexpr const Operand& output() const { return operation.operand[last()]; }
  constexpr Role role(unsigned i) const { return role_of(row, operation, i); }
  // Dimensions along which there is more than one position.
  constexpr std::uint8_t wide() const {
    std::uint8_t bits = 0;
    for (unsigned d = 0; d < operation.rank; ++d) bits |= static_cast<std::uint8_t>((operation.extent[d] > 1) << d);
    return bits;
  }
};

// ---- the operation itself -------------------------------------------------------------------------------------------

constexpr bool rank_is_good(const Context& c) {
  if (c.operation.opcode == Opcode::LoopBegin) return c.operation.rank == 1;
  if (c.operation.opcode == Opcode::LoopEnd) return c.operation.rank == 0;
  return c.operation.rank >= 1 && c.operation.rank <= kMaxRank;
}

constexpr bool extents_are_good(const Operation& operation) {
  std::uint64_t positions = 1;
  for (unsigned d = 0; d < kMaxRank; ++d) {
    if ((operation.extent[d] != 0) != (d < operation.rank)) return false;
    if (d < operation.rank) positions = plus_product(0, positions, operation.extent[d]);
    if (positions > kMaxPositions) return false;
  }
  return true;
}

constexpr bool reduced_is_good(const Context& c) {
  const std::uint8_t reduced = c.operation.reduced;
  if (c.row.reduces == Reduces::Nothing) return reduced == 0;
  if (!std::has_single_bit(reduced) || reduced >> c.operation.rank != 0) return false;
  const bool in_output = (c.output().present & reduced) != 0;
  return (c.operand(0).present & reduced) != 0 && in_output == (c.row.reduces == Reduces::Alternate);
}

// The end of the positions that a mask may name along a dimension: pad lanes of operands included.
constexpr std::uint64_t end_of_lanes(const Context& c, unsigned dimension) {
  std::uint64_t end = c.operation.extent[dimension];
  for (unsigned i = 0; i <= c.last(); ++i) {
    if (c.operand(i).stick_dim != dimension) continue;
    const std::uint64_t padded = align_up<std::uint64_t>(c.operation.extent[dimension], lanes_of(c.operand(i).format));
    end = padded > end ? padded : end;
  }
  return end;
}

constexpr bool mask_is_good(const Context& c, const Mask& mask) {
  if (mask.dimension >= c.operation.rank || mask.count == 0) return false;
  const std::uint8_t allowed = c.row.masks == Masks::Reduced ? c.operation.reduced : c.output().present;
  return has_dimension(allowed, mask.dimension) &&
         std::uint64_t{mask.start} + mask.count <= end_of_lanes(c, mask.dimension);
}

constexpr bool masks_are_good(const Context& c) {
  const Operation& operation = c.operation;
  if (operation.mask_count > (c.row.masks == Masks::None ? 0 : kMaxMasks)) return false;
  for (unsigned i = 0; i < kMaxMasks; ++i) {
    const Mask& mask = operation.mask[i];
    if (i < operation.mask_count ? !mask_is_good(c, mask) : (mask.dimension | mask.start | mask.count) != 0)
      return false;
  }
  const bool has_value = operation.mask_count != 0 && c.row.masks == Masks::Elements;
  return has_value || operation.mask_value == 0;
}

// A bound of Clip that is not a number in the operands' format would make every result one.
constexpr bool is_number(std::uint32_t fp32_bits, Format format) {
  if (format == Format::Dl16) return !dl16_is_nan(dl16_from_fp32_bits(fp32_bits));
  return (fp32_bits & 0x7FFFFFFF) <= 0x7F800000;
}

constexpr bool constants_are_good(const Context& c) {
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t constant = c.operation.constant[i];
    if (i >= c.row.constants && constant != 0) return false;
    if (i < c.row.constants && c.operation.opcode == Opcode::Clip && !is_number(constant, c.operand(0).format))
      return false;
  }
  return true;
}

constexpr bool page_is_good(const Context& c) {
  if (c.row.family != Family::Indexed) return c.operation.page == 0;
  return c.operation.page != 0 && is_aligned(c.operation.page, kStickBytes);
}

constexpr Where check_fields(const Context& c) {
  if (!rank_is_good(c)) return Where::Rank;
  if (c.operation.operand_count != operand_count(c.row, c.operation)) return Where::OperandCount;
  if (!extents_are_good(c.operation)) return Where::Extent;
  if (c.operation.reserved0 != 0 || !all_zero(c.operation.reserved)) return Where::Reserved;
  if (!page_is_good(c)) return Where::Page;
  if (!constants_are_good(c)) return Where::Constant;
  if (c.row.family == Family::Loop) {
    return c.operation.reduced != 0 ? Where::Reduced : masks_are_good(c) ? Where::Nothing : Where::Mask;
  }
  if (!reduced_is_good(c)) return Where::Reduced;
  return Where::Nothing;
}

// ---- an operand by itself -------------------------------------------------------------------------------------------

constexpr bool base_is_good(const Context& c, const Operand& operand, Role role) {
  switch (operand.base) {
    case Base::Argument: return operand.argument < c.arguments.size() && role != Role::Table;
    case Base::Data: return operand.argument == 0 && !is_output(role);
    case Base::Pool:
    case Base::Scratchpad: return operand.argument == 0 && role != Role::Table;
    case Base::None: break;
  }
  return false;
}

constexpr std::uint64_t bytes_of_base(const Context& c, const Operand& operand) {
  switch (operand.base) {
    case Base::Argument: return c.arguments[operand.argument].bytes;
    case Base::Data: return c.header.data_bytes;
    case Base::Pool: return c.header.pool_bytes;
    case Base::Scratchpad: return c.header.scratchpad_bytes;
    case Base::None: break;
  }
  return 0;
}

constexpr bool format_is_good(const Context& c, unsigned i) {
  const Format format = c.operand(i).format;
  const Role role = c.role(i);
  if (role == Role::Index) return has_format(kIndexFormats, format);
  if (role == Role::Table) return format == Format::Dl16;
  if (!has_format(is_output(role) ? c.row.output : c.row.inputs, format)) return false;
  const Format first = c.operand(c.role(0) == Role::Index ? 1 : 0).format;
  if (c.row.rule == FormatRule::Same) return format == first;
  return c.row.rule != FormatRule::SameSize || item_bytes(format) == item_bytes(first);
}

constexpr bool stick_dim_is_good(const Context& c, const Operand& operand, Role role) {
  if (operand.stick_dim == kNoDimension) return true;
  if (role == Role::Pair || role == Role::PairOutput || role == Role::Table) return false;
  return operand.stick_dim < c.operation.rank && has_dimension(operand.present, operand.stick_dim);
}

constexpr bool present_is_good(const Context& c, const Operand& operand, Role role) {
  return role == Role::Table ? operand.present == 0 : operand.present >> c.operation.rank == 0;
}

constexpr bool strides_are_good(const Operand& operand) {
  for (unsigned d = 0; d < kMaxRank; ++d) {
    if (!is_aligned(operand.stride[d], kStickBytes)) return false;
    if (operand.stride[d] != 0 && !has_dimension(operand.present, d)) return false;
  }
  return true;
}

constexpr bool loop_strides_are_good(const Context& c, const Operand& operand, Role role) {
  for (unsigned l = 0; l < kMaxLoops; ++l) {
    if (!is_aligned(operand.loop_stride[l], kStickBytes)) return false;
    if (operand.loop_stride[l] != 0 && (l >= c.loops.depth || role == Role::Table)) return false;
  }
  return true;
}

// Dimension d of an operand in a scratchpad. Parts are whole sticks of the operand, and of the output: a stick of the
// output, with its pad lanes, has its inputs in one part. Beyond the rank there is nothing to split: 0 or 1.
constexpr bool split_is_good(const Context& c, unsigned i, unsigned d) {
  const Operand& operand = c.operand(i);
  const unsigned parts = operand.split[d];
  if (d >= c.operation.rank) return parts <= 1 && operand.split_stride[d] == 0;
  if (parts == 0 || (parts > 1) != (operand.split_stride[d] != 0)) return false;
  if (parts == 1) return true;
  if (operand.base != Base::Scratchpad || c.operation.extent[d] % parts != 0) return false;
  const std::uint32_t part = c.operation.extent[d] / parts;
  return part % positions_per_step(c.row, c.operation, i, d) == 0 &&
         part % positions_per_step(c.row, c.operation, c.last(), d) == 0;
}

// True of most operands: one part along every dimension, in slice 0.
constexpr bool is_not_split(const Operand& operand, unsigned rank) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  const auto parts = std::bit_cast<std::uint64_t>(operand.split);
  const std::uint64_t inside = rank == kMaxRank ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * rank) - 1;
  return std::bit_cast<std::uint64_t>(operand.split_stride) == 0 && (parts & ~kOnes) == 0 &&
         (parts & inside) == (kOnes & inside);
}

// The slices of the parts: they exist, and those of an output differ.
constexpr bool slices_are_good(const Context& c, unsigned i) {
  const Operand& operand = c.operand(i);
  if (is_not_split(operand, c.operation.rank)) return operand.base != Base::Scratchpad || c.header.slices != 0;
  Box slices;
  slices.bytes = 1;
  for (unsigned d = 0; d < c.operation.rank; ++d) {
    if (!split_is_good(c, i, d)) return false;
    slices.add(operand.split_stride[d], operand.split[d]);
  }
  for (unsigned d = c.operation.rank; d < kMaxRank; ++d) {
    if (!split_is_good(c, i, d)) return false;
  }
  if (operand.base == Base::Scratchpad && slices.reach() > c.header.slices) return false;
  return !is_output(c.role(i)) || slices.places_differ();
}

constexpr bool is_inside(const Context& c, const Operand& operand, const Box& box) {
  std::uint64_t end = plus_product(box.reach(), operand.offset, 1);
  for (unsigned l = 0; l < c.loops.depth; ++l) end = plus_product(end, operand.loop_stride[l], c.loops.count[l] - 1);
  return end <= bytes_of_base(c, operand);
}

constexpr bool access_is_good(const Context& c, const Operand& operand, Role role) {
  if (operand.base != Base::Argument) return true;
  const auto access = static_cast<std::uint32_t>(c.arguments[operand.argument].access);
  return (access & static_cast<std::uint32_t>(is_output(role) ? Access::Write : Access::Read)) != 0;
}

// No element of an output is written twice by one operation: dimensions step over each other.
constexpr bool writes_once(const Context& c, unsigned i, const Box& box) {
  const Operand& operand = c.operand(i);
  for (unsigned d = 0; d < c.operation.rank; ++d) {
    const std::uint32_t part = part_of(c.operation, operand, d);
    const bool steps = has_dimension(operand.present, d) && part > positions_per_step(c.row, c.operation, i, d);
    if (steps && operand.stride[d] == 0) return false;
  }
  return box.places_differ();
}

constexpr Where check_operand(const Context& c, unsigned i) {
  const Operand& operand = c.operand(i);
  const Role role = c.role(i);
  if (!base_is_good(c, operand, role)) return Where::Base;
  if (!format_is_good(c, i)) return Where::Format;
  if (!present_is_good(c, operand, role)) return Where::Present;
  if (!stick_dim_is_good(c, operand, role)) return Where::StickDim;
  if (!all_zero(operand.reserved)) return Where::Reserved;
  if (!is_aligned(operand.offset, kStickBytes)) return Where::Offset;
  if (!strides_are_good(operand)) return Where::Stride;
  if (!loop_strides_are_good(c, operand, role)) return Where::LoopStride;
  if (!slices_are_good(c, i)) return Where::Split;
  const Box box = box_of(c.row, c.operation, i);
  if (!is_inside(c, operand, box)) return Where::Bounds;
  if (!access_is_good(c, operand, role)) return Where::Access;
  return !is_output(role) || writes_once(c, i, box) ? Where::Nothing : Where::Stride;
}

// ---- operands of one operation beside each other --------------------------------------------------------------------

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

// ---- loops ----------------------------------------------------------------------------------------------------------

constexpr std::uint64_t iterations(const LoopStack& loops) {
  std::uint64_t product = 1;
  for (unsigned l = 0; l < loops.depth; ++l) product = plus_product(0, product, loops.count[l]);
  return product;
}

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
