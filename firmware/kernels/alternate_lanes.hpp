// SPDX-License-Identifier: Apache-2.0
// Every other 64-bit lane of a stick: what conversions with staggered lanes are made of.
#pragma once

#include <cstdint>

#include "firmware/kernels/vector.hpp"
#include "shared/units.hpp"

namespace kernel {

namespace detail {

struct alignas(wire::kStickBytes) AlternateLanes {
  std::uint64_t of[2][kVector64];
};
constexpr AlternateLanes alternate_masks() {
  AlternateLanes lanes{};
  for (unsigned i = 0; i < kVector64; ++i) lanes.of[i % 2][i] = ~std::uint64_t{0};
  return lanes;
}
inline constexpr AlternateLanes kAlternateLanes = alternate_masks();

}  // namespace detail

// Lanes first, first + 2, …; the others are 0. `first` is 0 or 1.
inline vuint64m1_t alternate_lanes(vuint64m1_t lanes, unsigned first) {
  const vuint64m1_t mine = __riscv_vreinterpret_v_u16m1_u64m1(load_stick(detail::kAlternateLanes.of[first]));
  return __riscv_vand_vv_u64m1(lanes, mine, kVector64);
}

}  // namespace kernel
