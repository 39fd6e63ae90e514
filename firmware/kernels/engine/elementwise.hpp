// SPDX-License-Identifier: Apache-2.0
// Functions of sticks over rows. V is the integer lanes of the format: vint16m1_t or vint32m1_t.
#pragma once

#include "firmware/kernels/engine/lanes.hpp"
#include "firmware/kernels/engine/rows.hpp"

namespace kernel::engine {

template <typename V, typename Function>
void for_each_stick(const Rows& rows, Function function)
  requires requires(V v) { function(v); }
{
  const std::byte* a = rows.in[0];
  std::byte* out = rows.out;
  for (std::uint64_t n = rows.count; n > 0; --n) {
    lanes::store<V>(out, function(lanes::load<V>(a)));
    a += rows.in_step[0];
    out += rows.out_step;
  }
}

template <typename V, typename Function>
void for_each_stick(const Rows& rows, Function function)
  requires requires(V v) { function(v, v); }
{
  const std::byte* a = rows.in[0];
  const std::byte* b = rows.in[1];
  std::byte* out = rows.out;
  for (std::uint64_t n = rows.count; n > 0; --n) {
    lanes::store<V>(out, function(lanes::load<V>(a), lanes::load<V>(b)));
    a += rows.in_step[0];
    b += rows.in_step[1];
    out += rows.out_step;
  }
}

template <typename V, typename Function>
void for_each_stick(const Rows& rows, Function function)
  requires requires(V v) { function(v, v, v); }
{
  const std::byte* a = rows.in[0];
  const std::byte* b = rows.in[1];
  const std::byte* c = rows.in[2];
  std::byte* out = rows.out;
  for (std::uint64_t n = rows.count; n > 0; --n) {
    lanes::store<V>(out, function(lanes::load<V>(a), lanes::load<V>(b), lanes::load<V>(c)));
    a += rows.in_step[0];
    b += rows.in_step[1];
    c += rows.in_step[2];
    out += rows.out_step;
  }
}

// All sticks of the operation: `function` takes as many as there are inputs.
template <typename V, typename Function>
Refusal apply(RowWalk& walk, Function function) {
  return walk.for_each([&function](const Rows& rows) { for_each_stick<V>(rows, function); });
}

}  // namespace kernel::engine
