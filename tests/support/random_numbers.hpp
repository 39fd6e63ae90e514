// SPDX-License-Identifier: Apache-2.0
// Elements that break arithmetic: NaN, zeros of both signs, the smallest and largest numbers, exponents far apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

#include "shared/device_program.hpp"

namespace svp::test {

inline std::uint64_t below(std::mt19937_64& random, std::uint64_t bound) { return bound == 0 ? 0 : random() % bound; }
inline bool one_in(std::mt19937_64& random, unsigned n) { return below(random, n) == 0; }

void fill_with_any_bytes(std::mt19937_64& random, std::span<std::byte> bytes);
// In one of several styles: any bits, numbers near 1, exponents far apart, mostly special values, small integers.
void fill_with_numbers(std::mt19937_64& random, wire::program::Format format, std::span<std::byte> bytes);
// 32-bit integers below `bound`.
void fill_with_indices(std::mt19937_64& random, std::uint32_t bound, std::span<std::byte> bytes);
// Sticks that begin with two fp64.
void fill_with_pairs(std::mt19937_64& random, std::span<std::byte> bytes);

}  // namespace svp::test
