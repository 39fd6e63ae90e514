// SPDX-License-Identifier: Apache-2.0
// How the numbers of a chunk are laid out and measured, for all that multiplies chunks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shared/array.hpp"
#include "shared/dl16.hpp"

namespace svp::array {

inline constexpr unsigned kChunkLanes = wire::kStickBytes / 2;
inline constexpr unsigned kHalf = kChunkLanes / 2;

// Of a place among the sums of a row, halves one behind the other; and the other way round.
constexpr unsigned lane_of(unsigned place) { return wire::array::lane_of_sum(place / kHalf, place % kHalf); }
constexpr unsigned place_of(unsigned lane) { return lane % 2 * kHalf + lane / 2 % 2 * (kHalf / 2) + lane / 4; }
static_assert(lane_of(place_of(0)) == 0 && lane_of(place_of(27)) == 27 && lane_of(place_of(63)) == 63);

// Exponents of the numbers that are not zero.
struct Spread {
  std::uint16_t below_smallest = 0xFFFF;  // magnitude less one
  std::uint16_t largest = 0;

  unsigned binades() const { return largest == 0 ? 0 : (largest >> 9) - ((below_smallest + 1u) >> 9); }
};

// Rows and columns whose numbers spread over no more binades together have sums that a double holds: its bits, without
// those of a product and of 64 of them.
inline constexpr unsigned kExactBinades = 53 - 20 - 6;

}  // namespace svp::array
