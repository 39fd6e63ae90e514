// SPDX-License-Identifier: Apache-2.0
// One element in all lanes of a stick.
#pragma once

#include <cstdint>

#include "firmware/kernels/vector.hpp"

namespace kernel::engine {

inline void splat(const void* from, void* to, unsigned item_bytes) {
  switch (item_bytes) {
    case 1: store_register(to, __riscv_vmv_v_x_u8m1(*static_cast<const std::uint8_t*>(from), 128)); break;
    case 2: store_register(to, __riscv_vmv_v_x_u16m1(*static_cast<const std::uint16_t*>(from), kVector16)); break;
    default: store_register(to, __riscv_vmv_v_x_u32m1(*static_cast<const std::uint32_t*>(from), kVector32)); break;
  }
}

}  // namespace kernel::engine
