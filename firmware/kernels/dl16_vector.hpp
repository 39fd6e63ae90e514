// SPDX-License-Identifier: Apache-2.0
// Arithmetic of DL16 in 16-bit integer lanes, 64 elements at a time: what the emulator does with the host's vector
// instructions. Every function gives the fp32 result of the decoded operands, rounded to DL16 (nearest, ties away from
// zero); a NaN operand gives 0x7FFF, overflow 0x7FFF with the sign.
#pragma once

#include "firmware/kernels/vector.hpp"
#include "shared/dl16.hpp"

namespace kernel::dl16 {

using V = vint16m1_t;
using U = vuint16m1_t;
inline constexpr std::size_t vl = kernel::kVector16;

inline U as_unsigned(V v) { return __riscv_vreinterpret_v_i16m1_u16m1(v); }
inline V as_signed(U v) { return __riscv_vreinterpret_v_u16m1_i16m1(v); }
inline V load(const void* stick) { return as_signed(load_stick(stick)); }
inline V add(V a, V b) { return __riscv_vadd_vv_i16m1(a, b, vl); }
inline V sub(V a, V b) { return __riscv_vsub_vv_i16m1(a, b, vl); }
inline V both(V a, V b) { return __riscv_vand_vv_i16m1(a, b, vl); }
inline V either(V a, V b) { return __riscv_vor_vv_i16m1(a, b, vl); }
inline V differing(V a, V b) { return __riscv_vxor_vv_i16m1(a, b, vl); }
inline V inverted(V a) { return __riscv_vxor_vx_i16m1(a, -1, vl); }
// All bits set where the sign bit is: the emulator has no quick compares.
inline V sign_mask(V a) { return __riscv_vsra_vx_i16m1(a, 15, vl); }
inline V nonzero_mask(V magnitude) { return sign_mask(__riscv_vrsub_vx_i16m1(magnitude, 0, vl)); }  // 0 <= magnitude
inline V nan_mask(V magnitude) { return sign_mask(__riscv_vadd_vx_i16m1(magnitude, 1, vl)); }

inline constexpr int kGuard = 4;  // bits below the last place

// Significand with guard bits, zero for zero: 2^13 … 2^14 - 1.
inline V significand(V magnitude) {
  const V bits = __riscv_vor_vx_i16m1(__riscv_vand_vx_i16m1(magnitude, 0x1FF, vl), 0x200, vl);
  return __riscv_vsll_vx_i16m1(both(bits, nonzero_mask(magnitude)), kGuard, vl);
}

// Shifted right; the lowest bit also tells whether anything was lost. Rounding looks at bits further up only.
inline V shifted_with_trace(V value, V distance) {
  const U limited = __riscv_vminu_vv_u16m1(as_unsigned(distance), __riscv_vmv_v_x_u16m1(15, vl), vl);
  const V kept = as_signed(__riscv_vsrl_vv_u16m1(as_unsigned(value), limited, vl));
  const V lost = differing(value, __riscv_vsll_vv_i16m1(kept, limited, vl));
  const V trace = as_signed(__riscv_vsrl_vx_u16m1(as_unsigned(__riscv_vrsub_vx_i16m1(lost, 0, vl)), 15, vl));
  return either(kept, trace);
}

// Brings the top bit of a positive value up to bit 14 if it is not there and lies at most kStep below, in one step of a
// binary search; takes the shift off the exponent.
template <int kStep>
void normalise(V& value, V& exponent) {
  constexpr std::int16_t kLimit = std::int16_t{1} << (15 - kStep);
  const V below = sign_mask(__riscv_vsub_vx_i16m1(value, kLimit, vl));
  const V shift = __riscv_vand_vx_i16m1(below, kStep, vl);
  value = __riscv_vsll_vv_i16m1(value, as_unsigned(shift), vl);
  exponent = sub(exponent, shift);
}

// Rounding the exact sum once gives the same result as going through fp32: with exponents up to 13 apart the exact sum
// has at most 24 significant bits, so fp32 holds it; further apart, either way the larger operand comes out, because
// the smaller is below a quarter of its last place, even of the last place one binade down. (-0) + (-0) is -0, other
// exact zeros are +0.
inline V sum_of(V a, V b) {
  const V a_magnitude = __riscv_vand_vx_i16m1(a, 0x7FFF, vl);
  const V b_magnitude = __riscv_vand_vx_i16m1(b, 0x7FFF, vl);
  const V large = __riscv_vmax_vv_i16m1(a_magnitude, b_magnitude, vl);
  const V small = __riscv_vmin_vv_i16m1(a_magnitude, b_magnitude, vl);
  const V b_is_larger = sign_mask(sub(a_magnitude, b_magnitude));
  const V different = differing(a, b);
  const V sign = differing(a, both(different, b_is_larger));  // bit 15: the sign of the larger one

  V exponent = __riscv_vsra_vx_i16m1(large, 9, vl);
  const V distance = sub(exponent, __riscv_vsra_vx_i16m1(small, 9, vl));
  const V subtract = sign_mask(different);
  const V smaller = shifted_with_trace(significand(small), distance);
  V value = add(significand(large), sub(differing(smaller, subtract), subtract));
  const V nonzero = nonzero_mask(value);

  exponent = __riscv_vadd_vx_i16m1(exponent, 1, vl);
  normalise<8>(value, exponent);
  normalise<4>(value, exponent);
  normalise<2>(value, exponent);
  normalise<1>(value, exponent);
  // Now 2^14 <= value < 2^15. Half of the last place is added, five bits go; the carry runs into the exponent. The
  // hidden bit takes one off the exponent field.
  V code = as_signed(__riscv_vsrl_vx_u16m1(as_unsigned(__riscv_vadd_vx_i16m1(value, 16, vl)), 5, vl));
  code = add(__riscv_vadd_vx_i16m1(code, -512, vl), __riscv_vsll_vx_i16m1(exponent, 9, vl));
  const V in_range = inverted(sign_mask(exponent));  // a negative exponent is below the smallest code
  code = both(both(code, in_range), nonzero);
  code = as_signed(__riscv_vminu_vv_u16m1(as_unsigned(code), __riscv_vmv_v_x_u16m1(wire::kDl16Nan, vl), vl));

  const V zero_sign = both(both(a, b), inverted(nonzero));
  const V signs = either(both(sign, nonzero), zero_sign);
  code = either(code, __riscv_vand_vx_i16m1(signs, INT16_MIN, vl));
  const V nan = either(nan_mask(a_magnitude), nan_mask(b_magnitude));
  return either(both(code, inverted(nan)), __riscv_vand_vx_i16m1(nan, wire::kDl16Nan, vl));
}

}  // namespace kernel::dl16
