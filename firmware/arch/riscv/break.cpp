// SPDX-License-Identifier: Apache-2.0
// Breaking things on purpose (shared/fault.hpp): the firmware itself, and a kernel that runs into planted instructions.
#include <array>
#include <cstdint>

#include "firmware/arch/riscv/assembly.hpp"
#include "firmware/hal/context.hpp"
#include "firmware/hal/hart.hpp"

namespace hal {

namespace {

// No device and no memory of the board is there, and no rule of physical memory protection forbids it: the load goes
// out and comes back as an access fault.
constexpr std::uint64_t kNothing = 0x1800'0000;

// Not a tail call, and not a loop: each level keeps something of its own on the stack.
[[gnu::noinline]] std::uint64_t recurse(std::uint64_t depth) {
  if (depth == ~std::uint64_t{0}) return 0;  // deeper than any memory; for the compiler
  std::uint64_t frame[16];
  asm volatile("" : : "r"(frame) : "memory");
  const std::uint64_t below = recurse(depth + 1);
  asm volatile("" : : "r"(frame) : "memory");
  return below + 1;
}

// One after the other in the page.
constexpr std::array<std::uint32_t, 4> kPlanted = {
    0x0000006f,  // j .
    0x00000000,  // defined to be illegal
    0x00003503,  // ld a0, 0(zero)
    0x0000006f,  // j .
};

}  // namespace

void break_by_trap() {
  asm volatile("ld t0, 0(%0)" : : "r"(kNothing) : "t0", "memory");
  panic("a load from nowhere came back");
}

void break_by_stack_overflow() {
  recurse(0);
  panic("recursion without end has ended");
}

void plant(PhysicalAddress page) {
  copy_code(page, reinterpret_cast<const std::byte*>(kPlanted.data()), sizeof kPlanted);
}

void divert(Context& context, std::uint64_t page, Planted planted) {
  context.integer[CTX_PC / 8] = page + static_cast<std::uint64_t>(planted) * sizeof kPlanted[0];
}

}  // namespace hal
