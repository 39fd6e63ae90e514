// SPDX-License-Identifier: Apache-2.0
// The compute array (shared/array.hpp), when the card has one.
#pragma once

#include <cstdint>

namespace hal {

// Greets the array. Once per boot, by hart 0, when the number of harts and the memory are known and no other hart runs
// a kernel.
void find_array();

// wire::array::kVersion; 0: the card has none, or one of another version.
std::uint32_t array_version();

}  // namespace hal
