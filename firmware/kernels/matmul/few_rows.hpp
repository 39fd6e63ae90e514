// SPDX-License-Identifier: Apache-2.0
// Products of few rows of A: a stick of B is used where it is loaded, for all rows at once. What the integers of a
// panel of B and of a group of sixteen rows cost (operands.hpp) would be shared by too few rows.
#pragma once

#include <cstdint>

#include "firmware/kernels/matmul/operands.hpp"

namespace kernel::matmul {

// One chunk of 64 k of some rows of A, each in units of its own smallest exponent.
struct FewRows {
  static constexpr unsigned kRows = 4;  // their sums stay in registers

  std::int64_t value[kChunk][kRows];
  std::int32_t exponent[kRows];  // in the place of an fp32 exponent
  std::uint32_t spread[kRows];
  std::uint32_t largest_spread;
  unsigned count;

  void clear();
  // The next row: a stick of which `depth` elements count. `nan` is set when one of them is NaN, otherwise left alone.
  template <typename Numbers>
  void add(const void* stick, unsigned depth, std::uint8_t& nan);

  // Adds the products with 64 columns of B to the sums of each half, [row][column]. Exact where the spreads of row and
  // column do not exceed Spreads::kWide together; otherwise that element gets an unspecified value, its neighbours are
  // not touched. `columns` and `low` are what ColumnPanel::measure() found.
  template <typename Numbers>
  void multiply(const void* const (&sticks)[kChunk], unsigned depth, const ColumnPanel& columns, vuint16m1_t low,
                float (*sums0)[kBlockColumns], float (*sums1)[kBlockColumns]) const;
};

}  // namespace kernel::matmul
