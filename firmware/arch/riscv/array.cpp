// SPDX-License-Identifier: Apache-2.0
// hal/array.hpp for RV64: the greeting is an instruction that does nothing on a card without array.
#include "firmware/hal/array.hpp"

#include <atomic>
#include <cstddef>

#include "firmware/arch/riscv/dma_engine.hpp"
#include "firmware/arch/riscv/hart_local.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory_map.h"
#include "shared/array.hpp"

extern "C" {
extern riscv::HartLocal riscv_hart_locals[];
// Named by the greeting only, in assembly.
alignas(wire::kStickBytes) [[gnu::used]] constinit wire::array::Hello riscv_array_hello{};
}

namespace hal {
namespace {

// The array finds the block by the word behind the hint. By its address, as the firmware runs at physical ones.
[[gnu::noinline]] void say_hello() {
  static_assert(wire::array::kHelloHint == 0x5A102013 && wire::array::kHelloAddressAt == 8);
  asm volatile(
      ".option push\n"
      ".option norvc\n"
      ".balign 8\n"
      "  .word 0x5A102013\n"
      "  j 1f\n"
      "  .dword riscv_array_hello\n"
      "1:\n"
      ".option pop" ::
          : "memory");
}

}  // namespace

void find_array() {
  const MemoryRange regions = region_memory();
  riscv_array_hello = {.magic = wire::array::kHelloMagic,
                       .version = wire::array::kVersion,
                       .harts = hart_count(),
                       .ram_base = RAM_BASE,
                       .ram_bytes = regions.end - RAM_BASE,
                       .hart_local = reinterpret_cast<std::uintptr_t>(riscv_hart_locals),
                       .hart_stride = sizeof(riscv::HartLocal),
                       .root_at = offsetof(riscv::HartLocal, root),
                       .context_at = HART_CURRENT,
                       .arguments_at = CTX_ARGUMENT,
                       .answer = 0,
                       .orders_at = CTX_ORDERS,
                       .reserved = 0,
                       .move = reinterpret_cast<std::uintptr_t>(&riscv_array_move),
                       .regions_begin = regions.begin,
                       .reserved1 = {}};
  say_hello();
}

std::uint32_t array_version() { return std::atomic_ref(riscv_array_hello.answer).load(std::memory_order_relaxed); }

}  // namespace hal
