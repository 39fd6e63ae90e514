// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "qemu/machine_error.hpp"

namespace qemu {

/// Descriptors that starting (the peak) and then holding one slot costs this process, its tenant's handle included.
inline constexpr std::size_t kDescriptorsPerSlot = 9;
/// Everything else of a machine: link, pidfds, QMP, console, error output, io_uring, short-lived ones.
inline constexpr std::size_t kDescriptorsPerMachine = 32;

/// Makes room for a machine of `slots` slots beside what is open now: raises the soft RLIMIT_NOFILE to the hard one
/// when the soft one is too small (and only then: programs that use select() suffer from large numbers). The emulator
/// inherits the limit. Error: kDescriptorLimit when the hard limit is too small.
[[nodiscard]] Result<void> reserve_descriptors(std::size_t slots);

}  // namespace qemu
