# SPDX-License-Identifier: Apache-2.0
# The inner part of the matrix kernel: rows of A times columns of B over one 64-deep chunk, exact in integers; then each
# sum rounded once to fp32, brought to its weight, and added to the running fp32 sums. Contract: block.hpp.
#
# Half of the multiplications are traded for additions (Winograd's inner product), because a 64-bit vector multiplication
# costs the host three times an addition or more: for each pair of k,
#     a0*b0 + a1*b1 = (a0 + b1)*(a1 + b0) - a0*a1 - b0*b1,
# where the two subtracted products depend on the row or on the column alone and are summed beforehand. The identity
# holds modulo 2^64 (and 2^32), so only the true sum has to fit.
#
# Assembly, because everything depends on what the emulator does with each instruction: one vtype per loop (vsetvli ends
# a translation block), LMUL 1 and vl = VLMAX (then integer operations become host SIMD in place), a loop body small
# enough for the host's instruction caches, one scalar load for two elements of A, no spills.
#
# Order of k: a row of A holds its 32 even elements, then its 32 odd ones (128 bytes further), so that the kernel can
# split packed 16-bit lanes without a widening helper; four k are taken at a time.
.text
.altmacro
.option norelax

# The two subtracted sums, already negative: of the row in t1, of the columns in a register.
.macro start_sum accumulator, columns
  vadd.vx v\accumulator, v\columns, t1
.endm

# accumulator += (scalar0 + column1) * (scalar1 + column0)
.macro pair_of_k accumulator, column0, column1, scalar0, scalar1, first, second
  vadd.vx v\first, v\column1, \scalar0
  vadd.vx v\second, v\column0, \scalar1
  vmul.vv v\first, v\first, v\second
  vadd.vv v\accumulator, v\accumulator, v\first
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

# ---- 64-bit integers: 8 rows x 32 columns, two registers of 16 columns for each row ------------------------------------
.macro wide_start row
  ld t1, (8*\row)(a5)
  start_sum %16+2*\row, 8
  start_sum %17+2*\row, 9
.endm

.macro wide_half accumulator, half, k0, k1, k2, k3
  pair_of_k \accumulator, %\half, %2+\half, \k0, \k1, 8, 9
  pair_of_k \accumulator, %4+\half, %6+\half, \k2, \k3, 8, 9
.endm

.macro wide_load row, k0, k1, k2, k3
  ld \k2, (256*\row)(a0)
  ld \k3, (256*\row+128)(a0)
  sext.w \k0, \k2
  srai \k2, \k2, 32
  sext.w \k1, \k3
  srai \k3, \k3, 32
.endm

.macro wide_row row, k0, k1, k2, k3
  wide_half %16+2*\row, 0, \k0, \k1, \k2, \k3
  wide_half %17+2*\row, 1, \k0, \k1, \k2, \k3
.endm

# Four rows: first all scalar loads, then all vector work. The translator keeps vector values in host registers, and has
# to save them around every load in between.
.macro wide_rows first
  wide_load %\first, t0, t1, t2, t3
  wide_load %\first+1, t4, t6, a5, a6
  wide_load %\first+2, a7, s2, s3, s4
  wide_load %\first+3, s5, s6, s7, s8
  wide_row %\first, t0, t1, t2, t3
  wide_row %\first+1, t4, t6, a5, a6
  wide_row %\first+2, a7, s2, s3, s4
  wide_row %\first+3, s5, s6, s7, s8
.endm

.globl matmul_block_wide
.type matmul_block_wide, @function
.balign 2048  # no page boundary inside: the translator chains blocks of one page only
matmul_block_wide:
  addi sp, sp, -64
  sd s2, 0(sp)
  sd s3, 8(sp)
  sd s4, 16(sp)
  sd s5, 24(sp)
  sd s6, 32(sp)
  sd s7, 40(sp)
  sd s8, 48(sp)
  vsetvli t0, zero, e64, m1, ta, ma
  vl2re8.v v8, (a6)
  .irp row, 0, 1, 2, 3, 4, 5, 6, 7
  wide_start \row
  .endr
  li t5, 16
1:
  vl8re8.v v0, (a1)
  addi a1, a1, 1024
  wide_rows 0
  wide_rows 4
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
  vl8re8.v v8, (a2)
  vsetvli t0, zero, e32, m8, ta, ma
  vfadd.vv v8, v8, v0
  vs8r.v v8, (a2)
  ld s2, 0(sp)
  ld s3, 8(sp)
  ld s4, 16(sp)
  ld s5, 24(sp)
  ld s6, 32(sp)
  ld s7, 40(sp)
  ld s8, 48(sp)
  addi sp, sp, 64
  ret
.size matmul_block_wide, . - matmul_block_wide

# ---- 32-bit integers: 16 rows x 32 columns, one register for each row --------------------------------------------------
# vadd.vx uses the low half of a scalar, so a pair of elements needs one shift to come apart.
.macro narrow_start row
  lw t1, (8*\row)(a5)
  start_sum %16+\row, 8
.endm

.macro narrow_row row
  ld t0, (256*\row-2048)(a0)
  ld t3, (256*\row+128-2048)(a0)
  srli t2, t0, 32
  srli t6, t3, 32
  pair_of_k %16+\row, 0, 1, t0, t3, 8, 9
  pair_of_k %16+\row, 2, 3, t2, t6, 8, 9
.endm

.globl matmul_block_narrow
.type matmul_block_narrow, @function
.balign 2048  # no page boundary inside: the translator chains blocks of one page only
matmul_block_narrow:
  vsetvli t0, zero, e32, m1, ta, ma
  vl1re8.v v8, (a6)
  .irp row, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
  narrow_start \row
  .endr
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
