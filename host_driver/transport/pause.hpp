// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace svp {

// Inside a busy wait: lets the other hardware thread and the memory bus breathe.
inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace svp
