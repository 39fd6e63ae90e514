// SPDX-License-Identifier: Apache-2.0
// Does one thing that a kernel must not do, chosen by the dimension "what": what the wall between kernels and firmware
// is tested with. 0 (its own rounding mode and vector length) and 24 (a call that does nothing) are allowed, everything
// else up to 23 must end in a fault. From 25 on: hints to the compute array that count in the firmware's code only.
#include "firmware/kernels/sdk.hpp"
#include "shared/array.hpp"
#include "shared/array_moves.hpp"

namespace {
enum Symbol : unsigned { kWhat };

// One function per deed, so that a fault's pc has its name.
#define DEED(name, text) \
  [[gnu::noinline]] void name() { asm volatile(text ::: "t0", "memory"); }

DEED(allowed, "csrr t0, frm\n csrr t0, vlenb\n fence rw, rw")
DEED(read_cycle, "csrr t0, 0xC00")
DEED(read_time, "csrr t0, 0xC01")
DEED(read_instret, "csrr t0, 0xC02")
DEED(read_sstatus, "csrr t0, sstatus")
DEED(write_satp, "csrw satp, zero")
DEED(read_stopei, "csrr t0, 0x15C")
DEED(read_mstatus, "csrr t0, mstatus")
DEED(read_mhartid, "csrr t0, mhartid")
DEED(write_mtvec, "csrw mtvec, zero")
DEED(write_pmpcfg, "csrw pmpcfg0, zero")
DEED(return_to_machine, "mret")
DEED(return_to_supervisor, "sret")
DEED(wait_for_interrupt, "wfi")  // bounded: an illegal instruction in U-mode, which is what the test proves
DEED(flush_translations, "sfence.vma")
DEED(debug_return, ".word 0x7b200073")
DEED(no_instruction, ".word 0")
DEED(all_ones, ".word 0xffffffff")
// Cache-block operations, each on the kernel's own stack.
DEED(invalidate_block, "addi t0, sp, 0\n .insn i 0x0f, 2, x0, t0, 0")
DEED(clean_block, "addi t0, sp, 0\n .insn i 0x0f, 2, x0, t0, 1")
DEED(flush_block, "addi t0, sp, 0\n .insn i 0x0f, 2, x0, t0, 2")
DEED(zero_block, "addi t0, sp, -512\n .insn i 0x0f, 2, x0, t0, 4")
DEED(huge_call, "li a7, -1\n ecall")
DEED(next_call, "li a7, 5\n ecall")
DEED(array_order, "li a7, 4\n ecall")
static_assert(static_cast<unsigned>(wire::KernelCall::ArrayOrder) == 4);
// A greeting whose block lies nowhere: an array that took it for the firmware's would read there.
DEED(greet_array,
     ".option push\n .option norvc\n .balign 8\n .word 0x5A102013\n j 1f\n .dword -4096\n 1:\n .option pop")
static_assert(wire::array::kHelloHint == 0x5A102013 && wire::array::kHelloAddressAt == 8);
DEED(ask_for_a_move, ".word 0x5A302013")
static_assert(wire::array::kMoveHint == 0x5A302013);
}  // namespace

SPYRE_KERNEL({
    .name = "privileged",
    .operands = {{.name = "target", .access = kernel::Access::ReadWrite, .shape = {"row", "what"}}},
    .symbols = {kernel::extent_of(0, "what")},
});

std::uint64_t kernel::compute(const wire::KernelArguments&) {
  switch (symbol(kWhat)) {
    case 0: allowed(); return 0;
    case 1: read_cycle(); return 0;
    case 2: read_time(); return 0;
    case 3: read_instret(); return 0;
    case 4: read_sstatus(); return 0;
    case 5: write_satp(); return 0;
    case 6: read_stopei(); return 0;
    case 7: read_mstatus(); return 0;
    case 8: read_mhartid(); return 0;
    case 9: write_mtvec(); return 0;
    case 10: write_pmpcfg(); return 0;
    case 11: return_to_machine(); return 0;
    case 12: return_to_supervisor(); return 0;
    case 13: wait_for_interrupt(); return 0;
    case 14: flush_translations(); return 0;
    case 15: debug_return(); return 0;
    case 16: no_instruction(); return 0;
    case 17: all_ones(); return 0;
    case 18: huge_call(); return 0;
    case 19: next_call(); return 0;
    case 20: invalidate_block(); return 0;
    case 21: clean_block(); return 0;
    case 22: flush_block(); return 0;
    case 23: zero_block(); return 0;
    case 24: array_order(); return 0;
    case 25: greet_array(); return 0;
    case 26: ask_for_a_move(); return 0;
    default: return 1;
  }
}
