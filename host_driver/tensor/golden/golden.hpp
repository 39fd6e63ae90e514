// SPDX-License-Identifier: Apache-2.0
// The golden model: what a DL16 kernel must compute, bit for bit, on plain row-major host arrays of DL16 patterns.
// It shares no code with the kernels. Sizes are in elements; nothing is kept; every function may run on any thread.
//
// Matrix product, C[m,n] = A[m,k] * B[k,n]:
//  1. K is cut into chunks of 64 (one stick); the last one may be shorter.
//  2. The products of a chunk are summed exactly, and the sum is rounded once to fp32 (nearest, ties to even).
//  3. The chunk sums are added in fp32 (nearest, ties to even) in ascending order, beginning with chunk 0.
//  4. The result is rounded once to DL16 (nearest, ties away from zero; see shared/dl16.hpp).
//  5. A NaN or an infinity anywhere in row i of A or in column j of B makes C[i,j] NaN (0x7FFE), whatever else they hold.
// What follows from it: a zero, of either sign, contributes nothing. An exact zero is +0; a negative value too small
// for DL16 becomes 0x8000, a positive one 0x0000. Nothing overflows before step 4 (a chunk sum is below 2^72, every
// non-zero one at least 2^-80, so fp32 neither overflows for K < 2^60 nor goes subnormal); a finite value beyond
// DL16 becomes 0x7FFF or 0xFFFF with its sign.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace svp::golden {

// Throw InvalidArgument (host_driver/base/error.hpp) when a span does not have exactly the elements that its shape
// needs. About a second for 4096 x 1024 x 1024 on one x86 core; slower in chunks whose exponents spread over 27
// binades.
void matmul_dl16(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b, std::span<std::uint16_t> c,
                 std::size_t m, std::size_t n, std::size_t k);

// The same function by wide integers only: slow (64 wide additions for each chunk and element), with nothing to
// prove. The two are held against each other by tests.
void matmul_dl16_wide(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b, std::span<std::uint16_t> c,
                      std::size_t m, std::size_t n, std::size_t k);

// C = A + B by element: the fp32 sum of the decoded operands, rounded once more to DL16; NaN is 0x7FFE.
// (-0) + (-0) is -0, any other exact zero is +0. All three spans have the same size.
void add_dl16(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b, std::span<std::uint16_t> c);

}  // namespace svp::golden
