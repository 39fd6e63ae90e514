/* SPDX-License-Identifier: Apache-2.0
 * The only code of the firmware that names f and v registers: saving and restoring the state of a suspended kernel,
 * clearing it between kernels, and the bulk moves. Callers see to it that no suspended kernel's state is in the
 * registers that change (context.cpp), and that mstatus.FS and VS are not Off. VLEN is 1024 (checked at boot). */
#include "firmware/arch/riscv/layout.h"

  .option arch, +v, +f, +d
  .text

  .macro function name
  .balign 4
  .globl \name
  .type \name, @function
\name:
  .endm

/* void riscv_save_float(hal::Context*) */
function riscv_save_float
  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  fsd f\n, CTX_FLOATING + \n * 8(a0)
  .endr
  csrr t0, fcsr
  sd t0, CTX_FCSR(a0)
  ret

/* void riscv_restore_float(const hal::Context*) */
function riscv_restore_float
  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  fld f\n, CTX_FLOATING + \n * 8(a0)
  .endr
  ld t0, CTX_FCSR(a0)
  csrw fcsr, t0
  ret

/* void riscv_clear_float() */
function riscv_clear_float
  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  fmv.d.x f\n, zero
  .endr
  csrw fcsr, zero
  ret

/* void riscv_save_vector(hal::Context*). Leaves vstart 0, as every vector instruction of the firmware needs it. */
function riscv_save_vector
  csrr t0, vstart
  csrr t1, vl
  csrr t2, vtype
  csrr t3, vcsr
  sd t0, CTX_VECTOR_CONTROL + 0(a0)
  sd t1, CTX_VECTOR_CONTROL + 8(a0)
  sd t2, CTX_VECTOR_CONTROL + 16(a0)
  sd t3, CTX_VECTOR_CONTROL + 24(a0)
  csrw vstart, zero
  addi a0, a0, CTX_VECTOR
  li t0, 1024
  vs8r.v v0, (a0)
  add a0, a0, t0
  vs8r.v v8, (a0)
  add a0, a0, t0
  vs8r.v v16, (a0)
  add a0, a0, t0
  vs8r.v v24, (a0)
  ret

/* void riscv_restore_vector(const hal::Context*). vstart last: instructions that follow it would start there. */
function riscv_restore_vector
  csrw vstart, zero
  addi a1, a0, CTX_VECTOR
  li t0, 1024
  vl8re8.v v0, (a1)
  add a1, a1, t0
  vl8re8.v v8, (a1)
  add a1, a1, t0
  vl8re8.v v16, (a1)
  add a1, a1, t0
  vl8re8.v v24, (a1)
  ld t0, CTX_VECTOR_CONTROL + 0(a0)
  ld t1, CTX_VECTOR_CONTROL + 8(a0)
  ld t2, CTX_VECTOR_CONTROL + 16(a0)
  ld t3, CTX_VECTOR_CONTROL + 24(a0)
  vsetvl zero, t1, t2
  csrw vcsr, t3
  csrw vstart, t0
  ret

/* void riscv_clear_vector() */
function riscv_clear_vector
  csrw vstart, zero
  vsetvli t0, zero, e64, m8, ta, ma
  vmv.v.i v0, 0
  vmv.v.i v8, 0
  vmv.v.i v16, 0
  vmv.v.i v24, 0
  vsetivli zero, 0, e8, m1, tu, mu /* vtype 0, vl 0 */
  csrw vcsr, zero
  ret

/* void riscv_vector_ready(): vstart may be non-zero, whichever way the last kernel ended. */
function riscv_vector_ready
  csrw vstart, zero
  ret

/* void riscv_vector_copy(std::byte* to, const std::byte* from, std::uint64_t bytes); bytes > 0
 * Whole-register moves of bytes and byte moves at LMUL 8 are one host memcpy per 1024 bytes on this emulator. A move
 * that crosses a page is two. So the destination is brought to a multiple of 1024 first. */
function riscv_vector_copy
  neg t0, a0
  andi t0, t0, 1023
  beqz t0, 1f
  bltu t0, a2, 3f
  mv t0, a2
3:
  vsetvli zero, t0, e8, m8, ta, ma
  vle8.v v0, (a1)
  vse8.v v0, (a0)
  add a0, a0, t0
  add a1, a1, t0
  sub a2, a2, t0
1:
  li t1, 4096
  li t2, 1024
  bltu a2, t1, 4f
2:
  vl8re8.v v0, (a1)
  add a3, a1, t2
  vl8re8.v v8, (a3)
  add a4, a3, t2
  vl8re8.v v16, (a4)
  add a5, a4, t2
  vl8re8.v v24, (a5)
  vs8r.v v0, (a0)
  add a3, a0, t2
  vs8r.v v8, (a3)
  add a4, a3, t2
  vs8r.v v16, (a4)
  add a5, a4, t2
  vs8r.v v24, (a5)
  add a0, a0, t1
  add a1, a1, t1
  sub a2, a2, t1
  bgeu a2, t1, 2b
4:
  bltu a2, t2, 5f
  vl8re8.v v0, (a1)
  vs8r.v v0, (a0)
  add a0, a0, t2
  add a1, a1, t2
  sub a2, a2, t2
  j 4b
5:
  beqz a2, 6f
  vsetvli zero, a2, e8, m8, ta, ma
  vle8.v v0, (a1)
  vse8.v v0, (a0)
6:
  ret

/* void riscv_vector_fill(std::byte* to, std::uint64_t pattern, std::uint64_t bytes); bytes > 0
 * The steps are multiples of 8 bytes, so the pattern keeps its phase; the tail gets its first bytes. */
function riscv_vector_fill
  vsetvli t0, zero, e64, m8, ta, ma
  vmv.v.x v0, a1
  li t1, 4096
  li t2, 1024
  bltu a2, t1, 2f
1:
  vs8r.v v0, (a0)
  add a3, a0, t2
  vs8r.v v0, (a3)
  add a4, a3, t2
  vs8r.v v0, (a4)
  add a5, a4, t2
  vs8r.v v0, (a5)
  add a0, a0, t1
  sub a2, a2, t1
  bgeu a2, t1, 1b
2:
  bltu a2, t2, 3f
  vs8r.v v0, (a0)
  add a0, a0, t2
  sub a2, a2, t2
  j 2b
3:
  beqz a2, 4f
  vsetvli zero, a2, e8, m8, ta, ma
  vse8.v v0, (a0)
4:
  ret
