# SPDX-License-Identifier: Apache-2.0
# The smallest thing that can run a kernel: one hart, U-mode under Sv39, no rings, no faults but "reported and stopped".
# Kernel tests use it to see kernels alone; everything else runs on the real firmware.
#
# The host writes code, data and page table into guest memory, then a request; the page at `mailbox` is layout of
# tests/device/kernels/bare_card.hpp (struct Mailbox).
.equ kRequest, 0     # host: 1 run, 2 power off; this side: back to 0 when done
.equ kEntry, 8
.equ kArguments, 16
.equ kStackEnd, 24
.equ kSatp, 32
.equ kCause, 40      # mcause of what ended the run; 8 is an environment call
.equ kPc, 48
.equ kValue, 56      # mtval
.equ kA0, 64
.equ kA7, 72
.equ kTicks, 80      # device timer, entry to end
.equ kMarks, 88      # trace marks seen: count, then the last value
.equ kLastMark, 96
.equ kBarriers, 104
.equ kClaimsLeft, 112  # host: claims of this core that are answered with a number
.equ kSaved, 120       # t0, t1
.equ kClaimed, 136     # items that were handed out, for each number of barriers that a core has behind it
.equ kMostBarriers, 16 # of a kernel that claims

.section .text.start, "ax"
.globl _start
_start:
  csrr t0, mhartid
1:
  bnez t0, 1b
  la t0, trap
  csrw mtvec, t0
  li t0, -1
  csrw pmpaddr0, t0
  li t0, 0x1f            # one entry: everything, RWX, for U-mode
  csrw pmpcfg0, t0
  li t0, 0x6600          # F and V on
  csrs mstatus, t0
  li t0, 0x1800          # previous mode U
  csrc mstatus, t0
serve:
  la s0, mailbox
1:
  ld t0, kRequest(s0)
  beqz t0, 1b
  fence r, rw
  li t1, 2
  beq t0, t1, power_off
  fence.i
  ld t0, kSatp(s0)
  csrw satp, t0
  sfence.vma
  ld t0, kEntry(s0)
  csrw mepc, t0
  sd zero, kMarks(s0)
  sd zero, kBarriers(s0)
  csrw fcsr, zero
  rdtime t0
  sd t0, kTicks(s0)
  csrw mscratch, s0
  ld a0, kArguments(s0)
  ld sp, kStackEnd(s0)
  mret

# mscratch holds the mailbox; the interrupted registers are lost except where an environment call returns.
.balign 4
trap:
  csrrw s11, mscratch, s11
  sd t0, kSaved(s11)
  sd t1, kSaved + 8(s11)
  csrr t0, mcause
  sd t0, kCause(s11)
  li t1, 8
  bne t0, t1, ended
  li t1, 1
  beq a7, t1, barrier
  li t1, 2
  beq a7, t1, mark
  li t1, 3
  beq a7, t1, claim
ended:
  mv s0, s11
  rdtime t0
  ld t1, kTicks(s0)
  sub t0, t0, t1
  sd t0, kTicks(s0)
  csrr t0, mepc
  sd t0, kPc(s0)
  csrr t0, mtval
  sd t0, kValue(s0)
  sd a0, kA0(s0)
  sd a7, kA7(s0)
  fence rw, w
  sd zero, kRequest(s0)
  j serve
barrier:                 # one core: everybody is there
  ld t0, kBarriers(s11)
  addi t0, t0, 1
  sd t0, kBarriers(s11)
  j resume
mark:
  ld t0, kMarks(s11)
  addi t0, t0, 1
  sd t0, kMarks(s11)
  sd a0, kLastMark(s11)
  j resume
claim:                   # cores run one after the other: what one leaves of an epoch, the next one gets
  ld t0, kBarriers(s11)
  li t1, kMostBarriers
  bgeu t0, t1, ended
  ld t1, kClaimsLeft(s11)
  beqz t1, no_more
  addi t1, t1, -1
  sd t1, kClaimsLeft(s11)
  slli t0, t0, 3
  add t0, t0, s11
  ld t1, kClaimed(t0)
  add a0, a0, t1
  bgeu a0, t1, 1f
  li a0, -1
1:
  sd a0, kClaimed(t0)
  mv a0, t1
  j resume
no_more:
  li a0, -1
resume:
  csrr t0, mepc
  addi t0, t0, 4
  csrw mepc, t0
  ld t0, kSaved(s11)
  ld t1, kSaved + 8(s11)
  csrrw s11, mscratch, s11
  mret

power_off:
  li t0, 0x100000        # the test finisher of the virt machine
  li t1, 0x5555
  sw t1, 0(t0)
1:
  j 1b
