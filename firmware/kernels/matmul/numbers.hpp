// SPDX-License-Identifier: Apache-2.0
// The numbers that the block product multiplies. A stick has 64 of them in 16-bit lanes; each is an integer of few bits
// times a power of two:
//
//   kSignificandBits, kLargestSpread   of the integers; between the exponents of any two numbers
//   kUnitExponent                      a number is significand * 2^(exponent + kUnitExponent)
//   decode(), significands(), exponents()   of a stick: Decoded; the last two of a stick in which NaN may give anything
//   magnitudes(), exponents_of(), nans()    codes without signs, in the order of their numbers; what they tell: an
//                                           infinity counts as NaN
//   is_nan(), parts()                       of one code
#pragma once

#include <cstdint>

#include "firmware/kernels/matmul/block.hpp"
#include "firmware/kernels/vector.hpp"
#include "shared/dl16.hpp"

namespace kernel::matmul {

// All bits of the lanes whose top bit is set.
inline vuint16m1_t top_bits(vuint16m1_t v) {
  return __riscv_vreinterpret_v_i16m1_u16m1(
      __riscv_vsra_vx_i16m1(__riscv_vreinterpret_v_u16m1_i16m1(v), 15, kVector16));
}

struct Parts {
  std::int32_t significand;  // 0 of a zero
  std::int32_t exponent;
};

struct Dl16Numbers {
  static constexpr unsigned kSignificandBits = 10;
  static constexpr unsigned kLargestSpread = 63;
  static constexpr std::int32_t kUnitExponent = wire::kDl16UnitExponent;

  static Decoded decode(vuint16m1_t stick) { return kernel::decode(stick); }
  static vint16m1_t significands(vuint16m1_t stick) { return kernel::significands_of(stick); }
  static vuint16m1_t exponents(vuint16m1_t stick) { return kernel::exponents_of(stick); }

  static vuint16m1_t magnitudes(vuint16m1_t stick) { return __riscv_vand_vx_u16m1(stick, 0x7FFF, kVector16); }
  static vuint16m1_t exponents_of(vuint16m1_t magnitude) { return __riscv_vsrl_vx_u16m1(magnitude, 9, kVector16); }
  static vuint16m1_t nans(vuint16m1_t magnitude) {
    return top_bits(__riscv_vadd_vx_u16m1(magnitude, 0x7FFF - wire::kDl16Max, kVector16));
  }

  static bool is_nan(std::uint16_t code) { return !wire::dl16_is_finite(code); }
  static Parts parts(std::uint16_t code) {
    const wire::Dl16Parts it = wire::dl16_parts(code);
    return {it.significand, it.exponent};
  }
};

// FP8_E4M3 in the upper byte of each lane, the lower one is 0. A subnormal has the exponent of the smallest normal.
struct E4m3Numbers {
  static constexpr unsigned kSignificandBits = 4;
  static constexpr unsigned kLargestSpread = 14;
  static constexpr std::int32_t kUnitExponent = -10;

  static Decoded decode(vuint16m1_t stick) {
    constexpr std::size_t vl = kVector16;
    const vuint16m1_t magnitude = magnitudes(stick);
    const vuint16m1_t nan = nans(magnitude);
    const vuint16m1_t counts =
        __riscv_vand_vv_u16m1(is_positive(magnitude), __riscv_vxor_vx_u16m1(nan, 0xFFFF, vl), vl);
    const vint16m1_t significand =
        __riscv_vand_vv_i16m1(significands(stick), __riscv_vreinterpret_v_u16m1_i16m1(counts), vl);
    return {significand, exponents(stick), counts, nan};
  }
  static vint16m1_t significands(vuint16m1_t stick) {
    constexpr std::size_t vl = kVector16;
    const vuint16m1_t magnitude = magnitudes(stick);
    const vuint16m1_t fraction = __riscv_vand_vx_u16m1(__riscv_vsrl_vx_u16m1(magnitude, 8, vl), 7, vl);
    const vuint16m1_t one = __riscv_vand_vx_u16m1(is_positive(field(magnitude)), 8, vl);
    const vint16m1_t value = __riscv_vreinterpret_v_u16m1_i16m1(__riscv_vor_vv_u16m1(fraction, one, vl));
    const vint16m1_t sign = __riscv_vreinterpret_v_u16m1_i16m1(top_bits(stick));
    return __riscv_vsub_vv_i16m1(__riscv_vxor_vv_i16m1(value, sign, vl), sign, vl);
  }
  static vuint16m1_t exponents(vuint16m1_t stick) { return exponents_of(magnitudes(stick)); }

  static vuint16m1_t magnitudes(vuint16m1_t stick) { return __riscv_vand_vx_u16m1(stick, 0x7F00, kVector16); }
  static vuint16m1_t exponents_of(vuint16m1_t magnitude) {
    constexpr std::size_t vl = kVector16;
    return __riscv_vmaxu_vv_u16m1(field(magnitude), __riscv_vmv_v_x_u16m1(1, vl), vl);
  }
  static vuint16m1_t nans(vuint16m1_t magnitude) {
    return top_bits(__riscv_vadd_vx_u16m1(magnitude, 0x100, kVector16));
  }

  static bool is_nan(std::uint16_t code) { return (code & 0x7F00) == 0x7F00; }
  static Parts parts(std::uint16_t code) {
    const std::int32_t field = code >> 11 & 0xF;
    const std::int32_t value = (code >> 8 & 7) | (field != 0 ? 8 : 0);
    return {(code & 0x8000) != 0 ? -value : value, field != 0 ? field : 1};
  }

 private:
  static vuint16m1_t field(vuint16m1_t magnitude) { return __riscv_vsrl_vx_u16m1(magnitude, 11, kVector16); }
  // All bits; of values below 0x8000.
  static vuint16m1_t is_positive(vuint16m1_t v) { return top_bits(__riscv_vrsub_vx_u16m1(v, 0, kVector16)); }
};

// A significand is below 2^kSignificandBits and is shifted left by at most the spread of its row or column, the
// distance between the largest and the smallest exponent in the chunk. So 64 products are below 2^(6 + 2
// kSignificandBits + spread A + spread B) in magnitude, which must not exceed 2^63 or 2^31; and an integer of A must
// fit 32 bits with its sign.
template <typename Numbers>
struct Spreads {
  static constexpr unsigned kWide = 63 - 6 - 2 * Numbers::kSignificandBits;
  static constexpr unsigned kNarrow = 31 - 6 - 2 * Numbers::kSignificandBits;
  static constexpr unsigned kRow = 31 - Numbers::kSignificandBits;
  // No sum needs more than 64 bits.
  static constexpr bool kAlwaysFit = 2 * Numbers::kLargestSpread <= kWide && Numbers::kLargestSpread <= kRow;
};
static_assert(kChunk == 1u << 6);

}  // namespace kernel::matmul
