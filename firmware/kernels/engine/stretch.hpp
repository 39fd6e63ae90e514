// SPDX-License-Identifier: Apache-2.0
// The loops over sticks at equal distances in which sums of DL16 across sticks spend their time. Each is a function of
// its own that fits into a kilobyte and begins at one: the emulator chains the blocks of a loop only within a page.
#pragma once

#include <cstdint>

#include "firmware/kernels/engine/aligned_sticks.hpp"

namespace kernel::engine {

struct Stretch {
  std::uint64_t at;      // address of the first stick
  std::uint64_t stride;  // bytes from one to the next
  std::uint64_t count;
};

// Exponents of each lane.
void include(Codes& codes, const Stretch& sticks);

// Adds each lane, in units of exponent `low`.
void add_in_units(Halves& sums, const Stretch& sticks, vuint16m1_t low);

}  // namespace kernel::engine
