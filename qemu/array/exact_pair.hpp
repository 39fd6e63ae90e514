// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Two doubles whose exact sum is wanted in fp32.
#pragma once

#include <bit>
#include <cstdint>

namespace svp::array {

// The exact sum, rounded once. An odd last bit stands for what a double has no place for, so that only fp32 rounds.
inline float rounded_once(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  const double rest = (a - (sum - of_b)) + (b - of_b);
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if (rest != 0 && (bits & 1) == 0) bits += (rest > 0) == (sum > 0) ? 1 : ~std::uint64_t{0};
  return static_cast<float>(std::bit_cast<double>(bits));
}

}  // namespace svp::array
