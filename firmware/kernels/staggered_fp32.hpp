// SPDX-License-Identifier: Apache-2.0
// A stick of DL16 and two sticks of FP32 whose elements stand in it in turn, four each: the 64-bit lane 2 k + half of
// the DL16 stick holds elements 4 k … 4 k + 3 of the FP32 stick `half`.
#pragma once

#include "firmware/kernels/alternate_lanes.hpp"
#include "firmware/kernels/dl16_vector.hpp"

namespace kernel::staggered {

// Exact; NaN becomes 0x7FC00000.
inline vint32m1_t to_fp32(vuint16m1_t stick, unsigned half) {
  constexpr std::size_t vl = kVector64;
  const vuint64m1_t all = __riscv_vreinterpret_v_u16m1_u64m1(stick);
  const vuint64m1_t even = alternate_lanes(half == 0 ? all : __riscv_vslide1down_vx_u64m1(all, 0, vl), 0);
  const vuint64m1_t odd = __riscv_vslide1up_vx_u64m1(even, 0, vl);
  // Elements 0 and 1 of four in an even lane, 2 and 3 in the odd one behind it.
  const vuint64m1_t two =
      __riscv_vor_vv_u64m1(__riscv_vand_vx_u64m1(even, 0xFFFFFFFF, vl), __riscv_vsrl_vx_u64m1(odd, 32, vl), vl);
  const vuint64m1_t upper = __riscv_vand_vx_u64m1(__riscv_vsll_vx_u64m1(two, 16, vl), 0x0000FFFF00000000, vl);
  const vuint64m1_t codes = __riscv_vor_vv_u64m1(__riscv_vand_vx_u64m1(two, 0xFFFF, vl), upper, vl);
  return dl16::to_fp32(__riscv_vreinterpret_v_u32m1_i32m1(__riscv_vreinterpret_v_u64m1_u32m1(codes)));
}

// Of a stick of FP32, rounded as DL16 is; the other stick's elements are 0.
inline vuint16m1_t from_fp32(vuint16m1_t stick, unsigned half) {
  constexpr std::size_t vl = kVector64;
  const vint32m1_t bits = __riscv_vreinterpret_v_i16m1_i32m1(__riscv_vreinterpret_v_u16m1_i16m1(stick));
  vuint64m1_t two = __riscv_vreinterpret_v_u32m1_u64m1(__riscv_vreinterpret_v_i32m1_u32m1(dl16::from_fp32(bits)));
  two = __riscv_vand_vx_u64m1(__riscv_vor_vv_u64m1(two, __riscv_vsrl_vx_u64m1(two, 16, vl), vl), 0xFFFFFFFF, vl);
  const vuint64m1_t low = half == 0 ? two : __riscv_vslide1up_vx_u64m1(two, 0, vl);
  const vuint64m1_t high = half == 0 ? __riscv_vslide1down_vx_u64m1(two, 0, vl) : two;
  const vuint64m1_t four = __riscv_vor_vv_u64m1(low, __riscv_vsll_vx_u64m1(high, 32, vl), vl);
  return __riscv_vreinterpret_v_u64m1_u16m1(alternate_lanes(four, half));
}

}  // namespace kernel::staggered
