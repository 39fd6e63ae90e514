// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace riscv {

// Known after the device tree was read; 1 before.
void set_hart_count(unsigned count);

}  // namespace riscv
