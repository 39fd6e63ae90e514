// SPDX-License-Identifier: Apache-2.0
// One stick as integer lanes of 8, 16 or 32 bits, and floating-point numbers in them seen as integers: DL16 in 16 bits,
// fp32 in 32. Only what the emulator does with the host's vector instructions; masks are lanes of all bits set or none.
#pragma once

#include <limits>
#include <type_traits>

#include "firmware/kernels/vector.hpp"
#include "shared/dl16.hpp"

namespace kernel::lanes {

template <typename V>
struct Kind;
template <>
struct Kind<vint8m1_t> {
  using Element = std::int8_t;
};
// Fields and particular codes of the number format.
template <>
struct Kind<vint16m1_t> {
  using Element = std::int16_t;
  static constexpr Element kNan = wire::kDl16Nan;
  static constexpr Element kOne = 0x3E00;
  static constexpr int kFractionBits = wire::kDl16FractionBits;
  static constexpr int kBias = wire::kDl16Bias;
};
template <>
struct Kind<vint32m1_t> {
  using Element = std::int32_t;
  static constexpr Element kNan = 0x7FC00000;
  static constexpr Element kOne = 0x3F800000;
  static constexpr int kFractionBits = 23;
  static constexpr int kBias = 127;
};

template <typename V>
using Element = typename Kind<V>::Element;
template <typename V>
inline constexpr std::size_t kCount = 128 / sizeof(Element<V>);
template <typename V>
inline constexpr int kSignShift = sizeof(Element<V>) * 8 - 1;
template <typename V>
inline constexpr Element<V> kLargest = std::numeric_limits<Element<V>>::max();
template <typename V>
inline constexpr Element<V> kSignBit = std::numeric_limits<Element<V>>::min();

template <typename V>
V from_bytes(vint8m1_t bytes) {
  if constexpr (sizeof(Element<V>) == 2) {
    return __riscv_vreinterpret_i16m1(bytes);
  } else if constexpr (sizeof(Element<V>) == 4) {
    return __riscv_vreinterpret_i32m1(bytes);
  } else {
    return bytes;
  }
}
template <typename V>
vint8m1_t as_bytes(V v) {
  if constexpr (sizeof(Element<V>) == 1) {
    return v;
  } else {
    return __riscv_vreinterpret_i8m1(v);
  }
}
// As 8-bit elements: the compiler makes whole-register moves of them, and no vsetvli beside each, which would end a
// block of the emulator.
template <typename V>
V load(const void* stick) {
  return from_bytes<V>(*static_cast<const vint8m1_t*>(stick));
}
template <typename V>
void store(void* stick, V v) {
  *static_cast<vint8m1_t*>(stick) = as_bytes(v);
}
inline vint8m1_t splat_of(std::int8_t value) { return __riscv_vmv_v_x_i8m1(value, 128); }
inline vint16m1_t splat_of(std::int16_t value) { return __riscv_vmv_v_x_i16m1(value, kVector16); }
inline vint32m1_t splat_of(std::int32_t value) { return __riscv_vmv_v_x_i32m1(value, kVector32); }

template <typename V>
V both(V a, V b) {
  return __riscv_vand(a, b, kCount<V>);
}
template <typename V>
V both(V a, Element<V> b) {
  return __riscv_vand(a, b, kCount<V>);
}
template <typename V>
V either(V a, V b) {
  return __riscv_vor(a, b, kCount<V>);
}
template <typename V>
V differing(V a, V b) {
  return __riscv_vxor(a, b, kCount<V>);
}
template <typename V>
V differing(V a, Element<V> b) {
  return __riscv_vxor(a, b, kCount<V>);
}
template <typename V>
V inverted(V a) {
  return __riscv_vxor(a, Element<V>{-1}, kCount<V>);
}
// `a` in lanes of the mask, `b` in the others.
template <typename V>
V select(V mask, V a, V b) {
  return differing(b, both(differing(a, b), mask));
}
template <typename V>
V sign_mask(V a) {
  return __riscv_vsra(a, kSignShift<V>, kCount<V>);
}
template <typename V>
V magnitude(V a) {
  return both(a, kLargest<V>);
}
template <typename V>
V negated(V a) {
  return __riscv_vrsub(a, Element<V>{0}, kCount<V>);
}
template <typename V>
V nonzero_mask(V a) {
  return sign_mask(either(a, negated(a)));
}

// ---- of floating-point numbers

// Of DL16, how far a code is from NaN, as a bit pattern below 0x8000: 0 of NaN.
inline vint16m1_t nan_distance(vint16m1_t a) { return differing(magnitude(a), Kind<vint16m1_t>::kNan); }
inline vint16m1_t nan_mask(vint16m1_t a) { return sign_mask(__riscv_vsub(nan_distance(a), 1, kVector16)); }
inline vint32m1_t nan_mask(vint32m1_t a) { return sign_mask(__riscv_vrsub(magnitude(a), 0x7F800000, kVector32)); }

inline vint16m1_t either_nan_mask(vint16m1_t a, vint16m1_t b) {
  return sign_mask(__riscv_vsub(__riscv_vmin(nan_distance(a), nan_distance(b), kVector16), 1, kVector16));
}
inline vint32m1_t either_nan_mask(vint32m1_t a, vint32m1_t b) {
  return nan_mask(__riscv_vmax(magnitude(a), magnitude(b), kVector32));
}

template <typename V>
V with_nan(V nan, V value) {
  return either(both(value, inverted(nan)), both(nan, Kind<V>::kNan));
}

// Ascends with the number; -0 below +0. Its own inverse.
template <typename V>
V order_of(V a) {
  return differing(a, both(sign_mask(a), kLargest<V>));
}
// Ascends with the number; the zeros are equal.
template <typename V>
V value_order_of(V a) {
  const V sign = sign_mask(a);
  return __riscv_vsub(differing(magnitude(a), sign), sign, kCount<V>);
}

template <typename V>
V larger_of(V a, V b) {
  const V larger = order_of(__riscv_vmax(order_of(a), order_of(b), kCount<V>));
  return with_nan(either_nan_mask(a, b), larger);
}
template <typename V>
V smaller_of(V a, V b) {
  const V smaller = order_of(__riscv_vmin(order_of(a), order_of(b), kCount<V>));
  return with_nan(either_nan_mask(a, b), smaller);
}
// Without regard to NaN.
template <typename V>
V less_mask(V a, V b) {
  const V order = value_order_of(a);
  return nonzero_mask(differing(order, __riscv_vmax(order, value_order_of(b), kCount<V>)));
}
template <typename V>
V differ_mask(V a, V b) {
  return nonzero_mask(differing(value_order_of(a), value_order_of(b)));
}

// The largest whole number that is not above; the sign of zero stays.
template <typename V>
V floor_of(V a) {
  constexpr int kFraction = Kind<V>::kFractionBits;
  constexpr std::size_t vl = kCount<V>;
  const V size = magnitude(a);
  const V negative = sign_mask(a);
  // Fraction bits below the units, for numbers from 1 up.
  const V below = __riscv_vrsub(__riscv_vsra(size, kFraction, vl), Element<V>{Kind<V>::kBias + kFraction}, vl);
  const V limited = __riscv_vmax(__riscv_vmin(below, splat_of(Element<V>{kFraction}), vl), splat_of(Element<V>{0}), vl);
  const auto shift = [](V distance) {
    if constexpr (sizeof(Element<V>) == 2) {
      return __riscv_vreinterpret_u16m1(distance);
    } else {
      return __riscv_vreinterpret_u32m1(distance);
    }
  };
  const V unit = __riscv_vsll(splat_of(Element<V>{1}), shift(limited), vl);
  const V fraction = __riscv_vsub(unit, Element<V>{1}, vl);
  const V step = both(both(nonzero_mask(both(size, fraction)), negative), unit);
  const V whole = both(__riscv_vadd(size, step, vl), inverted(fraction));
  // Below 1: 0, or -1 of what is negative and not zero.
  const V is_small = sign_mask(__riscv_vsub(size, Kind<V>::kOne, vl));
  const V small = both(both(nonzero_mask(size), negative), Kind<V>::kOne);
  const V result = either(select(is_small, small, whole), both(a, kSignBit<V>));
  return with_nan(nan_mask(a), result);
}

}  // namespace kernel::lanes
