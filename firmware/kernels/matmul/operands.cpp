// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/matmul/operands.hpp"

#include <algorithm>

#include "firmware/kernels/matmul/numbers.hpp"

namespace kernel::matmul {
namespace {

constexpr std::uint16_t kNone = 0xFFFF;

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

// A row of 64 columns as 64-bit integers; column 4 i + n is lane i of part n.
struct WideRow {
  FixedInt64 part0;
  FixedInt64 part1;
  FixedInt64 part2;
  FixedInt64 part3;

  void store(std::int64_t* half0, std::int64_t* half1) const {
    store_register<vint64m1_t>(half0, part0);
    store_register<vint64m1_t>(half0 + kVector64, part2);
    store_register<vint64m1_t>(half1, part1);
    store_register<vint64m1_t>(half1 + kVector64, part3);
  }
  void subtract_product(const WideRow& a, const WideRow& b) {
    constexpr std::size_t vl = kVector64;
    part0 = __riscv_vsub_vv_i64m1(part0, __riscv_vmul_vv_i64m1(a.part0, b.part0, vl), vl);
    part1 = __riscv_vsub_vv_i64m1(part1, __riscv_vmul_vv_i64m1(a.part1, b.part1, vl), vl);
    part2 = __riscv_vsub_vv_i64m1(part2, __riscv_vmul_vv_i64m1(a.part2, b.part2, vl), vl);
    part3 = __riscv_vsub_vv_i64m1(part3, __riscv_vmul_vv_i64m1(a.part3, b.part3, vl), vl);
  }
};

// Each column in units of its exponent `low`. No arithmetic shift of 64-bit lanes, which is a helper on some hosts: the
// significands are made positive before they come apart, and negative again afterwards. Shifts look at the low six bits
// of a distance only, and a zero stays zero.
template <typename Numbers>
WideRow wide_row(vuint16m1_t stick, vuint16m1_t low) {
  constexpr std::size_t vl = kVector64;
  constexpr std::uint16_t kBias = 0x8000;
  const Decoded d = Numbers::decode(stick);
  const vuint64m1_t significands = __riscv_vreinterpret_v_u16m1_u64m1(
      __riscv_vxor_vx_u16m1(__riscv_vreinterpret_v_i16m1_u16m1(d.significand), kBias, kVector16));
  const vuint64m1_t distance = __riscv_vreinterpret_v_u16m1_u64m1(__riscv_vsub_vv_u16m1(d.exponent, low, kVector16));
  const auto value = [](vuint64m1_t biased, vuint64m1_t shift) {
    const vint64m1_t significand = __riscv_vreinterpret_v_u64m1_i64m1(biased);
    return __riscv_vsll_vv_i64m1(__riscv_vadd_vx_i64m1(significand, -std::int64_t{kBias}, vl), shift, vl);
  };
  const auto lane = [&](unsigned n) {
    return __riscv_vsrl_vx_u64m1(__riscv_vsll_vx_u64m1(significands, 48 - 16 * n, vl), 48, vl);
  };
  const auto shift = [&](unsigned n) { return __riscv_vsrl_vx_u64m1(distance, 16 * n, vl); };
  return {value(lane(0), distance), value(lane(1), shift(1)), value(lane(2), shift(2)), value(lane(3), shift(3))};
}

// The same as 32-bit integers: the even columns and the odd ones.
struct NarrowRow {
  FixedInt32 even;
  FixedInt32 odd;

  void store(std::int32_t* half0, std::int32_t* half1) const {
    store_half(half0, even);
    store_half(half1, odd);
  }
  void subtract_product(const NarrowRow& a, const NarrowRow& b) {
    constexpr std::size_t vl = kVector32;
    even = __riscv_vsub_vv_i32m1(even, __riscv_vmul_vv_i32m1(a.even, b.even, vl), vl);
    odd = __riscv_vsub_vv_i32m1(odd, __riscv_vmul_vv_i32m1(a.odd, b.odd, vl), vl);
  }

