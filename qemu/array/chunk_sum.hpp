// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// The sum of products of DL16 numbers, exactly, for chunks whose exponents lie too far apart for a double.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shared/dl16.hpp"

namespace svp::array {

class ExactProducts {
 public:
  void add(wire::Dl16 a, wire::Dl16 b) {
    const wire::Dl16Parts x = wire::dl16_parts(a);
    const wire::Dl16Parts y = wire::dl16_parts(b);
    of_exponent_[static_cast<unsigned>(x.exponent + y.exponent)] += std::int64_t{x.significand} * y.significand;
  }

  // Rounded once, nearest even.
  float rounded() const {
    // From the smallest exponent up: what a place has beyond 24 bits goes to the one 24 above, and a rest stays.
    std::array<std::int64_t, kPlaces> digit{};
    std::array<std::int64_t, kPlaces + 1> sum{};
    for (unsigned e = 0; e < of_exponent_.size(); ++e) {
      const unsigned place = e / kDigitBits;
      const std::int64_t value = of_exponent_[e] << e % kDigitBits;  // at most 26 bits and 23
      sum[place] += value & kDigitMask;
      sum[place + 1] += value >> kDigitBits;
    }
    for (unsigned i = 0; i < kPlaces; ++i) {
      digit[i] = sum[i] & kDigitMask;
      sum[i + 1] += sum[i] >> kDigitBits;
    }
    const bool negative = sum[kPlaces] < 0;
    if (negative) negate(digit);
    return scaled(digit, negative);
  }

 private:
  static constexpr unsigned kExponents = 127;  // 0 to 126
  static constexpr unsigned kDigitBits = 24;
  static constexpr std::int64_t kDigitMask = (1 << kDigitBits) - 1;
  static constexpr unsigned kPlaces = 8;  // 192 bits: 126 + 20 + 6, and a sign

  static void negate(std::array<std::int64_t, kPlaces>& digit) {
    std::int64_t carry = 1;
    for (std::int64_t& d : digit) {
      d = (~d & kDigitMask) + carry;
      carry = d >> kDigitBits;
      d &= kDigitMask;
    }
  }

  // The upper three digits hold 49 bits or more; all below is one bit that is set when any of them is.
  static float scaled(const std::array<std::int64_t, kPlaces>& digit, bool negative) {
    int top = kPlaces - 1;
    while (top > 0 && digit[static_cast<unsigned>(top)] == 0) --top;
    std::int64_t upper = 0;
    for (int i = top; i > top - 2; --i) upper = upper << kDigitBits | (i >= 0 ? digit[static_cast<unsigned>(i)] : 0);
    bool rest = false;
    for (int i = top - 2; i >= 0; --i) rest = rest || digit[static_cast<unsigned>(i)] != 0;
    // 48 bits and a sticky one are exact in a double; so is the power of two, and the conversion rounds once.
    const double value = static_cast<double>(upper << 1 | static_cast<std::int64_t>(rest));
    const int exponent = (top - 1) * static_cast<int>(kDigitBits) - 1 + 2 * wire::kDl16UnitExponent;
    const double scale = std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
    const auto rounded = static_cast<float>(value * scale);
    return negative ? -rounded : rounded;
  }

  std::array<std::int64_t, kExponents> of_exponent_{};
};

// Of a row's stick and lane `lane` of the panel's sticks.
inline float exact_sum(unsigned depth, const std::byte* row, const std::byte* const* panel, unsigned lane) {
  const auto code_at = [](const std::byte* stick, unsigned at) {
    wire::Dl16 code = 0;
    std::memcpy(&code, stick + at * sizeof code, sizeof code);
    return code;
  };
  ExactProducts sum;
  for (unsigned k = 0; k < depth; ++k) sum.add(code_at(row, k), code_at(panel[k], lane));
  return sum.rounded();
}

}  // namespace svp::array
