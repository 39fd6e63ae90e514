# SPDX-License-Identifier: Apache-2.0
# Compiler and linker flags of what runs on the card, as lists: for this repository's build (card_options.cmake) and, of
# kernels, for spyre_add_kernel() of the installed kernel SDK (spyre_kernel.cmake). Warnings and paths are not in here.
set(SPYRE_CARD_TARGET riscv64-unknown-elf)

# ---- firmware and kernels
set(SPYRE_CARD_COMPILE_FLAGS
  -mcmodel=medany       # code at 2 GiB, out of medlow's reach
  -mno-relax            # objects keep the addresses that a debugger shows; relaxation gains nothing under emulation
  -msmall-data-limit=0  # gp is never set up
  -fno-unwind-tables -fno-asynchronous-unwind-tables -fno-omit-frame-pointer -ffunction-sections -fdata-sections)
set(SPYRE_CARD_CXX_FLAGS
  -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-c++-static-destructors
  -Wglobal-constructors)  # nobody runs constructors before boot_main: constant initialisation only
set(SPYRE_CARD_LINK_FLAGS -fuse-ld=lld -nostdlib -Wl,--gc-sections -Wl,--fatal-warnings)

# ---- kernels: U-mode, position independent and without a C library. The linker script refuses dynamic relocations: nobody
# would apply them.
set(SPYRE_KERNEL_ARCHITECTURE -march=rv64gcv_zvl1024b -mabi=lp64d)
set(SPYRE_KERNEL_COMPILE_FLAGS ${SPYRE_KERNEL_ARCHITECTURE} -fPIE -ffreestanding -fvisibility=hidden)
set(SPYRE_KERNEL_CXX_FLAGS
  -mrvv-vector-bits=zvl                # registers as types of known size: VLEN is 1024
  -fno-vectorize -fno-slp-vectorize)   # vectors are chosen by hand: most are slower than scalars under emulation
set(SPYRE_KERNEL_LINK_FLAGS ${SPYRE_KERNEL_ARCHITECTURE}
  -Wl,--build-id=none
  -Wl,-pie  # to the linker: for a bare target the compiler driver ignores -static-pie, and nothing would be checked
  -Wl,--no-dynamic-linker -Wl,-z,text -Wl,-z,max-page-size=4096)
