// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/stretch.hpp"

#include "shared/units.hpp"

namespace kernel::engine {

[[gnu::noinline, gnu::aligned(1024)]] void include(Codes& codes, const Stretch& sticks) {
  Codes range = codes;
  std::uint64_t at = sticks.at;
  std::uint64_t left = sticks.count;
  const auto take = [&](vuint16m1_t stick) { range.include(stick); };
  if (sticks.stride == wire::kStickBytes) {
    for (; left >= 8; left -= 8, at += 8 * wire::kStickBytes) {
      for_each_of(load_sticks8(reinterpret_cast<const void*>(at)), take);
    }
  }
  for (; left > 0; --left, at += sticks.stride) take(load_stick(reinterpret_cast<const void*>(at)));
  codes = range;
}

[[gnu::noinline, gnu::aligned(1024)]] void add_in_units(Halves& sums, const Stretch& sticks, vuint16m1_t low) {
  vint32m1_t even = sums.even;
  vint32m1_t odd = sums.odd;
  std::uint64_t at = sticks.at;
  for (std::uint64_t left = sticks.count; left > 0; --left, at += sticks.stride) {
    const Halves halves = in_units(load_stick(reinterpret_cast<const void*>(at)), low);
    even = __riscv_vadd_vv_i32m1(even, halves.even, kVector32);
    odd = __riscv_vadd_vv_i32m1(odd, halves.odd, kVector32);
  }
  sums = {even, odd};
}

}  // namespace kernel::engine
