# SPDX-License-Identifier: Apache-2.0
# The inner part of the matrix kernel: rows of A times columns of B over one 64-deep chunk, exact in integers; then each
# sum rounded once to fp32, brought to its weight, and added to the running fp32 sums. Contract: block.hpp.
#
# Assembly, because everything depends on what the emulator does with each instruction: one vtype per loop (vsetvli ends
# a translation block), LMUL 1 and vl = VLMAX (then vmul.vx and vadd.vv become host SIMD in place), a loop body small
# enough for the host's instruction caches, one scalar load for two elements of A, no spills.
#
# Order of k: a row of A holds its 32 even elements, then its 32 odd ones (128 bytes further), so that the kernel can
# split packed 16-bit lanes without a widening helper; four k are taken at a time.
.text
.altmacro
.option norelax

.macro clear_accumulators
  .irp r, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
  vmv.v.i v\r, 0
  .endr
.endm

.macro multiply_add accumulator, column, scalar, temporary
  vmul.vx v\temporary, v\column, \scalar
  vadd.vv v\accumulator, v\accumulator, v\temporary
.endm

# v\value: 32 sums of a row as fp32 in units; t1: exponent of the row's unit. Adds the exponents of row and column (v16)
# to every non-zero element: value | -value has its sign bit set exactly when value is not zero.
.macro apply_weight value, row
  lw t1, (4*\row)(a3)
  vrsub.vi v17, v\value, 0
  vadd.vx v18, v16, t1
  vor.vv v17, v17, v\value
  vsra.vi v17, v17, 31
  vand.vv v17, v17, v18
  vadd.vv v\value, v\value, v17
.endm

# sums (a2) += v0 … v7, eight rows of 32 fp32.
.macro add_to_sums
  vl8re8.v v8, (a2)
  vsetvli t0, zero, e32, m8, ta, ma
  vfadd.vv v8, v8, v0
  vs8r.v v8, (a2)
.endm

# ---- 64-bit integers: 8 rows x 32 columns, two registers of 16 columns for each row ------------------------------------
.macro wide_k row, k, scalar
  multiply_add %16+2*\row, %2*\k, \scalar, 8
  multiply_add %17+2*\row, %2*\k+1, \scalar, 9
.endm

.macro wide_row row
  ld t0, (256*\row)(a0)
  ld t3, (256*\row+128)(a0)
  sext.w t1, t0
  srai t2, t0, 32
  wide_k \row, 0, t1
  wide_k \row, 2, t2
  sext.w t1, t3
  srai t2, t3, 32
  wide_k \row, 1, t1
  wide_k \row, 3, t2
.endm

.globl matmul_block_wide
.type matmul_block_wide, @function
.balign 64
matmul_block_wide:
  vsetvli t0, zero, e64, m1, ta, ma
  clear_accumulators
  li t5, 16
1:
  vl8re8.v v0, (a1)
  addi a1, a1, 1024
  .irp row, 0, 1, 2, 3, 4, 5, 6, 7
  wide_row \row
  .endr
  addi a0, a0, 8
  addi t5, t5, -1
  bnez t5, 1b
  vsetvli t0, zero, e32, m4, ta, ma
  vfncvt.f.x.w v0, v16
  vfncvt.f.x.w v4, v24
  vsetvli t0, zero, e32, m1, ta, ma
  vl1re8.v v16, (a4)
  .irp row, 0, 1, 2, 3, 4, 5, 6, 7
  apply_weight \row, \row
  .endr
  add_to_sums
  ret
.size matmul_block_wide, . - matmul_block_wide

# ---- 32-bit integers: 16 rows x 32 columns, one register for each row --------------------------------------------------
.macro narrow_row row
  ld t0, (256*\row-2048)(a0)
  ld t3, (256*\row+128-2048)(a0)
  srli t2, t0, 32
  multiply_add %16+\row, 0, t0, 8
  multiply_add %16+\row, 2, t2, 9
  srli t2, t3, 32
  multiply_add %16+\row, 1, t3, 10
  multiply_add %16+\row, 3, t2, 11
.endm

.globl matmul_block_narrow
.type matmul_block_narrow, @function
.balign 64
matmul_block_narrow:
  vsetvli t0, zero, e32, m1, ta, ma
  clear_accumulators
  li t5, 16
  li t0, 2048
  add a0, a0, t0
1:
  vl4re8.v v0, (a1)
  addi a1, a1, 512
  .irp row, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
  narrow_row \row
  .endr
  addi a0, a0, 8
  addi t5, t5, -1
  bnez t5, 1b
  vsetvli t0, zero, e32, m8, ta, ma
  vfcvt.f.x.v v0, v16
  vfcvt.f.x.v v8, v24
  vsetvli t0, zero, e32, m1, ta, ma
  vl1re8.v v16, (a4)
  .irp row, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
  apply_weight \row, \row
  .endr
  vsetvli t0, zero, e32, m8, ta, ma
  vl8re8.v v16, (a2)
  vfadd.vv v16, v16, v0
  vs8r.v v16, (a2)
  addi a2, a2, 1024
  vl8re8.v v16, (a2)
  vfadd.vv v16, v16, v8
  vs8r.v v16, (a2)
  ret
.size matmul_block_narrow, . - matmul_block_narrow
