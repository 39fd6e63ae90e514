// SPDX-License-Identifier: Apache-2.0
// Which bytes the operands of a device program's operation reach, in arithmetic that cannot overflow: what
// device_program_check.hpp judges bounds and overlaps with. Of the golden model and of the engine, which address
// elements, this is independent.
#pragma once

#include <cstdint>

#include "shared/device_program_opcodes.hpp"

namespace wire::program {

inline constexpr std::uint64_t kFar = ~std::uint64_t{0};  // a sum that does not fit: beyond every base

constexpr std::uint64_t plus_product(std::uint64_t sum, std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(sum, product, &total)) return kFar;
  return total;
}

constexpr bool has_dimension(std::uint8_t bits, unsigned dimension) { return (bits >> dimension & 1) != 0; }

// How many positions along a dimension share one step of its stride: the lanes of a stick for the stick dimension. A
// stick of fp8 weights holds two positions of the dimension that alternates and 64 of the stick dimension.
constexpr std::uint32_t positions_per_step(const OpcodeRow& row, const Operation& operation, unsigned operand,
                                           unsigned dimension) {
  const Operand& it = operation.operand[operand];
  const bool weight = is_weight(row.role[operand]);
  if (weight && has_dimension(operation.reduced, dimension)) return 2;
  if (it.stick_dim != dimension) return 1;
  return weight ? lanes_of(it.format) / 2 : lanes_of(it.format);
}

// Positions along a dimension in one slice.
constexpr std::uint32_t part_of(const Operation& operation, const Operand& operand, unsigned dimension) {
  const std::uint32_t extent = operation.extent[dimension];
  return operand.split[dimension] == 1 ? extent : extent / operand.split[dimension];  // a division costs more
}

// Sticks at steps of strides from an offset; the largest stride first.
struct Box {
  struct Level {
    std::uint64_t stride;
    std::uint64_t count;
  };
  std::uint64_t offset = 0;
  std::uint64_t bytes = kStickBytes;  // at each place
  unsigned rank = 0;
  Level level[kMaxRank + kMaxLoops];  // [0, rank)

  constexpr void add(std::uint64_t stride, std::uint64_t count) {
    if (stride == 0 || count <= 1) return;
    unsigned at = rank++;
    for (; at > 0 && level[at - 1].stride < stride; --at) level[at] = level[at - 1];
    level[at] = {stride, count};
  }
  // Bytes from the offset to the end of what the levels from `first` on reach.
  constexpr std::uint64_t reach(unsigned first = 0) const {
    std::uint64_t sum = bytes;
    for (unsigned i = first; i < rank; ++i) sum = plus_product(sum, level[i].stride, level[i].count - 1);
    return sum;
  }
  // No place is there twice, because each stride steps over all that smaller ones reach.
  constexpr bool places_differ() const {
    for (unsigned i = 0; i < rank; ++i) {
      if (reach(i + 1) > level[i].stride) return false;
    }
    return true;
  }
};

// True only when no byte is in both. Where ranges overlap, the places are compared modulo the strides, so that two
// blocks of columns or rows of one tensor are found to be apart. Both lie inside of their base.
constexpr bool are_apart(const Box& a, const Box& b) {
  std::uint64_t at = a.offset;
  std::uint64_t bt = b.offset;
  unsigned i = 0;
  unsigned j = 0;
  for (;;) {  // bounded: each iteration steps over a level of a or of b
    if (at + a.reach(i) <= bt || bt + b.reach(j) <= at) return true;
    const std::uint64_t of_a = i < a.rank ? a.level[i].stride : 0;
    const std::uint64_t of_b = j < b.rank ? b.level[j].stride : 0;
    const std::uint64_t stride = of_a > of_b ? of_a : of_b;
    if (stride == 0) return false;
    while (i < a.rank && a.level[i].stride == stride) ++i;
    while (j < b.rank && b.level[j].stride == stride) ++j;
    at %= stride;
    bt %= stride;
    if (at + a.reach(i) > stride || bt + b.reach(j) > stride) return false;
  }
}

// The sticks of an operand in one iteration of the loops around its operation: of a scratchpad, inside of one slice.
constexpr Box box_of(const OpcodeRow& row, const Operation& operation, unsigned operand) {
  const Operand& it = operation.operand[operand];
  Box box;
  box.offset = it.offset;
  if (role_of(row, operation, operand) == Role::Table) box.bytes = kTableBytes;
  for (unsigned d = 0; d < operation.rank && d < kMaxRank; ++d) {
    if (!has_dimension(it.present, d)) continue;
    const std::uint32_t part = part_of(operation, it, d);
    if (part == 1 || it.stride[d] == 0) continue;
    const std::uint32_t per_step = positions_per_step(row, operation, operand, d);
    box.add(it.stride[d], per_step == 1 ? part : (std::uint64_t{part} + per_step - 1) / per_step);
  }
  return box;
}

}  // namespace wire::program
