// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Merits: the words of the lists that TopK keeps (shared/array.hpp, TopKRequest).
#pragma once

#include <cstdint>

#include "shared/dl16.hpp"

namespace wire::array {

// Codes as integers in the order of the numbers: NaN is the largest, -0 equals +0. Never 0.
constexpr std::uint32_t order_of(std::uint16_t code) {
  const std::uint32_t magnitude = code & kDl16MagnitudeBits;
  const std::uint32_t order = (code & kDl16SignBit) != 0 ? 0x8000u - magnitude : 0x8000u + magnitude;
  return magnitude == kDl16Nan ? ~std::uint32_t{0} : order;
}
constexpr std::uint32_t order_of(std::uint32_t code) {
  const std::uint32_t magnitude = code & 0x7FFFFFFFu;
  const std::uint32_t order = (code >> 31) != 0 ? 0x80000000u - magnitude : 0x80000000u + magnitude;
  return magnitude > 0x7F800000u ? ~std::uint32_t{0} : order;
}

// Larger is better: the order of the numbers in the upper half, that of the indices in the lower one.
constexpr std::uint64_t merit(std::uint32_t order, std::uint32_t index) {
  return std::uint64_t{order} << 32 | static_cast<std::uint32_t>(~index);
}
constexpr std::uint32_t index_of_merit(std::uint64_t merit) { return ~static_cast<std::uint32_t>(merit); }
constexpr std::uint32_t order_of_merit(std::uint64_t merit) { return static_cast<std::uint32_t>(merit >> 32); }

}  // namespace wire::array
