// SPDX-License-Identifier: Apache-2.0
// A sum of products of DL16 numbers without any rounding.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "shared/dl16.hpp"

namespace svp::golden {

// Fixed point in units of 2^-80 (the product of two significand units at exponent 0). A product is
// |p| < 2^20 shifted left by 0 … 126, so it is kept in one of two 128-bit integers, value = high * 2^64 + low:
// a shift below 64 goes to low (|p << 63| < 2^83), the others to high (|p << 62| < 2^82). 2^40 terms fit; a chunk has
// 64.
class WideSum {
 public:
  void add_product(wire::Dl16 a, wire::Dl16 b) {
    const wire::Dl16Parts x = wire::dl16_parts(a);
    const wire::Dl16Parts y = wire::dl16_parts(b);
    const Int128 product = Int128{x.significand} * y.significand;
    const int shift = x.exponent + y.exponent;
    if (shift < 64) {
      low_ += product * (Int128{1} << shift);
    } else {
      high_ += product * (Int128{1} << (shift - 64));
    }
  }

  float to_fp32() const { return to<float>(); }

  // The sum rounded once to fp32 or fp64, nearest, ties to even; +0 for zero. Never subnormal: the unit is 2^-80.
  template <typename Real>
  Real to() const {
    // Carry low's upper half into high; then the value is high:low as one 192-bit number, high with the sign.
    Int128 high = high_ + (low_ >> 64);
    auto low = static_cast<std::uint64_t>(low_);
    const bool negative = high < 0;
    if (negative) {
      low = ~low + 1;
      high = ~high + (low == 0 ? 1 : 0);
    }
    const auto upper = static_cast<std::uint64_t>(static_cast<UInt128>(high) >> 64);
    const auto middle = static_cast<std::uint64_t>(high);
    Real magnitude = 0;
    if (upper != 0) {
      magnitude = round<Real>(upper, middle, low != 0, 128 - 80);
    } else if (middle != 0) {
      magnitude = round<Real>(middle, low, false, 64 - 80);
    } else if (low != 0) {
      magnitude = round<Real>(low, 0, false, -80);
    }
    return negative ? -magnitude : magnitude;
  }

 private:
  __extension__ using Int128 = __int128;
  __extension__ using UInt128 = unsigned __int128;

  // (first + next * 2^-64 + something below if `more`) * 2^exponent, first != 0.
  template <typename Real>
  static Real round(std::uint64_t first, std::uint64_t next, bool more, int exponent) {
    constexpr int kDropped = 64 - std::numeric_limits<Real>::digits;
    const int zeros = std::countl_zero(first);
    std::uint64_t bits = first << zeros;
    if (zeros > 0) bits |= next >> (64 - zeros);
    const std::uint64_t lost = zeros > 0 ? next << zeros : next;
    std::uint64_t kept = bits >> kDropped;  // as many bits as the result has, the top one set
    const std::uint64_t rest = bits & ((std::uint64_t{1} << kDropped) - 1);
    const std::uint64_t half = std::uint64_t{1} << (kDropped - 1);
    const bool sticky = lost != 0 || more;
    if (rest > half || (rest == half && (sticky || (kept & 1) != 0))) ++kept;
    return std::ldexp(static_cast<Real>(kept), exponent + kDropped - zeros);
  }

  Int128 low_ = 0;
  Int128 high_ = 0;
};

}  // namespace svp::golden
