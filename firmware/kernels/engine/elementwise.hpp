// SPDX-License-Identifier: Apache-2.0
// Functions of sticks over rows. V is the integer lanes of the format: vint8m1_t, vint16m1_t or vint32m1_t.
#pragma once

#include <concepts>

#include "firmware/kernels/engine/lanes.hpp"
#include "firmware/kernels/engine/rows.hpp"

namespace kernel::engine {

// Four sticks are moved at a time where they follow each other: a move costs as much as several operations.
inline constexpr std::uint64_t kFew = 4;
using Few = vint8m4_t;

inline Few load_few(const std::byte* from, std::uint64_t step) {
  using V = vint8m1_t;
  if (step == wire::kStickBytes) return *reinterpret_cast<const Few*>(from);
  const V first = lanes::load<V>(from);
  if (step == 0) return __riscv_vcreate_v_i8m1_i8m4(first, first, first, first);
  return __riscv_vcreate_v_i8m1_i8m4(first, lanes::load<V>(from + step), lanes::load<V>(from + 2 * step),
                                     lanes::load<V>(from + 3 * step));
}

// Sticks that hold one element each.
template <typename V>
vint8m1_t stick_of(const std::byte* element) {
  return lanes::as_bytes(lanes::splat_of(*reinterpret_cast<const lanes::Element<V>*>(element)));
}
template <typename V>
Few few_of(const std::byte* elements, std::uint64_t step) {
  return __riscv_vcreate_v_i8m1_i8m4(stick_of<V>(elements), stick_of<V>(elements + step),
                                     stick_of<V>(elements + 2 * step), stick_of<V>(elements + 3 * step));
}

// Of an input, from stick n on: four, or one.
template <typename V>
Few load_few(const Rows& rows, unsigned input, std::uint64_t n) {
  const std::uint64_t step = rows.in_step[input];
  const std::byte* const from = rows.in[input] + n * step;
  return rows.single[input] ? few_of<V>(from, step) : load_few(from, step);
}
template <typename V>
vint8m1_t load_one(const Rows& rows, unsigned input, std::uint64_t n) {
  const std::byte* const from = rows.in[input] + n * rows.in_step[input];
  return rows.single[input] ? stick_of<V>(from) : lanes::load<vint8m1_t>(from);
}

template <std::size_t kIndex>
vint8m1_t part_of(Few few) {
  return __riscv_vget_i8m1(few, kIndex);
}

inline void store_few(std::byte* to, std::uint64_t step, Few few) {
  if (step == wire::kStickBytes) {
    *reinterpret_cast<Few*>(to) = few;
    return;
  }
  lanes::store(to, part_of<0>(few));
  lanes::store(to + step, part_of<1>(few));
  lanes::store(to + 2 * step, part_of<2>(few));
  lanes::store(to + 3 * step, part_of<3>(few));
}

// The function on bytes.
template <typename V, typename Function, typename... Sticks>
vint8m1_t result_of(Function function, Sticks... sticks) {
  return lanes::as_bytes(function(lanes::from_bytes<V>(sticks)...));
}

template <typename V, typename Function, typename... Inputs>
void on_few(Function function, const Rows& rows, std::uint64_t n, Inputs... inputs) {
  store_few(rows.out + n * rows.out_step, rows.out_step,
            __riscv_vcreate_v_i8m1_i8m4(
                result_of<V>(function, part_of<0>(inputs)...), result_of<V>(function, part_of<1>(inputs)...),
                result_of<V>(function, part_of<2>(inputs)...), result_of<V>(function, part_of<3>(inputs)...)));
}

template <typename V, unsigned... kInput, typename Function>
void for_each_stick(const Rows& rows, Function function) {
  std::uint64_t n = 0;
  for (; n + kFew <= rows.count; n += kFew) {
    on_few<V>(function, rows, n, load_few<V>(rows, kInput, n)...);
  }
  for (; n < rows.count; ++n) {
    lanes::store(rows.out + n * rows.out_step, result_of<V>(function, load_one<V>(rows, kInput, n)...));
  }
}

// All sticks of the operation: `function` takes as many as there are inputs.
template <typename V, typename Function>
Refusal apply(RowWalk& walk, Function function) {
  return walk.for_each_given([&function](const Rows& given) {
    const Rows rows = given;
    if constexpr (std::invocable<Function, V>) {
      for_each_stick<V, 0>(rows, function);
    } else if constexpr (std::invocable<Function, V, V>) {
      for_each_stick<V, 0, 1>(rows, function);
    } else {
      for_each_stick<V, 0, 1, 2>(rows, function);
    }
  });
}

}  // namespace kernel::engine
