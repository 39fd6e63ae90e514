// SPDX-License-Identifier: Apache-2.0
// Row-major host arrays of two-byte elements to and from the card's stick layout, element by element: the plain
// definition, for tests that must not depend on the driver's converter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kernel_test {

inline constexpr std::size_t kLanes = 64;

constexpr std::size_t sticks(std::size_t elements) { return (elements + kLanes - 1) / kLanes; }

// Elements of storage of a [rows, columns] tensor.
constexpr std::size_t stick_elements(std::size_t rows, std::size_t columns) { return sticks(columns) * rows * kLanes; }

// `padding` goes into the lanes beyond `columns`.
inline void to_sticks(std::span<const std::uint16_t> host, std::size_t rows, std::size_t columns,
                      std::span<std::uint16_t> device, std::uint16_t padding = 0) {
  for (std::size_t c = 0; c < sticks(columns) * kLanes; ++c) {
    for (std::size_t r = 0; r < rows; ++r) {
      device[((c / kLanes) * rows + r) * kLanes + c % kLanes] = c < columns ? host[r * columns + c] : padding;
    }
  }
}

inline std::vector<std::uint16_t> from_sticks(std::span<const std::uint16_t> device, std::size_t rows,
                                              std::size_t columns) {
  std::vector<std::uint16_t> host(rows * columns);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c)
      host[r * columns + c] = device[((c / kLanes) * rows + r) * kLanes + c % kLanes];
  }
  return host;
}

}  // namespace kernel_test
