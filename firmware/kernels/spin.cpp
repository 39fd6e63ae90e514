// SPDX-License-Identifier: Apache-2.0
// Never ends: what the watchdog is for.
#include "firmware/kernels/sdk.hpp"

SPYRE_KERNEL({.name = "spin"});

std::uint64_t kernel::compute(const wire::KernelArguments&) {
  for (;;) asm volatile("");  // bounded: the launch's budget; it is the kernel that never ends
}
