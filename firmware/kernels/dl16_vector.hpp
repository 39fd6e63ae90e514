// SPDX-License-Identifier: Apache-2.0
// Arithmetic of DL16 in 16-bit integer lanes, 64 elements at a time: what the emulator does with the host's vector
// instructions. Every function gives the fp32 result of the decoded operands, rounded to DL16 (nearest, ties away from
// zero); NaN is 0x7FFE, overflow 0x7FFF with the sign. Functions "of numbers" are right where neither operand is
// infinite or NaN, and quicker.
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
// All bits set where the sign bit is: the emulator has no quick compares.
inline V sign_mask(V a) { return __riscv_vsra_vx_i16m1(a, 15, vl); }
inline V nonzero_mask(V magnitude) { return sign_mask(__riscv_vrsub_vx_i16m1(magnitude, 0, vl)); }  // 0 <= magnitude
inline V infinity_mask(V magnitude) { return sign_mask(__riscv_vadd_vx_i16m1(magnitude, 1, vl)); }
inline V inverted(V a) { return __riscv_vxor_vx_i16m1(a, -1, vl); }
inline V magnitude_of(V a) { return __riscv_vand_vx_i16m1(a, wire::kDl16MagnitudeBits, vl); }
inline V larger_magnitude(V a, V b) { return __riscv_vmax_vv_i16m1(magnitude_of(a), magnitude_of(b), vl); }
inline V smaller_magnitude(V a, V b) { return __riscv_vmin_vv_i16m1(magnitude_of(a), magnitude_of(b), vl); }
// Of the magnitudes of two codes: where one is NaN.
inline V either_nan_mask(V a, V b) {
  const V nearest = __riscv_vmin_vv_i16m1(__riscv_vxor_vx_i16m1(a, wire::kDl16Nan, vl),
                                          __riscv_vxor_vx_i16m1(b, wire::kDl16Nan, vl), vl);
  return sign_mask(__riscv_vadd_vx_i16m1(nearest, -1, vl));
}
// A result, with the magnitude of infinity, and with NaN in the place of what there is.
inline V with_infinity(V code, V mask) {
  return either(code, as_signed(__riscv_vsrl_vx_u16m1(as_unsigned(mask), 1, vl)));
}
inline V with_nan(V code, V mask) {
  return either(both(code, inverted(mask)), __riscv_vand_vx_i16m1(mask, wire::kDl16Nan, vl));
}

inline constexpr int kGuard = 4;  // bits below the last place

// Of a number that is not zero: 2^13 … 2^14 - 1, with guard bits.
inline V significand(V magnitude) {
  const V bits = __riscv_vor_vx_i16m1(__riscv_vand_vx_i16m1(magnitude, 0x1FF, vl), 0x200, vl);
  return __riscv_vsll_vx_i16m1(bits, kGuard, vl);
}

// Shifted right; the lowest bit also tells whether anything was lost. Rounding looks at bits further up only.
inline V shifted_with_trace(V value, V distance) {
  const U limited = as_unsigned(__riscv_vmin_vv_i16m1(distance, __riscv_vmv_v_x_i16m1(15, vl), vl));
  const V kept = as_signed(__riscv_vsrl_vv_u16m1(as_unsigned(value), limited, vl));
  const V lost = differing(value, __riscv_vsll_vv_i16m1(kept, limited, vl));
  const V trace = as_signed(__riscv_vsrl_vx_u16m1(as_unsigned(__riscv_vrsub_vx_i16m1(lost, 0, vl)), 15, vl));
  return either(kept, trace);
}

// Brings the top bit of a positive value up to bit 14 if it is not there and lies at most kStep below, in one step of a
// binary search; takes the shift off the exponent. By a product: the emulator has no quick shifts of 16-bit lanes by
// distances of their own.
template <int kStep>
void normalise(V& value, V& exponent) {
  constexpr std::int16_t kLimit = std::int16_t{1} << (15 - kStep);
  const V below = sign_mask(__riscv_vsub_vx_i16m1(value, kLimit, vl));
  if constexpr (kStep == 1) {
    value = add(value, both(value, below));
    exponent = add(exponent, below);
  } else {
    const V factor = __riscv_vadd_vx_i16m1(__riscv_vand_vx_i16m1(below, (1 << kStep) - 1, vl), 1, vl);
    value = __riscv_vmul_vv_i16m1(value, factor, vl);
    exponent = sub(exponent, __riscv_vand_vx_i16m1(below, kStep, vl));
  }
}

