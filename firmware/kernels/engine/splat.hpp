// SPDX-License-Identifier: Apache-2.0
// One element in all lanes of a stick.
#pragma once

#include <cstddef>
#include <cstdint>

#include "firmware/kernels/engine/lanes.hpp"

namespace kernel::engine {

// `count` elements at a distance of `step` bytes, into sticks that follow each other.
template <typename V>
void splat_all(const std::byte* from, std::uint64_t step, std::byte* to, std::uint64_t count) {
  for (; count > 0; --count) {
    lanes::store(to, lanes::splat_of(*reinterpret_cast<const lanes::Element<V>*>(from)));
    from += step;
    to += 128;
  }
}
inline void splat(const void* from, std::uint64_t step, void* to, std::uint64_t count, unsigned item_bytes) {
  const auto* elements = static_cast<const std::byte*>(from);
  auto* sticks = static_cast<std::byte*>(to);
  switch (item_bytes) {
    case 1: return splat_all<vint8m1_t>(elements, step, sticks, count);
    case 2: return splat_all<vint16m1_t>(elements, step, sticks, count);
    default: return splat_all<vint32m1_t>(elements, step, sticks, count);
  }
}
inline void splat(const void* from, void* to, unsigned item_bytes) { splat(from, 0, to, 1, item_bytes); }

}  // namespace kernel::engine
