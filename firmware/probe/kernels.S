/* SPDX-License-Identifier: Apache-2.0
 * Kernels of the conformance probe. Position independent; copied to an execution area and entered with
 * a0 = argument, sp = end of stack, all else zero. */
  .option arch, +v, +f, +d
  .option norvc

  .section .rodata.probe_kernels, "a", @progbits
  .balign 8
  .macro kernel name
  .balign 8
  .globl probe_kernel_\name
probe_kernel_\name:
  .endm

  .macro call number
  li a7, \number
  ecall
  .endm

  .globl probe_kernels_begin
probe_kernels_begin:

/* Returns its argument. */
kernel exit
  call 0

/* A mark, a claim, a barrier, an unknown call with what the claim returned; then exit(s0) with s0 = 1 + 2 if registers
 * survived the calls. */
kernel calls
  li s0, 1
  li a0, 77
  call 2
  addi s0, s0, 2
  li a0, 9
  call 3
  mv s1, a0
  call 1
  mv a7, s1
  ecall
  mv a0, s0
  call 0

kernel load
  ld t1, 0(a0)
  mv a0, t1
  call 0
kernel store
  sd a0, 0(a0)
  call 0
kernel jump
  jr a0
kernel vector_store  /* eight registers at once, to see the address where a fault cuts them */
  vsetvli t0, zero, e8, m8, ta, ma
  vmv.v.i v8, 3
  vse8.v v8, (a0)
  li a0, 0
  call 0
kernel read_time
  rdtime a0
  call 0
kernel write_status
  csrw sstatus, zero
  call 0
kernel misuse_fence
  sfence.vma
  call 0
kernel break
  ebreak
  call 0
kernel endless
  j probe_kernel_endless
/* a0 → a word, which becomes 1. */
kernel announced_endless
  li t0, 1
  sd t0, 0(a0)
  j probe_kernel_endless
kernel wait_for_interrupt
  wfi  /* bounded: traps in U-mode, or ends with the slice */
  j probe_kernel_wait_for_interrupt

/* a0 → {address, step, count}: stores the address to itself, then returns the number of wrong words. */
kernel touch
  ld t0, 0(a0)
  ld t1, 8(a0)
  ld t2, 16(a0)
  mv t3, t0
  mv t4, t2
1:
  sd t3, 0(t3)
  add t3, t3, t1
  addi t4, t4, -1
  bnez t4, 1b
  li a0, 0
2:
  ld t3, 0(t0)
  beq t3, t0, 3f
  addi a0, a0, 1
3:
  add t0, t0, t1
  addi t2, t2, -1
  bnez t2, 2b
  call 0

/* A vector loop across pages that are filled while it runs: a0 → {address, bytes}; bytes a multiple of 1024. */
kernel vector_touch
  ld t0, 0(a0)
  ld t1, 8(a0)
  vsetvli t2, zero, e8, m8, ta, ma
  vmv.v.i v0, 7
1:
  vse8.v v0, (t0)
  vle8.v v8, (t0)
  add t0, t0, t2
  sub t1, t1, t2
  bnez t1, 1b
  li a0, 0
  call 0

/* Writes every register as found to the block that a0 points to: 32 x (x10 and sp as they are), 32 f, fcsr, vstart,
 * vl, vtype, vcsr, then 32 v. Exits with 0. */
kernel dump
  .irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  sd x\n, \n * 8(x10)
  .endr
  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  fsd f\n, 256 + \n * 8(x10)
  .endr
  csrr t0, fcsr
  sd t0, 512(x10)
  csrr t0, vstart
  sd t0, 520(x10)
  csrr t0, vl
  sd t0, 528(x10)
  csrr t0, vtype
  sd t0, 536(x10)
  csrr t0, vcsr
  sd t0, 544(x10)
  addi t1, x10, 1024
  vs8r.v v0, (t1)
  addi t1, t1, 1024
  vs8r.v v8, (t1)
  addi t1, t1, 1024
  vs8r.v v16, (t1)
  addi t1, t1, 1024
  vs8r.v v24, (t1)
  li a0, 0
  call 0

/* Makes every register non-zero, then exits: the next kernel must not see any of it. */
kernel dirty
  li t0, -1
  fmv.d.x f0, t0
  .irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  fmv.d.x f\n, t0
  .endr
  li t1, 0x3f
  csrw fcsr, t1
  vsetvli t1, zero, e64, m8, ta, ma
  .irp n, 0, 8, 16, 24
  vmv.v.x v\n, t0
  .endr
  li t1, 100
  vsetvli zero, t1, e16, m2, ta, ma
  csrwi vcsr, 7
  csrwi vstart, 9
  .irp n, 1,2,3,4,5,6,7,8,9,11,12,13,14,15,16,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  li x\n, -1
  .endr
  li a0, 0
  call 0

/* Makes some f and v registers non-zero and loads from the address that stands at a0. */
kernel dirty_and_fault
  ld a1, 0(a0)
  li t0, -1
  fmv.d.x f3, t0
  vsetvli t1, zero, e64, m8, ta, ma
  vmv.v.x v16, t0
  ld a1, 0(a1)
  call 0

/* Uses all registers for a long time. a0 → {iterations, address of a result block as in `dump`}.
 * Start: x_n = n << 32 (but a0, a1), f_n = n, v group g = g in each 64-bit element, vl = VLMAX - 3 (tail undisturbed),
 * frm = 1, vxrm = 2. Per iteration: x_n += n, f_n += 1 from n = 2 on (f0, f1 stay), v group g += 1, 2, 3, 5. */
kernel labour
  ld a1, 8(a0)
  ld a0, 0(a0)
  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  li t0, \n
  fcvt.d.l f\n, t0
  .endr
  csrwi frm, 1
  vsetvli t0, zero, e64, m8, ta, ma
  vmv.v.i v0, 0
  vmv.v.i v8, 1
  vmv.v.i v16, 2
  vmv.v.i v24, 3
  addi t0, t0, -3
  vsetvli zero, t0, e64, m8, tu, mu
  csrwi vxrm, 2
  .irp n, 1,2,3,4,5,6,7,8,9,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  li x\n, \n << 32
  .endr
1:
  .irp n, 1,2,3,4,5,6,7,8,9,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  addi x\n, x\n, \n
  .endr

  .irp n, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  fadd.d f\n, f\n, f1
  .endr
  vadd.vi v0, v0, 1
  vadd.vi v8, v8, 2
  vadd.vi v16, v16, 3
  vadd.vi v24, v24, 5
  addi a0, a0, -1
  bnez a0, 1b
  .irp n, 1,2,3,4,5,6,7,8,9,10,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  sd x\n, \n * 8(a1)
  .endr
  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  fsd f\n, 256 + \n * 8(a1)
  .endr
  csrr t0, fcsr
  sd t0, 512(a1)
  csrr t0, vstart
  sd t0, 520(a1)
  csrr t0, vl
  sd t0, 528(a1)
  csrr t0, vtype
  sd t0, 536(a1)
  csrr t0, vcsr
  sd t0, 544(a1)
  addi t1, a1, 1024
  vs8r.v v0, (t1)
  addi t1, t1, 1024
  vs8r.v v8, (t1)
  addi t1, t1, 1024
  vs8r.v v16, (t1)
  addi t1, t1, 1024
  vs8r.v v24, (t1)
  li a0, 0
  call 0

  .globl probe_kernels_end
probe_kernels_end:
