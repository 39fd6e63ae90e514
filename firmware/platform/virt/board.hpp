// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace virt {

// Reads the device tree and finds the card's memory, harts and slots (hal/board.hpp, hal/memory.hpp). Once per boot, by
// hart 0. A board that the firmware can not run on ends the emulator with a line that says why.
void initialize(const std::byte* device_tree);

// Warm reset of the whole card: all harts start again, memory outside the loaded image stays.
[[noreturn]] void restart();

}  // namespace virt
