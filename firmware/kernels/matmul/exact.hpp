// SPDX-License-Identifier: Apache-2.0
// The slow path of exact sums: of products of DL16 numbers, or of the numbers, for any exponents. Scalar and portable;
// a few hundred nanoseconds under the emulator, taken only where exponents spread too far for integers of one width.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "shared/dl16.hpp"

namespace kernel::matmul {

// The sum as four integers of different weight: sum = Σ bin[i] * 2^(32 i - 80). A product p * 2^(e - 80), |p| < 2^20,
// 0 <= e <= 126, goes into bin e / 32 as p << (e % 32), below 2^51 in magnitude; 64 of them stay below 2^57.
class ExactSum {
 public:
  // Neither may be NaN.
  void add_product(wire::Dl16 a, wire::Dl16 b) {
    const wire::Dl16Parts x = wire::dl16_parts(a);
    const wire::Dl16Parts y = wire::dl16_parts(b);
    const auto exponent = static_cast<unsigned>(x.exponent + y.exponent);
    bin_[exponent / 32] +=
        static_cast<std::int64_t>(x.significand * y.significand) * (std::int64_t{1} << (exponent % 32));
  }

  void add(wire::Dl16 a) { add_product(a, 0x3E00); }  // times 1

  // Rounded once to fp32, nearest, ties to even; an exact zero is +0.
  float to_fp32() const {
    std::uint32_t limb[kLimbs];
    const bool negative = limbs(limb);
    std::size_t top = kLimbs;
    while (top > 0 && limb[top - 1] == 0) --top;
    if (top == 0) return 0.0f;
    // Two limbs hold at least 33 significant bits, nine more than fp32; what lies below only has to be known as "not
    // zero", and the lowest bit can say so. Then one integer conversion does the rounding.
    std::uint64_t window = limb[top - 1];
    std::int32_t weight = static_cast<std::int32_t>(32 * (top - 1));
    if (top > 1) {
      window = window << 32 | limb[top - 2];
      weight -= 32;
    }
    std::uint32_t below = 0;
    for (std::size_t i = 0; i + 2 < top; ++i) below |= limb[i];
    if (below != 0) window |= 1;
    const auto rounded = std::bit_cast<std::uint32_t>(static_cast<float>(window));
    const std::uint32_t weighted = rounded + (static_cast<std::uint32_t>(weight - 80) << 23);
    return std::bit_cast<float>(weighted | (negative ? 0x80000000u : 0u));
  }

  // The same to fp64.
  double to_fp64() const {
    std::uint32_t limb[kLimbs];
    const bool negative = limbs(limb);
    std::size_t top = kLimbs;
    while (top > 0 && limb[top - 1] == 0) --top;
    if (top == 0) return 0.0;
    // The 64 bits from the highest set one down, and whether anything lies below.
    const auto at = [&](std::size_t i) { return top > i ? std::uint64_t{limb[top - 1 - i]} : 0; };
    const int zeros = std::countl_zero(limb[top - 1]);
    std::uint64_t window = (at(0) << 32 | at(1)) << zeros;
    std::uint32_t below = 0;
    if (zeros > 0) window |= at(2) >> (32 - zeros);
    below = static_cast<std::uint32_t>(at(2) << zeros);
    for (std::size_t i = 3; i < top; ++i) below |= limb[top - 1 - i];
    if (below != 0) window |= 1;
    const auto weight = static_cast<std::int32_t>(32 * top) - 64 - zeros;
    const auto rounded = std::bit_cast<std::uint64_t>(static_cast<double>(window));
    const std::uint64_t weighted = rounded + (static_cast<std::uint64_t>(weight - 80) << 52);
    return std::bit_cast<double>(weighted | (negative ? std::uint64_t{1} << 63 : 0));
  }

 private:
  static constexpr std::size_t kBins = 4;
  static constexpr std::size_t kLimbs = 6;

  // The magnitude as 32-bit digits, lowest first; true when the sum is negative.
  bool limbs(std::uint32_t (&limb)[kLimbs]) const {
    std::int64_t carry = 0;
    for (std::size_t i = 0; i < kLimbs; ++i) {
      carry += i < kBins ? bin_[i] : 0;
      limb[i] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry == 0) return false;
    std::uint64_t borrow = 1;  // two's complement: invert and add one
    for (std::uint32_t& digit : limb) {
      borrow += static_cast<std::uint32_t>(~digit);
      digit = static_cast<std::uint32_t>(borrow);
      borrow >>= 32;
    }
    return true;
  }

  std::int64_t bin_[kBins] = {};
};

}  // namespace kernel::matmul
