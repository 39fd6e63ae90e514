// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/matmul/operands.hpp"

#include <algorithm>

namespace kernel::matmul {
namespace {

constexpr std::uint16_t kNone = 0xFFFF;
// Weight of a product of two significand units at exponents 0: 2^-80 (wire::kDl16UnitExponent twice).
constexpr std::int32_t kUnitProduct = -80;

vuint16m1_t masked(const void* stick, const LaneMask& mask) {
  return __riscv_vand_vv_u16m1(load_stick(stick), load_stick(mask.lane), kVector16);
}
vuint16m1_t inverted(vuint16m1_t v) { return __riscv_vxor_vx_u16m1(v, kNone, kVector16); }
vuint16m1_t splat(std::uint16_t value) { return __riscv_vmv_v_x_u16m1(value, kVector16); }

std::uint16_t smallest(vuint16m1_t v) {
  return __riscv_vmv_x_s_u16m1_u16(__riscv_vredminu_vs_u16m1_u16m1(v, splat(kNone), kVector16));
}
std::uint16_t largest(vuint16m1_t v) {
  return __riscv_vmv_x_s_u16m1_u16(__riscv_vredmaxu_vs_u16m1_u16m1(v, splat(0), kVector16));
}

// - Σ x[i] * y[i], modulo 2^64.
std::int64_t minus_products(vint32m1_t x, vint32m1_t y) {
  constexpr std::size_t vl = kVector64;
  const vint64m1_t x_pair = __riscv_vreinterpret_v_i32m1_i64m1(x);
  const vint64m1_t y_pair = __riscv_vreinterpret_v_i32m1_i64m1(y);
  const vint64m1_t low =
      __riscv_vmul_vv_i64m1(__riscv_vsra_vx_i64m1(__riscv_vsll_vx_i64m1(x_pair, 32, vl), 32, vl),
                            __riscv_vsra_vx_i64m1(__riscv_vsll_vx_i64m1(y_pair, 32, vl), 32, vl), vl);
  const vint64m1_t high =
      __riscv_vmul_vv_i64m1(__riscv_vsra_vx_i64m1(x_pair, 32, vl), __riscv_vsra_vx_i64m1(y_pair, 32, vl), vl);
  const vint64m1_t zero = __riscv_vmv_v_x_i64m1(0, vl);
  return -__riscv_vmv_x_s_i64m1_i64(__riscv_vredsum_vs_i64m1_i64m1(__riscv_vadd_vv_i64m1(low, high, vl), zero, vl));
}

}  // namespace

void LaneMask::set(std::uint64_t count) {
  for (std::uint64_t i = 0; i < kLanes; ++i) lane[i] = i < count ? kNone : 0;
}

// ---- A --------------------------------------------------------------------------------------------------------------

void RowGroup::load(const void* const (&sticks)[kGroupRows], unsigned rows, const LaneMask& mask, std::uint8_t* nan) {
  largest_spread = 0;
  for (unsigned row = 0; row < kGroupRows; ++row) {
    if (row < rows) {
      load_row(row, masked(sticks[row], mask), nan[row]);
    } else {
      clear_row(row);
      exponent[row] = 0;
      spread[row] = 0;
    }
    largest_spread = std::max(largest_spread, spread[row]);
  }
}

void RowGroup::load_row(unsigned row, vuint16m1_t stick, std::uint8_t& nan) {
  const Decoded d = decode(stick);
  std::uint16_t low = smallest(__riscv_vor_vv_u16m1(d.exponent, inverted(d.counts), kVector16));
  const vuint16m1_t counting = __riscv_vand_vv_u16m1(d.exponent, d.counts, kVector16);
  std::uint16_t high = largest(__riscv_vor_vv_u16m1(counting, d.nan, kVector16));
  if (high == kNone) {
    nan = 1;
    high = largest(counting);
  }
  if (low == kNone) low = 0;
  exponent[row] = std::int32_t{low} << 23;
  spread[row] = static_cast<std::uint32_t>(high - low);
  if (spread[row] > kRowSpread) {
    clear_row(row);
    return;
  }
  const vuint16m1_t shift16 =
      __riscv_vand_vv_u16m1(__riscv_vsub_vx_u16m1(d.exponent, low, kVector16), d.counts, kVector16);
  // Seen as 32-bit lanes, each holds an even element below an odd one: two shifts widen them without a helper.
  const vint32m1_t pair = __riscv_vreinterpret_v_i16m1_i32m1(d.significand);
  const vuint32m1_t shift = __riscv_vreinterpret_v_u16m1_u32m1(shift16);
  constexpr std::size_t vl = kVector32;
  const vint32m1_t even = __riscv_vsra_vx_i32m1(__riscv_vsll_vx_i32m1(pair, 16, vl), 16, vl);
  const vint32m1_t odd = __riscv_vsra_vx_i32m1(pair, 16, vl);
  const vint32m1_t even_value = __riscv_vsll_vv_i32m1(even, __riscv_vand_vx_u32m1(shift, 0xFFFF, vl), vl);
  const vint32m1_t odd_value = __riscv_vsll_vv_i32m1(odd, __riscv_vsrl_vx_u32m1(shift, 16, vl), vl);
  store_register(&value[row][0], even_value);
  store_register(&value[row][kChunk / 2], odd_value);
  term[row] = minus_products(even_value, odd_value);
}

void RowGroup::clear_row(unsigned row) {
  const vint32m1_t zero = __riscv_vmv_v_x_i32m1(0, kVector32);
  store_register(&value[row][0], zero);
  store_register(&value[row][kChunk / 2], zero);
  term[row] = 0;
}

// ---- B --------------------------------------------------------------------------------------------------------------

void ColumnPanel::load(const void* const (&sticks)[kChunk], unsigned depth, const LaneMask& mask, std::uint16_t* nan) {
  vuint16m1_t low = splat(kNone);
  vuint16m1_t high = splat(0);
  vuint16m1_t nans = load_stick(nan);
  for (unsigned k = 0; k < depth; ++k) {
    const Decoded d = decode(masked(sticks[k], mask));
    low = __riscv_vminu_vv_u16m1(low, __riscv_vor_vv_u16m1(d.exponent, inverted(d.counts), kVector16), kVector16);
    high = __riscv_vmaxu_vv_u16m1(high, __riscv_vand_vv_u16m1(d.exponent, d.counts, kVector16), kVector16);
    nans = __riscv_vor_vv_u16m1(nans, d.nan, kVector16);
  }
  store_register(nan, nans);
  // A column of zeros: its low is still kNone, the only value with the sign bit set.
  const vuint16m1_t empty =
      __riscv_vreinterpret_v_i16m1_u16m1(__riscv_vsra_vx_i16m1(__riscv_vreinterpret_v_u16m1_i16m1(low), 15, kVector16));
  low = __riscv_vand_vv_u16m1(low, inverted(empty), kVector16);
  store_register(spread, __riscv_vsub_vv_u16m1(high, low, kVector16));
  for (unsigned half = 0; half < kHalves; ++half) {
    const std::uint16_t* from = spread + half * kBlockColumns;
    largest_spread[half] = *std::max_element(from, from + kBlockColumns);
  }
  const vint32m2_t low32 = __riscv_vreinterpret_v_u32m2_i32m2(__riscv_vzext_vf2_u32m2(low, kVector16));
  store_registers2(exponent,
                   __riscv_vsll_vx_i32m2(__riscv_vadd_vx_i32m2(low32, kUnitProduct, kVector16), 23, kVector16));
  const bool also_narrow = std::min(largest_spread[0], largest_spread[1]) <= kNarrowSpread;
  for (unsigned k = 0; k < depth; ++k) convert(k, masked(sticks[k], mask), low, also_narrow);
  for (unsigned k = depth; k < kChunk; ++k) convert(k, splat(0), low, also_narrow);
  sum_terms();
}

void ColumnPanel::sum_terms() {
  constexpr std::size_t vl = kVector64;
  for (unsigned part = 0; part < 2 * kHalves; ++part) {
    const unsigned half = part / 2;
    const unsigned first = part % 2 * kVector64;
    vint64m1_t sum = __riscv_vmv_v_x_i64m1(0, vl);
    for (unsigned k = 0; k < kChunk; k += 2) {
      const vint64m1_t product =
          __riscv_vmul_vv_i64m1(load_doubles(&wide[half][k][first]), load_doubles(&wide[half][k + 1][first]), vl);
      sum = __riscv_vsub_vv_i64m1(sum, product, vl);
    }
    store_register(&wide_term[half][first], sum);
  }
  // The narrow values are the same integers, so their terms are these modulo 2^32.
  for (unsigned half = 0; half < kHalves; ++half) {
    for (unsigned column = 0; column < kBlockColumns; ++column) {
      narrow_term[half][column] = static_cast<std::int32_t>(wide_term[half][column]);
    }
  }
}

void ColumnPanel::convert(unsigned k, vuint16m1_t stick, vuint16m1_t low, bool also_narrow) {
  const Decoded d = decode(stick);
  const vuint16m1_t shift =
      __riscv_vand_vv_u16m1(__riscv_vsub_vv_u16m1(d.exponent, low, kVector16), d.counts, kVector16);
  const vint64m4_t wide_value = __riscv_vsll_vv_i64m4(__riscv_vsext_vf4_i64m4(d.significand, kVector16),
                                                      __riscv_vzext_vf4_u64m4(shift, kVector16), kVector16);
  store_registers2(wide[0][k], __riscv_vget_v_i64m4_i64m2(wide_value, 0));
  store_registers2(wide[1][k], __riscv_vget_v_i64m4_i64m2(wide_value, 1));
  if (!also_narrow) return;
  const vint32m2_t narrow_value = __riscv_vsll_vv_i32m2(__riscv_vsext_vf2_i32m2(d.significand, kVector16),
                                                        __riscv_vzext_vf2_u32m2(shift, kVector16), kVector16);
  store_register(narrow[0][k], __riscv_vget_v_i32m2_i32m1(narrow_value, 0));
  store_register(narrow[1][k], __riscv_vget_v_i32m2_i32m1(narrow_value, 1));
}

}  // namespace kernel::matmul
