// SPDX-License-Identifier: Apache-2.0
// What Exx2 leaves in a stick for LayerNormScale and LayerNormNorm: mean and mean square as fp64, then zeros.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shared/units.hpp"

namespace svp::program::golden {

struct Pair {
  double m;
  double q;
};

inline std::array<std::byte, wire::kStickBytes> to_stick(const Pair& pair) {
  constexpr std::uint64_t kNan = 0x7FF8000000000000;  // whichever NaN an operation made
  std::array<std::byte, wire::kStickBytes> stick{};
  const std::uint64_t bits[] = {std::isnan(pair.m) ? kNan : std::bit_cast<std::uint64_t>(pair.m),
                                std::isnan(pair.q) ? kNan : std::bit_cast<std::uint64_t>(pair.q)};
  std::memcpy(stick.data(), bits, sizeof bits);
  return stick;
}

inline Pair from_stick(const std::array<std::byte, wire::kStickBytes>& stick) {
  Pair pair;
  std::memcpy(&pair, stick.data(), sizeof pair);
  return pair;
}

}  // namespace svp::program::golden
