// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "qemu/machine_error.hpp"

/// Internal helpers of qemu/ to build a MachineError.
namespace qemu {

[[nodiscard]] std::unexpected<MachineError> failure(MachineError::Kind kind, std::string message, std::string next_step,
                                                    ExitStatus exit = {});

/// A system call that failed with `error`: kDescriptorLimit for EMFILE/ENFILE, else kStartFailed.
[[nodiscard]] std::unexpected<MachineError> system_failure(std::string_view call, int error);

}  // namespace qemu
