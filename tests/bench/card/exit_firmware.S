# SPDX-License-Identifier: Apache-2.0
# Ends the emulator with code 0 as its first act (SiFive test finisher of -M virt). Every hart may run it.
.globl _start
_start:
  li t0, 0x100000
  li t1, 0x5555
  sw t1, 0(t0)
1:
  wfi  /* bounded: the store above has ended the emulator */
  j 1b
