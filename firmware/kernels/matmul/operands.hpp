// SPDX-License-Identifier: Apache-2.0
// Operands of the matrix kernel, brought from sticks of Numbers (numbers.hpp) into integers for one chunk of 64 k: each
// row of A and each column of B in units of its own smallest exponent.
#pragma once

#include <cstdint>

#include "firmware/kernels/matmul/block.hpp"
#include "firmware/kernels/sdk.hpp"
#include "firmware/kernels/vector.hpp"

namespace kernel::matmul {

inline constexpr unsigned kHalves = 2;  // blocks of 32 columns in a stick

// One stick of all bits set in the first `count` lanes: padding is data of nobody and must not take part.
struct alignas(wire::kStickBytes) LaneMask {
  std::uint16_t lane[kLanes];
  void set(std::uint64_t count);
};

// Sixteen rows of A. Rows beyond the tensor are zero.
struct alignas(wire::kStickBytes) RowGroup {
  std::int32_t value[kGroupRows][kChunk];  // in the order that block.hpp wants
  std::int64_t term[kGroupRows];
  std::int32_t exponent[kGroupRows];
  std::uint32_t spread[kGroupRows];
  std::uint32_t largest_spread;

  // Stick i holds 64 k of row i. `nan[i]` is set when row i holds a NaN, otherwise left alone. A row that spreads over
  // more than Spreads::kRow gets all-zero values; its elements then need the slow path.
  template <typename Numbers>
  void load(const void* const (&sticks)[kGroupRows], unsigned rows, const LaneMask& mask, std::uint8_t* nan);

 private:
  template <typename Numbers>
  void load_row(unsigned row, vuint16m1_t stick, std::uint8_t& nan);
  void clear_row(unsigned row);
};

// Where the columns of a stick are in the two halves of a panel, and in the sums: a half has the even columns or the
// odd ones, first every other one of them, then the rest. This is how 64-bit lanes come apart without helpers of the
// emulator.
constexpr unsigned column_of(unsigned half, unsigned place) {
  constexpr unsigned kPlaces = kBlockColumns / 2;
  return place % kPlaces * 4 + place / kPlaces * 2 + half;
}

// Of the groups of rows that a panel is multiplied by: the smallest and the largest of their largest spreads.
struct RowSpreads {
  std::uint32_t smallest;
  std::uint32_t largest;
};

// 64 columns of B: one stick column; everything but `nan` in the order of column_of().
struct alignas(wire::kStickBytes) ColumnPanel {
  std::int64_t wide[kHalves][kChunk][kBlockColumns];  // each with its terms only when some group of rows needs it
  std::int32_t narrow[kHalves][kChunk][kBlockColumns];
  std::int64_t wide_term[kHalves][kBlockColumns];
  std::int32_t narrow_term[kHalves][kBlockColumns];
  std::int32_t exponent[kHalves][kBlockColumns];
  std::uint16_t spread[kHalves][kBlockColumns];
  std::uint32_t largest_spread[kHalves];

  // Stick i holds 64 columns of row i, `depth` rows; what is missing to 64 is zero. `nan` collects columns that hold a
  // NaN, as all bits of a lane.
  template <typename Numbers>
  void load(const void* const (&sticks)[kChunk], unsigned depth, const LaneMask& mask, std::uint16_t* nan,
            const RowSpreads& rows);
  // Exponents and spreads only. Returns the smallest exponent of each column, in the order of the stick.
  template <typename Numbers>
  vuint16m1_t measure(const void* const (&sticks)[kChunk], unsigned depth, const LaneMask& mask, std::uint16_t* nan);

 private:
  void set_exponents(vuint16m1_t low, vuint16m1_t high, std::int32_t unit_product);
  template <typename Numbers, typename Row>
  void load_wide(Row row, vuint16m1_t low);
  template <typename Numbers, typename Row>
  void load_narrow(Row row, vuint16m1_t low);
};

}  // namespace kernel::matmul