// The code of a result: 2^14 <= value < 2^15, of which the top bit adds one to the exponent field. -32 <= exponent <=
// 64. Lanes without `nonzero` become zero; `sign` counts in bit 15.
inline V encoded(V value, V exponent, V nonzero, V sign) {
  // Half of the last place is added, five bits go; the carry runs into the exponent. So that both ends of the range and
  // what lies beyond fit into signed lanes, the code is lower by 2^14 while it is limited.
  constexpr std::int16_t kHalfway = 0x4000;
  V code = as_signed(__riscv_vsrl_vx_u16m1(as_unsigned(__riscv_vadd_vx_i16m1(value, 16, vl)), 5, vl));
  code = add(__riscv_vadd_vx_i16m1(code, -kHalfway, vl), __riscv_vsll_vx_i16m1(exponent, 9, vl));
  code = __riscv_vmax_vv_i16m1(code, __riscv_vmv_v_x_i16m1(-kHalfway, vl), vl);
  code = __riscv_vmin_vv_i16m1(code, __riscv_vmv_v_x_i16m1(wire::kDl16Infinity - kHalfway, vl), vl);
  code = both(__riscv_vadd_vx_i16m1(code, kHalfway, vl), nonzero);
  // What is above the largest number is infinity: the code between the two is that of NaN.
  constexpr std::int16_t kToSign = wire::kDl16MagnitudeBits - wire::kDl16Max;
  const U beyond = __riscv_vsrl_vx_u16m1(as_unsigned(__riscv_vadd_vx_i16m1(code, kToSign, vl)), 15, vl);
  return either(either(code, as_signed(beyond)), __riscv_vand_vx_i16m1(sign, INT16_MIN, vl));
}

// Rounding the exact sum once gives the same result as going through fp32: with exponents up to 13 apart the exact sum
// has at most 24 significant bits, so fp32 holds it; further apart, either way the larger operand comes out, because
// the smaller is below a quarter of its last place, even of the last place one binade down. (-0) + (-0) is -0, other
// exact zeros are +0.
inline V sum_of_numbers(V a, V b) {
  const V a_magnitude = magnitude_of(a);
  const V b_magnitude = magnitude_of(b);
  const V large = __riscv_vmax_vv_i16m1(a_magnitude, b_magnitude, vl);
  const V small = __riscv_vmin_vv_i16m1(a_magnitude, b_magnitude, vl);
  // The sign of the larger one; of two of the same size that of b when a is negative, so that a zero is +0.
  const V b_decides = sign_mask(add(sub(a_magnitude, b_magnitude), sign_mask(a)));
  const V different = differing(a, b);
  const V sign = differing(a, both(different, b_decides));

  // A zero that is the larger one stands as 2^-31, which has no code: rounding makes it zero again.
  V exponent = __riscv_vsra_vx_i16m1(large, 9, vl);
  const V distance = sub(exponent, __riscv_vsra_vx_i16m1(small, 9, vl));
  const V subtract = sign_mask(different);
  const V smaller = shifted_with_trace(both(significand(small), nonzero_mask(small)), distance);
  V value = add(significand(large), sub(differing(smaller, subtract), subtract));
  const V nonzero = nonzero_mask(value);
  normalise<8>(value, exponent);
  normalise<4>(value, exponent);
  normalise<2>(value, exponent);
  normalise<1>(value, exponent);
  return encoded(value, exponent, nonzero, sign);
}

// The code of an infinity counts as the largest number, so the sign is right.
inline V sum_of(V a, V b) {
  const V a_infinite = infinity_mask(magnitude_of(a));
  const V b_infinite = infinity_mask(magnitude_of(b));
  const V opposite = both(both(a_infinite, b_infinite), sign_mask(differing(a, b)));
  const V sum = with_infinity(sum_of_numbers(a, b), either(a_infinite, b_infinite));
  return with_nan(sum, either(opposite, either_nan_mask(magnitude_of(a), magnitude_of(b))));
}

