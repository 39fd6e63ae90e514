// SPDX-License-Identifier: Apache-2.0
// The end of a child of this process. One that ends later than anybody wants to wait is not forgotten: it would stay a
// zombie until this process ends.
#pragma once

#include <sys/types.h>

#include "host_driver/base/unique_fd.hpp"
#include "qemu/timeouts.hpp"

namespace qemu {

/// Waits until a child of this process has ended, kills it after `timeout`, and collects it. False when it may not be
/// killed, or is still there after `timeout` once more: then collect_late_children() does it. `pidfd`: of the child, or
/// an invalid one when none was to be had; without it nothing is waited for, and what has not ended is left.
[[nodiscard]] bool collect_child(pid_t child, svp::UniqueFd pidfd, Timeouts::Duration timeout);

/// Collects those that were late and have ended by now, without waiting. Each start of an emulator does this first.
/// Thread-safe.
void collect_late_children();

}  // namespace qemu
