// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/matmul/few_rows.hpp"

#include <algorithm>

#include "firmware/kernels/matmul/numbers.hpp"

namespace kernel::matmul {
namespace {

constexpr std::size_t kWords = kVector64;
constexpr std::uint16_t kBias = 0x8000;

// 64 columns of one k: significands made positive, so that they come apart without arithmetic shifts of 64-bit lanes
// (helpers of the emulator on some hosts), and how far each is above the unit of its column.
struct Packed {
  FixedInt64 significands;
  FixedInt64 distances;
};

// What a NaN gives is replaced at the end. A zero stays zero, whatever it is shifted by.
template <typename Numbers>
Packed packed(vuint16m1_t stick, vuint16m1_t low) {
  constexpr std::size_t vl = kVector16;
  const vint16m1_t biased = __riscv_vxor_vx_i16m1(Numbers::significands(stick), static_cast<std::int16_t>(kBias), vl);
  const vint16m1_t distance =
      __riscv_vreinterpret_v_u16m1_i16m1(__riscv_vsub_vv_u16m1(Numbers::exponents(stick), low, vl));
  return {__riscv_vreinterpret_v_i16m1_i64m1(biased), __riscv_vreinterpret_v_i16m1_i64m1(distance)};
}

// Columns 4 i + kPart in units, as 64-bit lanes.
template <unsigned kPart>
vint64m1_t part_of(const Packed& p) {
  constexpr unsigned kShift = 16 * kPart;
  vuint64m1_t lane = __riscv_vreinterpret_v_i64m1_u64m1(p.significands);
  if constexpr (kPart < 3) lane = __riscv_vsll_vx_u64m1(lane, 48 - kShift, kWords);
  lane = __riscv_vsrl_vx_u64m1(lane, 48, kWords);
  vuint64m1_t distance = __riscv_vreinterpret_v_i64m1_u64m1(p.distances);
  if constexpr (kPart > 0) distance = __riscv_vsrl_vx_u64m1(distance, kShift, kWords);
  const vint64m1_t significand =
      __riscv_vadd_vx_i64m1(__riscv_vreinterpret_v_u64m1_i64m1(lane), -std::int64_t{kBias}, kWords);
  return __riscv_vsll_vv_i64m1(significand, distance, kWords);  // looks at the low six bits of a distance
}

// The sums of one row: part n has columns 4 i + n.
struct Sums {
  FixedInt64 part[4];
};

template <unsigned kRows, unsigned kPart>
void add_part(Sums (&sums)[kRows], const Packed& b, const std::int64_t* a) {
  const vint64m1_t column = part_of<kPart>(b);
#pragma clang loop unroll(full)
  for (unsigned row = 0; row < kRows; ++row) {
    sums[row].part[kPart] =
        __riscv_vadd_vv_i64m1(sums[row].part[kPart], __riscv_vmul_vx_i64m1(column, a[row], kWords), kWords);
  }
}

template <unsigned kRows>
void add_products(Sums (&sums)[kRows], const Packed& b, const std::int64_t* a) {
  add_part<kRows, 0>(sums, b, a);
  add_part<kRows, 1>(sums, b, a);
  add_part<kRows, 2>(sums, b, a);
  add_part<kRows, 3>(sums, b, a);
}

// Rounded once to fp32, brought to their weight, and added.
void finish(vint64m1_t low, vint64m1_t high, const std::int32_t* column_exponents, std::int32_t row_exponent,
            float* to) {
  constexpr std::size_t vl = kVector32;
  const vint64m2_t exact = __riscv_vcreate_v_i64m1_i64m2(low, high);
  const vint32m1_t units = __riscv_vreinterpret_v_f32m1_i32m1(__riscv_vfncvt_f_x_w_f32m1(exact, vl));
  const vint32m1_t nonzero =
      __riscv_vsra_vx_i32m1(__riscv_vor_vv_i32m1(units, __riscv_vrsub_vx_i32m1(units, 0, vl), vl), 31, vl);
  const vint32m1_t weight = __riscv_vadd_vx_i32m1(load_words(column_exponents), row_exponent, vl);
  const vfloat32m1_t sum =
      __riscv_vreinterpret_v_i32m1_f32m1(__riscv_vadd_vv_i32m1(units, __riscv_vand_vv_i32m1(nonzero, weight, vl), vl));
  store_register(to, __riscv_vfadd_vv_f32m1(__riscv_vreinterpret_v_i32m1_f32m1(load_words(to)), sum, vl));
}

template <typename Numbers, unsigned kRows>
void multiply_rows(const FewRows& a, const void* const* sticks, unsigned depth, const ColumnPanel& columns,
                   vuint16m1_t low, float (*sums0)[kBlockColumns], float (*sums1)[kBlockColumns]) {
  Sums sums[kRows];
#pragma clang loop unroll(full)
  for (unsigned row = 0; row < kRows; ++row) {
    const vint64m1_t zero = __riscv_vmv_v_x_i64m1(0, kWords);
    sums[row].part[0] = sums[row].part[1] = sums[row].part[2] = sums[row].part[3] = zero;
  }
  unsigned k = 0;
  for (; k + 2 <= depth; k += 2) {  // two at a time: half as many changes of the element's width
    const Packed first = packed<Numbers>(load_stick(sticks[k]), low);
    const Packed second = packed<Numbers>(load_stick(sticks[k + 1]), low);
    add_products(sums, first, a.value[k]);
    add_products(sums, second, a.value[k + 1]);
  }
  if (k < depth) add_products(sums, packed<Numbers>(load_stick(sticks[k]), low), a.value[k]);
#pragma clang loop unroll(full)
  for (unsigned row = 0; row < kRows; ++row) {
    finish(sums[row].part[0], sums[row].part[2], columns.exponent[0], a.exponent[row], sums0[row]);
    finish(sums[row].part[1], sums[row].part[3], columns.exponent[1], a.exponent[row], sums1[row]);
  }
}

}  // namespace

void FewRows::clear() {
  largest_spread = 0;
  count = 0;
}

template <typename Numbers>
void FewRows::add(const void* stick, unsigned depth, std::uint8_t& nan) {
  const auto* codes = static_cast<const std::uint16_t*>(stick);
  const auto counts = [](std::uint16_t code) {
    return !Numbers::is_nan(code) && Numbers::parts(code).significand != 0;
  };
  int low = 0xFFFF;
  int high = 0;
  for (unsigned k = 0; k < depth; ++k) {
    if (Numbers::is_nan(codes[k])) nan = 1;
    if (!counts(codes[k])) continue;
    const int of_code = Numbers::parts(codes[k]).exponent;
    low = std::min(low, of_code);
    high = std::max(high, of_code);
  }
  low = std::min(low, high);  // a row of zeros
  exponent[count] = low * (1 << 23);
  spread[count] = static_cast<std::uint32_t>(high - low);
  largest_spread = std::max(largest_spread, spread[count]);
  for (unsigned k = 0; k < depth; ++k) {
    value[k][count] = 0;
    if (!counts(codes[k])) continue;
    const Parts parts = Numbers::parts(codes[k]);
    value[k][count] = std::int64_t{parts.significand} << (parts.exponent - low);  // modulo 2^64
  }
  ++count;
}

template <typename Numbers>
void FewRows::multiply(const void* const (&sticks)[kChunk], unsigned depth, const ColumnPanel& columns, vuint16m1_t low,
                       float (*sums0)[kBlockColumns], float (*sums1)[kBlockColumns]) const {
  switch (count) {
    case 1: return multiply_rows<Numbers, 1>(*this, sticks, depth, columns, low, sums0, sums1);
    case 2: return multiply_rows<Numbers, 2>(*this, sticks, depth, columns, low, sums0, sums1);
    case 3: return multiply_rows<Numbers, 3>(*this, sticks, depth, columns, low, sums0, sums1);
    case 4: return multiply_rows<Numbers, 4>(*this, sticks, depth, columns, low, sums0, sums1);
    default: return;
  }
}

template void FewRows::add<Dl16Numbers>(const void*, unsigned, std::uint8_t&);
template void FewRows::add<E4m3Numbers>(const void*, unsigned, std::uint8_t&);
template void FewRows::multiply<Dl16Numbers>(const void* const (&)[kChunk], unsigned, const ColumnPanel&, vuint16m1_t,
                                             float (*)[kBlockColumns], float (*)[kBlockColumns]) const;
template void FewRows::multiply<E4m3Numbers>(const void* const (&)[kChunk], unsigned, const ColumnPanel&, vuint16m1_t,
                                             float (*)[kBlockColumns], float (*)[kBlockColumns]) const;

}  // namespace kernel::matmul
