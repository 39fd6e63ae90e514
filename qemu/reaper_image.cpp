// SPDX-License-Identifier: Apache-2.0
#include "qemu/reaper_image.hpp"

#ifndef SPYRE_REAPER_FILE
#error "SPYRE_REAPER_FILE must name the linked reaper (qemu/CMakeLists.txt does)"
#endif

asm(".section .rodata\n"
    ".balign 16\n"
    "spyre_reaper_begin:\n"
    ".incbin \"" SPYRE_REAPER_FILE
    "\"\n"
    "spyre_reaper_end:\n"
    ".previous\n");

extern "C" {
extern const std::byte spyre_reaper_begin[];
extern const std::byte spyre_reaper_end[];
}

namespace qemu {

std::span<const std::byte> reaper_image() { return {spyre_reaper_begin, spyre_reaper_end}; }

}  // namespace qemu
