/* SPDX-License-Identifier: Apache-2.0
 * Addresses of QEMU's `virt` board that do not depend on its options (hw/riscv/virt.c). What depends on them (memory
 * size, harts, PCIe windows) is read from the device tree. Plain macros: assembly reads this file as well. */
#pragma once

#define FINISHER_BASE 0x100000
#define FINISHER_PASS 0x5555
#define FINISHER_FAIL 0x3333
#define FINISHER_RESET 0x7777

#define CLINT_BASE 0x2000000     /* msip of hart h at 4 * h */
#define CLINT_MTIMECMP 0x2004000 /* of hart h at 8 * h */

#define UART_BASE 0x10000000

#define IMSIC_M_BASE 0x24000000 /* M-level interrupt file of hart h at 0x1000 * h */
#define IMSIC_M_STRIDE 0x1000

#define RAM_BASE 0x80000000
/* The firmware's half ends here. A number and not link.ld's symbol: that is out of a pc-relative reference's reach. */
#define REGIONS_BASE 0x100000000
