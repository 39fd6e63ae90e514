/* SPDX-License-Identifier: Apache-2.0
 * Offsets that assembly and C++ agree on; hart_local.hpp and context.cpp assert each of them against the structures. */
#pragma once

/* hal::Context. integer[n - 1] is x_n. */
#define CTX_X(n) (((n) - 1) * 8)
#define CTX_PC 248
#define CTX_ROOT 256
#define CTX_FLAGS 264
#define CTX_ARGUMENT 272 /* a0 at the start, for the compute array */
#define CTX_ORDERS 280   /* to the compute array */
#define CTX_FLOATING 320
#define CTX_FCSR (CTX_FLOATING + 32 * 8)
#define CTX_VECTOR_CONTROL 640
#define CTX_VECTOR 768

/* Bits of the context's flags word. */
#define CTX_FRESH 1   /* started, never entered: registers are zero but sp and a0 */
#define CTX_FLOAT 2   /* has used f registers or fcsr in this launch */
#define CTX_VECTORS 4 /* has used v registers or their control in this launch */

/* riscv::HartLocal, what tp points to while a hart runs firmware code. */
#define HART_CURRENT 0 /* the context in U-mode */
#define HART_SP 8      /* firmware stack while U-mode runs */
#define HART_T0 16     /* trap scratch */
#define HART_T1 24
#define HART_STATUS 32 /* mstatus, mcause, mtval, a0 of the last trap out of U-mode */
#define HART_CAUSE 40
#define HART_VALUE 48
#define HART_ARGUMENT 56
#define HART_RECORDING 64 /* not 0: has trapped in firmware code before */
#define HART_LOCAL_BYTES 256

/* riscv::TrapFrame: the registers of a trap out of firmware code. */
#define FRAME_X(n) ((n) * 8)
#define FRAME_BYTES 256

/* What a hart that trapped in firmware code goes on with: its own stack may be what broke. */
#define PANIC_STACK_SHIFT 13
#define MAX_HARTS 64
#define STACK_BYTES 65536
#define STACK_SHIFT 16

/* Exit codes of the emulator for ends that have no record. */
#define EXIT_EARLY_TRAP 71   /* a trap before the firmware could handle one */
#define EXIT_DOUBLE_PANIC 72 /* a trap while a panic was being recorded */