// The product of two significands of ten bits has 20, which fp32 holds: rounding it once is the same. Rounding adds
// half of the last place, so it needs no more than the bits above: the lowest five of the product are left out.
inline V product_of_numbers(V a, V b) {
  const V a_magnitude = magnitude_of(a);
  const V b_magnitude = magnitude_of(b);
  const V x = __riscv_vor_vx_i16m1(__riscv_vand_vx_i16m1(a, 0x1FF, vl), 0x200, vl);
  const V y = __riscv_vor_vx_i16m1(__riscv_vand_vx_i16m1(b, 0x1FF, vl), 0x200, vl);
  const V high = __riscv_vmul_vv_i16m1(x, __riscv_vsra_vx_i16m1(y, 5, vl), vl);
  const V low = __riscv_vmul_vv_i16m1(x, __riscv_vand_vx_i16m1(y, 0x1F, vl), vl);
  V value = add(high, __riscv_vsra_vx_i16m1(low, 5, vl));  // 2^13 … 2^15 - 1

  V exponent = add(__riscv_vsra_vx_i16m1(a_magnitude, 9, vl), __riscv_vsra_vx_i16m1(b_magnitude, 9, vl));
  exponent = __riscv_vadd_vx_i16m1(exponent, -wire::kDl16Bias, vl);
  normalise<1>(value, exponent);
  exponent = __riscv_vmin_vv_i16m1(exponent, __riscv_vmv_v_x_i16m1(64, vl), vl);  // overflow all the same
  const V neither_zero = nonzero_mask(smaller_magnitude(a, b));
  return encoded(value, exponent, neither_zero, differing(a, b));
}

inline V product_of(V a, V b) {
  const V infinite = infinity_mask(larger_magnitude(a, b));
  const V of_zero = both(infinite, inverted(nonzero_mask(smaller_magnitude(a, b))));
  const V product = with_infinity(product_of_numbers(a, b), infinite);
  return with_nan(product, either(of_zero, either_nan_mask(magnitude_of(a), magnitude_of(b))));
}

// floor(x * 2^11 / y) of significands of ten bits, bit by bit: 2^10 < result < 2^12.
inline V significand_quotient(V x, V y) {
  V rest = x;
  V missing = __riscv_vmv_v_x_i16m1(0, vl);  // the bits that the quotient has not
#pragma clang loop unroll(full)
  for (int bit = 0; bit < 12; ++bit) {
    const V less = sub(rest, y);
    missing = sub(add(missing, missing), sign_mask(less));
    // As unsigned numbers a negative one is the larger.
    rest = as_signed(__riscv_vminu_vv_u16m1(as_unsigned(rest), as_unsigned(less), vl));
    rest = add(rest, rest);
  }
  return __riscv_vrsub_vx_i16m1(missing, 0xFFF, vl);
}

// A quotient of two significands of ten bits is a tie between two results of ten bits, or further from one than fp32
// rounds: rounding it once is the same. Rounding adds half of the last place, so it needs no rest. x / 0 is 0x7FFF with
// the sign, 0 / 0 is NaN.
inline V quotient_of(V a, V b) {
  const V a_magnitude = magnitude_of(a);
  const V b_magnitude = magnitude_of(b);
  const V x = __riscv_vor_vx_i16m1(__riscv_vand_vx_i16m1(a, 0x1FF, vl), 0x200, vl);
  const V y = __riscv_vor_vx_i16m1(__riscv_vand_vx_i16m1(b, 0x1FF, vl), 0x200, vl);
  V value = __riscv_vsll_vx_i16m1(significand_quotient(x, y), 3, vl);  // 2^13 … 2^15 - 1

  V exponent = sub(__riscv_vsra_vx_i16m1(a_magnitude, 9, vl), __riscv_vsra_vx_i16m1(b_magnitude, 9, vl));
  exponent = __riscv_vadd_vx_i16m1(exponent, wire::kDl16Bias - 1, vl);
  normalise<1>(value, exponent);
  // Overflow where b is zero; then the exponent is not negative.
  const V no_divisor = __riscv_vadd_vx_i16m1(nonzero_mask(b_magnitude), 1, vl);
  exponent = either(exponent, __riscv_vsll_vx_i16m1(no_divisor, 6, vl));
  exponent = __riscv_vmin_vv_i16m1(exponent, __riscv_vmv_v_x_i16m1(64, vl), vl);
  exponent = __riscv_vmax_vv_i16m1(exponent, __riscv_vmv_v_x_i16m1(-32, vl), vl);
  const V quotient = encoded(value, exponent, nonzero_mask(a_magnitude), differing(a, b));

  const V a_infinite = infinity_mask(a_magnitude);
  const V b_infinite = infinity_mask(b_magnitude);
  const V by_infinity = as_signed(__riscv_vsrl_vx_u16m1(as_unsigned(b_infinite), 1, vl));
  const V zeros = inverted(nonzero_mask(__riscv_vmax_vv_i16m1(a_magnitude, b_magnitude, vl)));
  const V nan = either(either(zeros, both(a_infinite, b_infinite)), either_nan_mask(a_magnitude, b_magnitude));
  return with_nan(with_infinity(both(quotient, inverted(by_infinity)), a_infinite), nan);
}

