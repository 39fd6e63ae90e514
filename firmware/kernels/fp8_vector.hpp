// SPDX-License-Identifier: Apache-2.0
// FP8_E4M3 in 16-bit integer lanes, 64 elements at a time, and its sticks: two groups ("halves") of 64 elements, of
// which eight each stand in turn. Element 8 j + w of a half is byte w of the 64-bit lane 2 j + half.
#pragma once

#include <cstdint>

#include "firmware/kernels/alternate_lanes.hpp"
#include "firmware/kernels/vector.hpp"
#include "shared/dl16.hpp"

namespace kernel::fp8 {

namespace detail {

// x where `mask` has its bits, else y.
inline vint16m1_t chosen(vint16m1_t mask, vint16m1_t x, vint16m1_t y) {
  const vint16m1_t differing = __riscv_vand_vv_i16m1(__riscv_vxor_vv_i16m1(x, y, kVector16), mask, kVector16);
  return __riscv_vxor_vv_i16m1(differing, y, kVector16);
}

// x / 2^bits of x >= 0, to nearest, ties to even.
inline vint16m1_t rounded_right(vint16m1_t x, unsigned bits) {
  constexpr std::size_t vl = kVector16;
  const vint16m1_t odd = __riscv_vand_vx_i16m1(__riscv_vsra_vx_i16m1(x, bits, vl), 1, vl);
  const auto below_half = static_cast<std::int16_t>((1 << (bits - 1)) - 1);
  return __riscv_vsra_vx_i16m1(__riscv_vadd_vv_i16m1(__riscv_vadd_vx_i16m1(x, below_half, vl), odd, vl), bits, vl);
}

}  // namespace detail

// The elements of one half of a stick in their order, each in the upper byte of a lane.
inline vuint16m1_t codes_of_half(vuint16m1_t stick, unsigned half) {
  constexpr std::size_t vl = kVector64;
  const vuint64m1_t mine = alternate_lanes(__riscv_vreinterpret_v_u16m1_u64m1(stick), half);
  const vuint64m1_t even = half == 0 ? mine : __riscv_vslide1down_vx_u64m1(mine, 0, vl);
  const vuint64m1_t odd = half == 0 ? __riscv_vslide1up_vx_u64m1(mine, 0, vl) : mine;
  vuint64m1_t four = __riscv_vand_vx_u64m1(even, 0xFFFFFFFF, vl);  // in the lower half of each lane
  four = __riscv_vor_vv_u64m1(four, __riscv_vsrl_vx_u64m1(odd, 32, vl), vl);
  vuint64m1_t pairs = __riscv_vor_vv_u64m1(four, __riscv_vsll_vx_u64m1(four, 16, vl), vl);
  pairs = __riscv_vand_vx_u64m1(pairs, 0x0000FFFF0000FFFF, vl);
  const vuint64m1_t codes =
      __riscv_vor_vv_u64m1(__riscv_vsll_vx_u64m1(pairs, 8, vl), __riscv_vsll_vx_u64m1(pairs, 16, vl), vl);
  return __riscv_vreinterpret_v_u64m1_u16m1(__riscv_vand_vx_u64m1(codes, 0xFF00FF00FF00FF00, vl));
}

// A stick with these elements, which are in the lower bytes of their lanes, in one half and zeros in the other.
inline vuint16m1_t half_of_codes(vuint16m1_t codes, unsigned half) {
  constexpr std::size_t vl = kVector64;
  vuint64m1_t four = __riscv_vreinterpret_v_u16m1_u64m1(codes);
  four = __riscv_vor_vv_u64m1(four, __riscv_vsrl_vx_u64m1(four, 8, vl), vl);
  four = __riscv_vand_vx_u64m1(four, 0x0000FFFF0000FFFF, vl);
  four = __riscv_vor_vv_u64m1(four, __riscv_vsrl_vx_u64m1(four, 16, vl), vl);
  four = __riscv_vand_vx_u64m1(four, 0xFFFFFFFF, vl);
  const vuint64m1_t low = half == 0 ? four : __riscv_vslide1up_vx_u64m1(four, 0, vl);
  const vuint64m1_t high = half == 0 ? __riscv_vslide1down_vx_u64m1(four, 0, vl) : four;
  const vuint64m1_t eight = __riscv_vor_vv_u64m1(low, __riscv_vsll_vx_u64m1(high, 32, vl), vl);
  return __riscv_vreinterpret_v_u64m1_u16m1(alternate_lanes(eight, half));
}

// DL16 rounded to nearest, ties to even, in the lower bytes. Beyond 448, infinity, too: 0x7E with the sign; NaN: 0x7F.
inline vuint16m1_t from_dl16(vuint16m1_t stick) {
  constexpr std::size_t vl = kVector16;
  const vint16m1_t bits = __riscv_vreinterpret_v_u16m1_i16m1(stick);
  const vint16m1_t magnitude = __riscv_vand_vx_i16m1(bits, 0x7FFF, vl);
  const vint16m1_t exponent = __riscv_vsra_vx_i16m1(magnitude, 9, vl);
  const vint16m1_t splat = __riscv_vmv_v_x_i16m1(0, vl);
  // From 2^-6 on, the exponent 25, the codes of both formats ascend in steps of which 64 are one.
  const vint16m1_t normal = detail::rounded_right(__riscv_vadd_vx_i16m1(magnitude, -(24 << 9), vl), 6);
  // Below, in units of 2^-9: 2^-20 of a significand at exponent 20, and less than half of one at smaller ones. Shifts
  // of 16-bit lanes by distances of their own are slow under the emulator, products are not.
  vint16m1_t distance = __riscv_vmax_vv_i16m1(__riscv_vadd_vx_i16m1(exponent, -20, vl), splat, vl);
  distance = __riscv_vmin_vv_i16m1(distance, __riscv_vmv_v_x_i16m1(4, vl), vl);
  vint16m1_t value = __riscv_vor_vx_i16m1(__riscv_vand_vx_i16m1(magnitude, 0x1FF, vl), 0x200, vl);
  const auto scale = [&value](vint16m1_t factor_less_one) {
    value = __riscv_vmul_vv_i16m1(value, __riscv_vadd_vx_i16m1(factor_less_one, 1, vl), vl);
  };
  scale(__riscv_vand_vx_i16m1(distance, 1, vl));
  const vint16m1_t two = __riscv_vand_vx_i16m1(distance, 2, vl);
  scale(__riscv_vadd_vv_i16m1(two, __riscv_vsra_vx_i16m1(two, 1, vl), vl));
  const vint16m1_t four = __riscv_vsra_vx_i16m1(distance, 2, vl);
  scale(__riscv_vmul_vx_i16m1(four, 15, vl));
  const vint16m1_t subnormal = detail::rounded_right(value, 11);
  const vint16m1_t is_normal = __riscv_vsra_vx_i16m1(__riscv_vrsub_vx_i16m1(exponent, 24, vl), 15, vl);
  const vint16m1_t finite =
      __riscv_vmin_vv_i16m1(detail::chosen(is_normal, normal, subnormal), __riscv_vmv_v_x_i16m1(0x7E, vl), vl);
  const vint16m1_t nan = __riscv_vsra_vx_i16m1(
      __riscv_vadd_vx_i16m1(__riscv_vxor_vx_i16m1(magnitude, wire::kDl16Nan, vl), -1, vl), 15, vl);
  const vint16m1_t code = __riscv_vsub_vv_i16m1(finite, nan, vl);  // NaN is the largest number's code and one
  const vint16m1_t signs = __riscv_vxor_vx_i16m1(nan, -1, vl);
  const vint16m1_t sign =
      __riscv_vand_vv_i16m1(__riscv_vand_vx_i16m1(__riscv_vsra_vx_i16m1(bits, 8, vl), 0x80, vl), signs, vl);
  return __riscv_vreinterpret_v_i16m1_u16m1(__riscv_vor_vv_i16m1(code, sign, vl));
}

// Of codes in the upper bytes; exact. NaN becomes 0x7FFE.
inline vuint16m1_t to_dl16(vuint16m1_t codes) {
  constexpr std::size_t vl = kVector16;
  const vint16m1_t bits = __riscv_vreinterpret_v_u16m1_i16m1(codes);
  const vint16m1_t magnitude = __riscv_vand_vx_i16m1(__riscv_vsra_vx_i16m1(bits, 8, vl), 0x7F, vl);
  // From 8, the smallest normal, on, a code is one line: 64 steps each. Below, each power of two has a line of its own,
  // twice as steep as the next, and the lowest of them holds. At 8 they meet.
  const auto line = [](vint16m1_t at, unsigned shift) {
    const auto begin = static_cast<std::int16_t>((30 - shift) << 9);
    return __riscv_vadd_vx_i16m1(__riscv_vsll_vx_i16m1(at, shift, vl), begin, vl);
  };
  const vint16m1_t low = __riscv_vmin_vv_i16m1(magnitude, __riscv_vmv_v_x_i16m1(8, vl), vl);
  const vint16m1_t subnormal =
      __riscv_vmin_vv_i16m1(__riscv_vmin_vv_i16m1(line(low, 7), line(low, 8), vl), line(low, 9), vl);
  const vint16m1_t beyond = __riscv_vsll_vx_i16m1(__riscv_vsub_vv_i16m1(magnitude, low, vl), 6, vl);
  const vint16m1_t nonzero = __riscv_vsra_vx_i16m1(__riscv_vrsub_vx_i16m1(magnitude, 0, vl), 15, vl);
  const vint16m1_t number =
      __riscv_vor_vv_i16m1(__riscv_vand_vv_i16m1(__riscv_vadd_vv_i16m1(subnormal, beyond, vl), nonzero, vl),
                           __riscv_vand_vx_i16m1(bits, static_cast<std::int16_t>(0x8000), vl), vl);
  const vint16m1_t nan = __riscv_vsra_vx_i16m1(__riscv_vrsub_vx_i16m1(magnitude, 0x7E, vl), 15, vl);
  return __riscv_vreinterpret_v_i16m1_u16m1(detail::chosen(nan, __riscv_vmv_v_x_i16m1(wire::kDl16Nan, vl), number));
}

}  // namespace kernel::fp8
