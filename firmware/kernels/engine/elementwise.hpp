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
  if (step == wire::kStickBytes) return *reinterpret_cast<const Few*>(from);
  using V = vint8m1_t;
  return __riscv_vcreate_v_i8m1_i8m4(lanes::load<V>(from), lanes::load<V>(from + step), lanes::load<V>(from + 2 * step),
                                     lanes::load<V>(from + 3 * step));
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
    on_few<V>(function, rows, n, load_few(rows.in[kInput] + n * rows.in_step[kInput], rows.in_step[kInput])...);
  }
  for (; n < rows.count; ++n) {
    lanes::store(rows.out + n * rows.out_step,
                 result_of<V>(function, lanes::load<vint8m1_t>(rows.in[kInput] + n * rows.in_step[kInput])...));
  }
}

// All sticks of the operation: `function` takes as many as there are inputs.
template <typename V, typename Function>
Refusal apply(RowWalk& walk, Function function) {
  return walk.for_each([&function](const Rows& given) {
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
