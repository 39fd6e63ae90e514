/* SPDX-License-Identifier: Apache-2.0
 * The way into U-mode and the only way out of it. Interrupts are never taken in M-mode (mstatus.MIE stays 0), so a trap
 * whose previous privilege is not U is a firmware bug and ends in riscv_firmware_trap.
 *
 * mscratch always holds the hart's HartLocal while U-mode or firmware code runs. */
#include "firmware/arch/riscv/layout.h"
#include "firmware/hal/memory_map.h"

  .section .text.trap, "ax", @progbits

/* std::uint64_t riscv_enter(hal::Context* context)
 * Runs the context until a trap. Returns 0 after the exit call (integer registers of the context are then not saved:
 * nobody will resume it), 1 after anything else (all of x and pc are saved). mstatus.MPP is U before and after. */
  .balign 128
  .globl riscv_enter
  .type riscv_enter, @function
riscv_enter:
  addi sp, sp, -112
  sd ra, 0(sp)
  sd s0, 8(sp)
  sd s1, 16(sp)
  sd s2, 24(sp)
  sd s3, 32(sp)
  sd s4, 40(sp)
  sd s5, 48(sp)
  sd s6, 56(sp)
  sd s7, 64(sp)
  sd s8, 72(sp)
  sd s9, 80(sp)
  sd s10, 88(sp)
  sd s11, 96(sp)
  sd sp, HART_SP(tp)
  sd a0, HART_CURRENT(tp)

  /* A reservation of whoever ran before must not succeed for this context. The word is ours and nobody loads it. */
  addi t0, sp, 104
  sc.d zero, zero, (t0)

  ld t0, CTX_PC(a0)
  csrw mepc, t0
  ld t1, CTX_FLAGS(a0)
  andi t2, t1, CTX_FRESH
  bnez t2, 1f

  .irp n, 1,2,3,4,5,6,7,8,9, 11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  ld x\n, CTX_X(\n)(x10)
  .endr
  ld x10, CTX_X(10)(x10)
  mret

1:
  andi t1, t1, ~CTX_FRESH
  sd t1, CTX_FLAGS(a0)
  ld x2, CTX_X(2)(a0)
  ld x10, CTX_X(10)(a0)
  .irp n, 1,3,4,5,6,7,8,9, 11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  li x\n, 0
  .endr
  mret

  /* Bit 6 of its address is 1, and riscv_enter's is 0: the emulator's cache of jump targets takes an address's bits 0 to 5
   * exclusive-or 6 to 11, so the two never want the same entries. */
  .balign 128
  .skip 64
  .globl riscv_trap
  .type riscv_trap, @function
riscv_trap:
  csrrw tp, mscratch, tp
  sd t0, HART_T0(tp)
  sd t1, HART_T1(tp)
  csrr t0, mstatus
  srli t1, t0, 11
  andi t1, t1, 3
  bnez t1, firmware_trap
  sd t0, HART_STATUS(tp)
  csrr t0, mcause
  sd t0, HART_CAUSE(tp)
  addi t1, t0, -8 /* environment call from U-mode … */
  or t1, t1, a7   /* … with number 0, KernelCall::Exit */
  bnez t1, 1f

  csrw mscratch, tp
  sd a0, HART_ARGUMENT(tp)
  li a0, 0
  j 2f

1:
  ld t1, HART_CURRENT(tp)
  .irp n, 1,2,3, 7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  sd x\n, CTX_X(\n)(t1)
  .endr
  csrrw t0, mscratch, tp
  sd t0, CTX_X(4)(t1)
  ld t0, HART_T0(tp)
  sd t0, CTX_X(5)(t1)
  ld t0, HART_T1(tp)
  sd t0, CTX_X(6)(t1)
  csrr t0, mepc
  sd t0, CTX_PC(t1)
  csrr t0, mtval
  sd t0, HART_VALUE(tp)
  sd a0, HART_ARGUMENT(tp)
  li a0, 1

2:
  ld sp, HART_SP(tp)
  ld ra, 0(sp)
  ld s0, 8(sp)
  ld s1, 16(sp)
  ld s2, 24(sp)
  ld s3, 32(sp)
  ld s4, 40(sp)
  ld s5, 48(sp)
  ld s6, 56(sp)
  ld s7, 64(sp)
  ld s8, 72(sp)
  ld s9, 80(sp)
  ld s10, 88(sp)
  ld s11, 96(sp)
  addi sp, sp, 112
  ret

/* tp points to HartLocal here, mscratch holds what tp was. The registers go to the hart's panic stack, and C++ decides
 * whether this hart records or answers the one that does (panic.cpp). A hart that comes a second time has trapped inside
 * that and can only end the card. */
firmware_trap:
  ld t0, HART_RECORDING(tp)
  bnez t0, 1f
  li t0, 1
  sd t0, HART_RECORDING(tp)
  csrr t0, mhartid
  addi t0, t0, 1
  slli t0, t0, PANIC_STACK_SHIFT
  la t1, __panic_stacks_begin
  add t0, t0, t1
  addi t0, t0, -FRAME_BYTES
  .irp n, 0,1,2,3, 7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  sd x\n, FRAME_X(\n)(t0)
  .endr
  csrrw t1, mscratch, tp
  sd t1, FRAME_X(4)(t0)
  ld t1, HART_T0(tp)
  sd t1, FRAME_X(5)(t0)
  ld t1, HART_T1(tp)
  sd t1, FRAME_X(6)(t0)
  mv sp, t0
  mv a0, t0
  li fp, 0
  call riscv_firmware_trap
  j riscv_park
1:
  li t0, FINISHER_BASE
  li t1, (EXIT_DOUBLE_PANIC << 16) | FINISHER_FAIL
  sw t1, 0(t0)
  j riscv_park
