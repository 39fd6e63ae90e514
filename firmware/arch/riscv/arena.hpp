// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace riscv {

// Names the memory that page tables and hal::allocate_pages live in. Once per boot, before the first use of either.
void arena_initialize(std::uint64_t begin, std::uint64_t end);

}  // namespace riscv
