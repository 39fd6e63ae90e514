// SPDX-License-Identifier: Apache-2.0
// The inner part of the matrix kernel (block.S): a block of rows of A times 32 columns of B over one chunk of 64 k.
#pragma once

#include <cstdint>

namespace kernel::matmul {

inline constexpr unsigned kChunk = 64;         // k of one stick: summed exactly, rounded once
inline constexpr unsigned kGroupRows = 16;     // rows of A prepared together
inline constexpr unsigned kWideRows = 8;       // rows of one call of the wide block
inline constexpr unsigned kBlockColumns = 32;  // columns of one block: half a stick

// A: [row][even k 0, 2, …, 62, odd k 1, 3, …, 63] integers in units of the row.
// B: [k in the order 0 … 63][column] integers in units of the column.
// Sums: [row][column] fp32, each gets one fp32 addition.
// Row and column terms: minus the sum over all pairs of k of the product of the pair's two elements, modulo 2^64 or
// 2^32; the block computes with them instead of with half of its multiplications.
// Exponents are in the place of an fp32 exponent (shifted left by 23); row plus column gives the weight of a sum of
// products of units.
//
// Both compute modulo 2^64 or 2^32 and are exact where the true sum fits (Spreads in
// numbers.hpp). Where it does not, that one element of the sums gets an unspecified value; its neighbours are not
// touched.
extern "C" void matmul_block_wide(const std::int32_t (*a)[kChunk], const std::int64_t (*b)[kBlockColumns],
                                  float (*sums)[kBlockColumns], const std::int32_t* row_exponents,
                                  const std::int32_t* column_exponents, const std::int64_t* row_terms,
                                  const std::int64_t* column_terms);  // 8 rows
extern "C" void matmul_block_narrow(const std::int32_t (*a)[kChunk], const std::int32_t (*b)[kBlockColumns],
                                    float (*sums)[kBlockColumns], const std::int32_t* row_exponents,
                                    const std::int32_t* column_exponents, const std::int64_t* row_terms,
                                    const std::int32_t* column_terms);  // 16 rows

}  // namespace kernel::matmul