 private:
  // In the order of column_of().
  static void store_half(std::int32_t* to, vint32m1_t values) {
    const vint64m1_t both = __riscv_vreinterpret_v_i32m1_i64m1(values);
    __riscv_vse32_v_i32mf2(to, __riscv_vnsra_wx_i32mf2(both, 0, kVector64), kVector64);
    __riscv_vse32_v_i32mf2(to + kVector64, __riscv_vnsra_wx_i32mf2(both, 32, kVector64), kVector64);
  }
};

template <typename Numbers>
NarrowRow narrow_row(vuint16m1_t stick, vuint16m1_t low) {
  constexpr std::size_t vl = kVector32;
  const Decoded d = Numbers::decode(stick);
  const vuint32m1_t shift = __riscv_vreinterpret_v_u16m1_u32m1(__riscv_vsub_vv_u16m1(d.exponent, low, kVector16));
  const vint32m1_t pair = __riscv_vreinterpret_v_i16m1_i32m1(d.significand);
  const vint32m1_t even = __riscv_vsra_vx_i32m1(__riscv_vsll_vx_i32m1(pair, 16, vl), 16, vl);
  const vint32m1_t odd = __riscv_vsra_vx_i32m1(pair, 16, vl);
  return {__riscv_vsll_vv_i32m1(even, shift, vl), __riscv_vsll_vv_i32m1(odd, __riscv_vsrl_vx_u32m1(shift, 16, vl), vl)};
}

}  // namespace

void LaneMask::set(std::uint64_t count) {
  constexpr std::size_t vl = kVector16;
  static_assert(kNone == 0xFFFF);
  // Lane i less the count is negative where the lane counts, and its sign fills the lane.
  const auto most = static_cast<std::int16_t>(count < kLanes ? count : kLanes);
  const vint16m1_t beyond =
      __riscv_vsub_vx_i16m1(__riscv_vreinterpret_v_u16m1_i16m1(__riscv_vid_v_u16m1(vl)), most, vl);
  store_register(lane, __riscv_vsra_vx_i16m1(beyond, 15, vl));
}

// ---- A --------------------------------------------------------------------------------------------------------------

template <typename Numbers>
void RowGroup::load(const void* const (&sticks)[kGroupRows], unsigned rows, const LaneMask& mask, std::uint8_t* nan) {
  largest_spread = 0;
  for (unsigned row = 0; row < kGroupRows; ++row) {
    if (row < rows) {
      load_row<Numbers>(row, masked(sticks[row], mask), nan[row]);
    } else {
      clear_row(row);
      exponent[row] = 0;
      spread[row] = 0;
    }
    largest_spread = std::max(largest_spread, spread[row]);
  }
}

template <typename Numbers>
void RowGroup::load_row(unsigned row, vuint16m1_t stick, std::uint8_t& nan) {
  const Decoded d = Numbers::decode(stick);
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
  if (spread[row] > Spreads<Numbers>::kRow) {
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

// Zeros do not count: less one, they are the largest magnitude. What a NaN does to the exponents of its column does not
// matter, because the column's results are replaced; its spread is kept small.
template <typename Numbers>
vuint16m1_t ColumnPanel::measure(const void* const (&sticks)[kChunk], unsigned depth, const LaneMask& mask,
                                 std::uint16_t* nan) {
  constexpr std::size_t vl = kVector16;
  vuint16m1_t below_smallest = splat(kNone);
  vuint16m1_t high = splat(0);
  for (unsigned k = 0; k < depth; ++k) {
    const vuint16m1_t magnitude = Numbers::magnitudes(load_stick(sticks[k]));
    below_smallest = __riscv_vminu_vv_u16m1(below_smallest, __riscv_vsub_vx_u16m1(magnitude, 1, vl), vl);
    high = __riscv_vmaxu_vv_u16m1(high, magnitude, vl);
  }
  const vuint16m1_t lanes = load_stick(mask.lane);
  const vuint16m1_t nans = __riscv_vand_vv_u16m1(Numbers::nans(high), lanes, vl);
  store_register(nan, __riscv_vor_vv_u16m1(load_stick(nan), nans, vl));
  const vuint16m1_t numbers = __riscv_vand_vv_u16m1(inverted(nans), lanes, vl);
  const auto exponents_of = [&](vuint16m1_t magnitude) {
    return __riscv_vand_vv_u16m1(Numbers::exponents_of(magnitude), numbers, vl);
  };
  const vuint16m1_t low = exponents_of(__riscv_vadd_vx_u16m1(below_smallest, 1, vl));  // a column of zeros: of zero
  set_exponents(low, exponents_of(high), 2 * Numbers::kUnitExponent);
  return low;
}

template <typename Numbers>
void ColumnPanel::load(const void* const (&sticks)[kChunk], unsigned depth, const LaneMask& mask, std::uint16_t* nan,
                       const RowSpreads& rows) {
  const vuint16m1_t low = measure<Numbers>(sticks, depth, mask, nan);
  const auto row = [&](unsigned k) { return k < depth ? masked(sticks[k], mask) : splat(0); };
  constexpr unsigned kNarrow = Spreads<Numbers>::kNarrow;
  if (rows.largest + std::max(largest_spread[0], largest_spread[1]) > kNarrow) load_wide<Numbers>(row, low);
  if (rows.smallest + std::min(largest_spread[0], largest_spread[1]) <= kNarrow) load_narrow<Numbers>(row, low);
}

template <typename Numbers, typename Row>
void ColumnPanel::load_wide(Row row, vuint16m1_t low) {
  const vint64m1_t zero = __riscv_vmv_v_x_i64m1(0, kVector64);
  WideRow terms{zero, zero, zero, zero};
  for (unsigned k = 0; k < kChunk; k += 2) {
    const WideRow first = wide_row<Numbers>(row(k), low);
    const WideRow second = wide_row<Numbers>(row(k + 1), low);
    first.store(wide[0][k], wide[1][k]);
    second.store(wide[0][k + 1], wide[1][k + 1]);
    terms.subtract_product(first, second);
  }
  terms.store(wide_term[0], wide_term[1]);
}

template <typename Numbers, typename Row>
void ColumnPanel::load_narrow(Row row, vuint16m1_t low) {
  const vint32m1_t zero = __riscv_vmv_v_x_i32m1(0, kVector32);
  NarrowRow terms{zero, zero};
  for (unsigned k = 0; k < kChunk; k += 2) {
    const NarrowRow first = narrow_row<Numbers>(row(k), low);
    const NarrowRow second = narrow_row<Numbers>(row(k + 1), low);
    first.store(narrow[0][k], narrow[1][k]);
    second.store(narrow[0][k + 1], narrow[1][k + 1]);
    terms.subtract_product(first, second);
  }
  terms.store(narrow_term[0], narrow_term[1]);
}

void ColumnPanel::set_exponents(vuint16m1_t low, vuint16m1_t high, std::int32_t unit_product) {
  alignas(wire::kStickBytes) std::uint16_t lows[kLanes];
  alignas(wire::kStickBytes) std::uint16_t spreads[kLanes];
  store_register(lows, low);
  store_register(spreads, __riscv_vsub_vv_u16m1(high, low, kVector16));
  for (unsigned half = 0; half < kHalves; ++half) {
    largest_spread[half] = 0;
    for (unsigned i = 0; i < kBlockColumns; ++i) {
      const unsigned column = column_of(half, i);
      exponent[half][i] = (std::int32_t{lows[column]} + unit_product) * (1 << 23);
      spread[half][i] = spreads[column];
      largest_spread[half] = std::max<std::uint32_t>(largest_spread[half], spreads[column]);
    }
  }
}

template void RowGroup::load<Dl16Numbers>(const void* const (&)[kGroupRows], unsigned, const LaneMask&, std::uint8_t*);
template void RowGroup::load<E4m3Numbers>(const void* const (&)[kGroupRows], unsigned, const LaneMask&, std::uint8_t*);
template vuint16m1_t ColumnPanel::measure<Dl16Numbers>(const void* const (&)[kChunk], unsigned, const LaneMask&,
                                                       std::uint16_t*);
template vuint16m1_t ColumnPanel::measure<E4m3Numbers>(const void* const (&)[kChunk], unsigned, const LaneMask&,
                                                       std::uint16_t*);
template void ColumnPanel::load<Dl16Numbers>(const void* const (&)[kChunk], unsigned, const LaneMask&, std::uint16_t*,
                                             const RowSpreads&);
template void ColumnPanel::load<E4m3Numbers>(const void* const (&)[kChunk], unsigned, const LaneMask&, std::uint16_t*,
                                             const RowSpreads&);

}  // namespace kernel::matmul
