/* SPDX-License-Identifier: Apache-2.0
 * Every hart enters here at once, in M-mode, with a1 = device tree. Hart 0 boots; the others sleep until hart 0 sends
 * them a software interrupt (riscv::release_harts). Nothing may be assumed about memory or about interrupt controllers:
 * after a warm reset both hold what the previous boot left. */
#include "firmware/arch/riscv/layout.h"
#include "firmware/hal/memory_map.h"

  .section .text.start, "ax", @progbits
  .globl _start
_start:
  csrw mie, zero
  csrci mstatus, 8
  la t0, early_trap
  csrw mtvec, t0
  csrr s0, mhartid
  mv s1, a1
  li t0, MAX_HARTS
  bgeu s0, t0, park

  la sp, __stacks_begin
  addi t0, s0, 1
  slli t0, t0, STACK_SHIFT
  add sp, sp, t0
  la tp, riscv_hart_locals
  li t0, HART_LOCAL_BYTES
  mul t0, t0, s0
  add tp, tp, t0
  li fp, 0  /* ends a back trace; s0 and fp are one register */
  csrr a0, mhartid
  bnez a0, wait_for_release

  /* .bss is a whole number of 64-byte lines (link.ld). */
  la t0, __bss_begin
  la t1, __bss_end
1:
  bgeu t0, t1, 2f
  .irp offset, 0, 8, 16, 24, 32, 40, 48, 56
  sd zero, \offset(t0)
  .endr
  addi t0, t0, 64
  j 1b
2:
  mv a1, s1
  call riscv_boot
  j park

wait_for_release:
  li t0, 8  /* MSIE */
  csrw mie, t0
1:
  wfi  /* bounded: hart 0 releases the others when it has booted; until then they are not used */
  csrr t1, mip
  andi t1, t1, 8
  beqz t1, 1b
  csrw mie, zero
  li t0, CLINT_BASE
  slli t1, a0, 2
  add t0, t0, t1
  sw zero, 0(t0)
  fence rw, rw
  call riscv_boot_further
  /* falls through */

  .globl riscv_park
riscv_park:
park:
  csrw mie, zero
  wfi  /* bounded: parked for ever on purpose, only a reset goes on */
  j park

  /* Before mtvec points to trap_entry nothing can be recorded: the exit code is all there is. */
  .balign 4
early_trap:
  li t0, FINISHER_BASE
  li t1, (EXIT_EARLY_TRAP << 16) | FINISHER_FAIL
  sw t1, 0(t0)
  j park