// ---- in 32-bit lanes

using W = vint32m1_t;
inline constexpr std::size_t wide = kernel::kVector32;

inline W unsigned_shift_right(W value, unsigned bits) {
  return __riscv_vreinterpret_v_u32m1_i32m1(
      __riscv_vsrl_vx_u32m1(__riscv_vreinterpret_v_i32m1_u32m1(value), bits, wide));
}
inline W all_but(W value, W without) {
  return __riscv_vand_vv_i32m1(value, __riscv_vxor_vx_i32m1(without, -1, wide), wide);
}

// All bits where they are equal; neither is negative.
inline W equal_mask(W a, std::int32_t b) {
  return __riscv_vsra_vx_i32m1(__riscv_vadd_vx_i32m1(__riscv_vxor_vx_i32m1(a, b, wide), -1, wide), 31, wide);
}

// fp32 of the codes in the low halves; the high halves are zero. NaN becomes 0x7FC00000.
inline W to_fp32(W code) {
  const W magnitude = __riscv_vand_vx_i32m1(code, 0x7FFF, wide);
  const W nonzero = __riscv_vsra_vx_i32m1(__riscv_vrsub_vx_i32m1(magnitude, 0, wide), 31, wide);
  const W not_finite = __riscv_vsra_vx_i32m1(__riscv_vrsub_vx_i32m1(magnitude, wire::kDl16Max, wide), 31, wide);
  const W nan = equal_mask(magnitude, wire::kDl16Nan);
  W bits = __riscv_vadd_vx_i32m1(__riscv_vsll_vx_i32m1(magnitude, 14, wide), 96 << 23, wide);
  bits = all_but(__riscv_vand_vv_i32m1(bits, nonzero, wide), not_finite);
  bits = __riscv_vor_vv_i32m1(bits, __riscv_vand_vx_i32m1(not_finite, 0x7F800000, wide), wide);
  bits = __riscv_vor_vv_i32m1(
      bits, __riscv_vsll_vx_i32m1(__riscv_vand_vx_i32m1(code, wire::kDl16SignBit, wide), 16, wide), wide);
  return __riscv_vor_vv_i32m1(all_but(bits, nan), __riscv_vand_vx_i32m1(nan, 0x7FC00000, wide), wide);
}

// The code in the low half, zero in the high one. NaN becomes 0x7FFE.
inline W from_fp32(W bits) {
  const W magnitude = __riscv_vand_vx_i32m1(bits, 0x7FFFFFFF, wide);
  const W nan = __riscv_vsra_vx_i32m1(__riscv_vrsub_vx_i32m1(magnitude, 0x7F800000, wide), 31, wide);
  W code = unsigned_shift_right(__riscv_vadd_vx_i32m1(magnitude, 1 << 13, wide), 14);
  code = __riscv_vadd_vx_i32m1(code, -(96 << 9), wide);
  code = __riscv_vmax_vv_i32m1(code, __riscv_vmv_v_x_i32m1(0, wide), wide);
  code = __riscv_vmin_vv_i32m1(code, __riscv_vmv_v_x_i32m1(wire::kDl16Infinity, wide), wide);
  // What is above the largest number is infinity.
  constexpr std::int32_t kToBit15 = 0x8000 - (wire::kDl16Max + 1);
  code = __riscv_vor_vv_i32m1(code, unsigned_shift_right(__riscv_vadd_vx_i32m1(code, kToBit15, wide), 15), wide);
  const W sign = __riscv_vand_vx_i32m1(unsigned_shift_right(bits, 16), wire::kDl16SignBit, wide);
  code = all_but(__riscv_vor_vv_i32m1(code, sign, wide), nan);
  return __riscv_vor_vv_i32m1(code, __riscv_vand_vx_i32m1(nan, wire::kDl16Nan, wide), wide);
}

}  // namespace kernel::dl16
