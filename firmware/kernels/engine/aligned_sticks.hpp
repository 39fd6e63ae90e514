// SPDX-License-Identifier: Apache-2.0
// DL16 sticks as integers of one unit: what exact sums of DL16 are made from. A number is its significand (below 2^10)
// shifted left by how far its exponent is above that of the unit, so that 64 of them are exact in 32 bits when no
// exponent is more than kSpread above.
#pragma once

#include <cstdint>

#include "firmware/kernels/vector.hpp"
#include "shared/dl16.hpp"

namespace kernel::engine {

inline constexpr unsigned kSumChunk = 64;  // positions whose sum is exact
inline constexpr unsigned kSpread = 31 - 10 - 6;

// Even lanes of a stick, and odd ones: the halves of 32-bit lanes.
struct Halves {
  FixedInt32 even;
  FixedInt32 odd;
};

// The range of what is added: of each lane, or of all lanes.
struct Codes {
  FixedUint16 below_smallest;  // smallest magnitude of non-zero numbers, less one; 0xFFFF: there is none
  FixedUint16 largest;         // magnitude; above kDl16Max: infinity or NaN

  static Codes none() { return {__riscv_vmv_v_x_u16m1(0xFFFF, kVector16), __riscv_vmv_v_x_u16m1(0, kVector16)}; }
  void include(vuint16m1_t stick) {
    const vuint16m1_t magnitude = __riscv_vand_vx_u16m1(stick, 0x7FFF, kVector16);
    below_smallest = __riscv_vminu_vv_u16m1(below_smallest, __riscv_vsub_vx_u16m1(magnitude, 1, kVector16), kVector16);
    largest = __riscv_vmaxu_vv_u16m1(largest, magnitude, kVector16);
  }
};

inline std::uint16_t smallest_lane(vuint16m1_t v) {
  return __riscv_vmv_x_s_u16m1_u16(
      __riscv_vredminu_vs_u16m1_u16m1(v, __riscv_vmv_v_x_u16m1(0xFFFF, kVector16), kVector16));
}
inline std::uint16_t largest_lane(vuint16m1_t v) {
  return __riscv_vmv_x_s_u16m1_u16(__riscv_vredmaxu_vs_u16m1_u16m1(v, __riscv_vmv_v_x_u16m1(0, kVector16), kVector16));
}

// Exponents of a range.
struct Window {
  unsigned low;
  unsigned spread;
  bool finite;  // all of it

  static Window of(unsigned below_smallest, unsigned largest) {
    if (largest == 0) return {0, 0, true};
    const unsigned low = (below_smallest + 1) >> wire::kDl16FractionBits & 0x3F;
    return {low, (largest >> wire::kDl16FractionBits) - low, largest <= wire::kDl16Max};
  }
  static Window of(const Codes& codes) { return of(smallest_lane(codes.below_smallest), largest_lane(codes.largest)); }
};

// A stick of finite numbers in units of exponent `low` (in each lane); exact where the exponent is at most 21 above.
inline Halves in_units(vuint16m1_t stick, vuint16m1_t low) {
  // A shift looks at its low five bits only, and whatever a zero is shifted by, it stays zero.
  const vuint32m1_t shift =
      __riscv_vreinterpret_v_u16m1_u32m1(__riscv_vsub_vv_u16m1(exponents_of(stick), low, kVector16));
  const vint32m1_t pair = __riscv_vreinterpret_v_i16m1_i32m1(significands_of(stick));
  constexpr std::size_t words = kVector32;
  const vint32m1_t even = __riscv_vsra_vx_i32m1(__riscv_vsll_vx_i32m1(pair, 16, words), 16, words);
  const vint32m1_t odd = __riscv_vsra_vx_i32m1(pair, 16, words);
  return {__riscv_vsll_vv_i32m1(even, shift, words),
          __riscv_vsll_vv_i32m1(odd, __riscv_vsrl_vx_u32m1(shift, 16, words), words)};
}

// 64-bit lanes summed, modulo 2^64.
inline std::int64_t sum_of_lanes(vint64m1_t v) {
  return __riscv_vmv_x_s_i64m1_i64(__riscv_vredsum_vs_i64m1_i64m1(v, __riscv_vmv_v_x_i64m1(0, kVector64), kVector64));
}

// Of all elements of a stick. The low half of a sum of 64-bit lanes is right whatever the upper halves hold.
inline std::int32_t sum_of(const Halves& halves) {
  const vuint64m1_t pairs = __riscv_vreinterpret_v_i64m1_u64m1(
      __riscv_vreinterpret_v_i32m1_i64m1(__riscv_vadd_vv_i32m1(halves.even, halves.odd, kVector32)));
  const vuint64m1_t folded = __riscv_vadd_vv_u64m1(pairs, __riscv_vsrl_vx_u64m1(pairs, 32, kVector64), kVector64);
  return static_cast<std::int32_t>(sum_of_lanes(__riscv_vreinterpret_v_u64m1_i64m1(folded)));
}

// Integers in units, rounded once to fp32. `exponent`: of the unit, in the place of an fp32 exponent.
inline vfloat32m1_t to_fp32(vint32m1_t units, vint32m1_t exponent) {
  constexpr std::size_t vl = kVector32;
  const vint32m1_t bits = __riscv_vreinterpret_v_f32m1_i32m1(__riscv_vfcvt_f_x_v_f32m1(units, vl));
  const vint32m1_t nonzero =
      __riscv_vsra_vx_i32m1(__riscv_vor_vv_i32m1(units, __riscv_vrsub_vx_i32m1(units, 0, vl), vl), 31, vl);
  return __riscv_vreinterpret_v_i32m1_f32m1(
      __riscv_vadd_vv_i32m1(bits, __riscv_vand_vv_i32m1(nonzero, exponent, vl), vl));
}

// Two halves of codes below 2^16 as one stick.
inline vuint16m1_t joined(vint32m1_t even, vint32m1_t odd) {
  return __riscv_vreinterpret_v_u32m1_u16m1(__riscv_vreinterpret_v_i32m1_u32m1(
      __riscv_vor_vv_i32m1(even, __riscv_vsll_vx_i32m1(odd, 16, kVector32), kVector32)));
}

}  // namespace kernel::engine
