// SPDX-License-Identifier: Apache-2.0
// Part of device_program_check.hpp: the rules for an operation of a device program by itself, and for each of its
// operands by itself.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

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

// How often an operation within the loops is executed.
constexpr std::uint64_t iterations(const LoopStack& loops) {
  std::uint64_t product = 1;
  for (unsigned l = 0; l < loops.depth; ++l) product = plus_product(0, product, loops.count[l]);
  return product;
}

namespace detail {

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
constexpr bool is_number(std::uint32_t fp32_bits) { return (fp32_bits & 0x7FFFFFFF) <= 0x7F800000; }

constexpr bool constants_are_good(const Context& c) {
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t constant = c.operation.constant[i];
    if (i >= c.row.constants && constant != 0) return false;
    if (i < c.row.constants && c.operation.opcode == Opcode::Clip && !is_number(constant)) return false;
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
    case Base::Tables: return operand.argument == 0 && role == Role::Table && uses_tables(c.header);
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
    case Base::Tables: return kAllTablesBytes;
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

// In Base::Tables an operation has the table of its own function, for the constants that it names.
constexpr Where check_table(const Context& c, const Operand& operand) {
  if (operand.base != Base::Tables) return Where::Nothing;
  if (operand.offset != table_offset(c.operation.opcode)) return Where::Offset;
  if (c.operation.opcode != Opcode::Softplus) return Where::Nothing;
  const bool has = c.operation.constant[0] == std::bit_cast<std::uint32_t>(kTableBeta) &&
                   c.operation.constant[1] == std::bit_cast<std::uint32_t>(kTableThreshold);
  return has ? Where::Nothing : Where::Constant;
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
  if (const Where where = check_table(c, operand); where != Where::Nothing) return where;
  if (!strides_are_good(operand)) return Where::Stride;
  if (!loop_strides_are_good(c, operand, role)) return Where::LoopStride;
  if (!slices_are_good(c, i)) return Where::Split;
  const Box box = box_of(c.row, c.operation, i);
  if (!is_inside(c, operand, box)) return Where::Bounds;
  if (!access_is_good(c, operand, role)) return Where::Access;
  return !is_output(role) || writes_once(c, i, box) ? Where::Nothing : Where::Stride;
}

}  // namespace detail

}  // namespace wire::program
