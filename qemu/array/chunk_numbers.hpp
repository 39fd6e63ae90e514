// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// How the numbers of a chunk are laid out and measured, for all that multiplies chunks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shared/array.hpp"
#include "shared/dl16.hpp"

namespace svp::array {

inline constexpr unsigned kChunkLanes = wire::kStickBytes / 2;
inline constexpr unsigned kHalf = kChunkLanes / 2;

// Exponents of the numbers that are not zero.
struct Spread {
  std::uint16_t below_smallest = 0xFFFF;  // magnitude less one
  std::uint16_t largest = 0;

  void include(wire::Dl16 code) {
    const auto magnitude = static_cast<std::uint16_t>(code & wire::kDl16MagnitudeBits);
    below_smallest = std::min(below_smallest, static_cast<std::uint16_t>(magnitude - 1));
    largest = std::max(largest, magnitude);
  }
  unsigned binades() const {
    constexpr int kShift = wire::kDl16FractionBits;
    return largest == 0 ? 0 : (largest >> kShift) - ((below_smallest + 1u) >> kShift);
  }
};

// Rows and columns whose numbers spread over no more binades together have sums that a double holds: its bits, without
// those of a product and of 64 of them.
inline constexpr unsigned kExactBinades = 53 - 20 - 6;

}  // namespace svp::array
