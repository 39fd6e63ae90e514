// SPDX-License-Identifier: Apache-2.0
// Sticks in vector registers. Whole-register moves with 8-bit elements are one host memcpy under the emulator, for one
// register or eight; the compiler's own choice of element size would be an element loop.
#pragma once

#include <riscv_vector.h>

#include <cstddef>
#include <cstdint>

namespace kernel {

inline constexpr std::size_t kVector16 = 64;  // elements of one register, by width: VLEN is 1024
inline constexpr std::size_t kVector32 = 32;
inline constexpr std::size_t kVector64 = 16;

// With the inexact flag set the emulator adds and converts with the host's floating-point unit; nothing here reads it.
inline void enable_host_float() { asm volatile("csrwi fflags, 1"); }

inline vuint16m1_t load_stick(const void* from) {
  vuint16m1_t v;
  asm volatile("vl1re8.v %0, (%1)" : "=vr"(v) : "r"(from) : "memory");
  return v;
}
inline vuint16m8_t load_sticks8(const void* from) {
  vuint16m8_t v;
  asm volatile("vl8re8.v %0, (%1)" : "=vr"(v) : "r"(from) : "memory");
  return v;
}
// `visit` gets each of the eight, in order.
template <typename Visit>
inline void for_each_of(vuint16m8_t sticks, Visit visit) {
  visit(__riscv_vget_v_u16m8_u16m1(sticks, 0));
  visit(__riscv_vget_v_u16m8_u16m1(sticks, 1));
  visit(__riscv_vget_v_u16m8_u16m1(sticks, 2));
  visit(__riscv_vget_v_u16m8_u16m1(sticks, 3));
  visit(__riscv_vget_v_u16m8_u16m1(sticks, 4));
  visit(__riscv_vget_v_u16m8_u16m1(sticks, 5));
  visit(__riscv_vget_v_u16m8_u16m1(sticks, 6));
  visit(__riscv_vget_v_u16m8_u16m1(sticks, 7));
}
inline vint32m1_t load_words(const void* from) {
  vint32m1_t v;
  asm volatile("vl1re8.v %0, (%1)" : "=vr"(v) : "r"(from) : "memory");
  return v;
}
inline vint64m1_t load_doubles(const void* from) {
  vint64m1_t v;
  asm volatile("vl1re8.v %0, (%1)" : "=vr"(v) : "r"(from) : "memory");
  return v;
}
template <typename V>
inline void store_register(void* to, V v) {
  asm volatile("vs1r.v %0, (%1)" : : "vr"(v), "r"(to) : "memory");
}
template <typename V>
inline void store_registers2(void* to, V v) {
  asm volatile("vs2r.v %0, (%1)" : : "vr"(v), "r"(to) : "memory");
}
template <typename V>
inline void store_registers8(void* to, V v) {
  asm volatile("vs8r.v %0, (%1)" : : "vr"(v), "r"(to) : "memory");
}

// The same registers as types of known size, so that they can be members (-mrvv-vector-bits=zvl).
using FixedInt16 = vint16m1_t __attribute__((riscv_rvv_vector_bits(__riscv_v_fixed_vlen)));
using FixedUint16 = vuint16m1_t __attribute__((riscv_rvv_vector_bits(__riscv_v_fixed_vlen)));
using FixedInt32 = vint32m1_t __attribute__((riscv_rvv_vector_bits(__riscv_v_fixed_vlen)));
using FixedInt64 = vint64m1_t __attribute__((riscv_rvv_vector_bits(__riscv_v_fixed_vlen)));
using FixedFloat32 = vfloat32m1_t __attribute__((riscv_rvv_vector_bits(__riscv_v_fixed_vlen)));
static_assert(sizeof(FixedInt16) == 128, "kernels are compiled for VLEN 1024");

// A stick taken apart. Lanes that hold zero, infinity or NaN have significand 0; `counts` has all bits set in the other
// lanes.
struct Decoded {
  FixedInt16 significand;  // signed, 512 … 1023 in magnitude
  FixedUint16 exponent;
  FixedUint16 counts;
  FixedUint16 nan;  // all bits set where the code is infinity or NaN
};

inline Decoded decode(vuint16m1_t stick) {
  constexpr std::size_t vl = kVector16;
  const vint16m1_t bits = __riscv_vreinterpret_v_u16m1_i16m1(stick);
  const vint16m1_t magnitude = __riscv_vand_vx_i16m1(bits, 0x7FFF, vl);
  // No compares: they would be helpers. The sign bits of -magnitude and of magnitude + 2 tell zero and what is not
  // finite.
  const vint16m1_t nonzero = __riscv_vsra_vx_i16m1(__riscv_vrsub_vx_i16m1(magnitude, 0, vl), 15, vl);
  const vint16m1_t nan = __riscv_vsra_vx_i16m1(__riscv_vadd_vx_i16m1(magnitude, 2, vl), 15, vl);
  const vint16m1_t counts = __riscv_vand_vv_i16m1(nonzero, __riscv_vxor_vx_i16m1(nan, -1, vl), vl);
  const vint16m1_t sign = __riscv_vsra_vx_i16m1(bits, 15, vl);
  vint16m1_t significand = __riscv_vor_vx_i16m1(__riscv_vand_vx_i16m1(bits, 0x1FF, vl), 0x200, vl);
  significand = __riscv_vsub_vv_i16m1(__riscv_vxor_vv_i16m1(significand, sign, vl), sign, vl);
  return {__riscv_vand_vv_i16m1(significand, counts, vl),
          __riscv_vreinterpret_v_i16m1_u16m1(__riscv_vsra_vx_i16m1(magnitude, 9, vl)),
          __riscv_vreinterpret_v_i16m1_u16m1(counts), __riscv_vreinterpret_v_i16m1_u16m1(nan)};
}

// Signed significands of a stick of finite numbers: 0 where the number is.
inline vint16m1_t significands_of(vuint16m1_t stick) {
  constexpr std::size_t vl = kVector16;
  const vint16m1_t bits = __riscv_vreinterpret_v_u16m1_i16m1(stick);
  const vint16m1_t magnitude = __riscv_vand_vx_i16m1(bits, 0x7FFF, vl);
  const vint16m1_t nonzero = __riscv_vsra_vx_i16m1(__riscv_vrsub_vx_i16m1(magnitude, 0, vl), 15, vl);
  const vint16m1_t sign = __riscv_vsra_vx_i16m1(bits, 15, vl);
  const vint16m1_t significand = __riscv_vor_vx_i16m1(__riscv_vand_vx_i16m1(bits, 0x1FF, vl), 0x200, vl);
  return __riscv_vand_vv_i16m1(__riscv_vsub_vv_i16m1(__riscv_vxor_vv_i16m1(significand, sign, vl), sign, vl), nonzero,
                               vl);
}
// And their exponents, 0 of a zero.
inline vuint16m1_t exponents_of(vuint16m1_t stick) {
  return __riscv_vsrl_vx_u16m1(__riscv_vand_vx_u16m1(stick, 0x7FFF, kVector16), 9, kVector16);
}

}  // namespace kernel
