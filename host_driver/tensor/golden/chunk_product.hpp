// SPDX-License-Identifier: Apache-2.0
// The quick exact way through one 64-deep chunk of the golden matrix product: integers kept in doubles.
//
// Within a chunk each row of A and each column of B gets its own unit, the weight of its smallest exponent; every
// element is then an integer |x| <= 1023 * 2^spread, where spread is the distance between the largest and the
// smallest exponent. All partial sums of 64 products are integers below 64 * 1023^2 * 2^(spread A + spread B), so
// while the two spreads together are at most kExactSpread they stay below 2^53: doubles hold them exactly, in any
// order of addition, with or without fused multiply-add. Units are powers of two; multiplying by them is exact
// (2^-80 … 2^72 is far inside the range), so the one rounding is the conversion to fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace svp::golden {

inline constexpr std::size_t kChunk = 64;
inline constexpr std::size_t kBlockColumns = 64;
inline constexpr int kExactSpread = 53 - 26;

// 64 elements of one row of A. NaN counts as zero here; the caller knows where the NaNs are.
struct ChunkStrip {
  void load(std::span<const std::uint16_t> elements);
  alignas(64) double value[kChunk];
  double unit;
  int spread;
};

// 64 rows of up to 64 columns of B; missing rows and columns are zero.
struct ChunkPanel {
  void load(std::span<const std::uint16_t> b, std::size_t row_length, std::size_t first_column, std::size_t columns,
            std::size_t first_row, std::size_t end_row);
  alignas(64) double value[kChunk][kBlockColumns];
  alignas(64) double unit[kBlockColumns];
  int spread[kBlockColumns];
  int largest_spread;
};

// sums[j] = fp32(sums[j] + fp32(exact dot product of strip and column j)), for all kBlockColumns columns. Columns
// beyond the exact bound get an unspecified finite value.
void accumulate_chunk(const ChunkStrip& strip, const ChunkPanel& panel, float* sums);

}  // namespace svp::golden
