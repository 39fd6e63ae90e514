// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "host_driver/base/unique_fd.hpp"
#include "qemu/machine_error.hpp"
#include "qemu/timeouts.hpp"

namespace qemu {

/// A running emulator and the reaper that guards it. Dropping `link` kills the emulator.
struct Guarded {
  pid_t reaper = -1;  ///< child of this process
  svp::UniqueFd reaper_pidfd;
  svp::UniqueFd link;   ///< SOCK_SEQPACKET; delivers one reaper::Report about the end, then ends
  pid_t emulator = -1;  ///< child of the reaper
  svp::UniqueFd emulator_pidfd;
};

/// Starts `emulator` with `arguments` (argv[1…]) under a reaper. `inherited[i]` becomes the emulator's descriptor
/// number first_inherited_descriptor() + i; `error_output` its stdout and stderr. Nothing else is inherited, signal
/// dispositions are the default ones, only SIGXFSZ is blocked, and both are a process group of their own (a terminal's
/// ^C is the owner's).
/// Variables: emulator_environment().
[[nodiscard]] Result<Guarded> spawn_guarded(const std::string& emulator, const std::vector<std::string>& arguments,
                                            std::span<const int> inherited, int error_output,
                                            Timeouts::Duration timeout);

[[nodiscard]] int first_inherited_descriptor();

/// Kills the emulator. When this process may not signal it (it has given up the privileges with which it started the
/// emulator), the reaper is asked, which still has them. Does not wait.
[[nodiscard]] Result<void> request_end(const Guarded& guarded);

/// Drops the link, waits until the reaper has ended, kills it after `timeout`, and collects it. kTimeout when it is
/// still there after `timeout` once more, or may not be killed: then it ends by itself later (child_process.hpp).
[[nodiscard]] Result<void> end_reaper(Guarded& guarded, Timeouts::Duration timeout);

}  // namespace qemu
