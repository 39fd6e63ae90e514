// SPDX-License-Identifier: Apache-2.0
#include "qemu/machine_error.hpp"

#include <fmt/format.h>

#include <cstring>

#include "qemu/errors.hpp"

namespace qemu {

std::string to_string(const ExitStatus& status) {
  switch (status.kind) {
    case ExitStatus::Kind::kExited: return fmt::format("exit code {}", status.value);
    case ExitStatus::Kind::kSignaled: return fmt::format("signal {} ({})", status.value, ::strsignal(status.value));
    case ExitStatus::Kind::kUnknown: break;
  }
  return "unknown";
}

std::string_view to_string(MachineError::Kind kind) {
  using enum MachineError::Kind;
  switch (kind) {
    case kInvalidOption: return "invalid-option";
    case kEmulatorNotFound: return "emulator-not-found";
    case kEmulatorTooOld: return "emulator-too-old";
    case kFirmwareMissing: return "firmware-missing";
    case kDescriptorLimit: return "descriptor-limit";
    case kStartFailed: return "start-failed";
    case kHandshakeTimeout: return "handshake-timeout";
    case kDied: return "died";
    case kQmpError: return "qmp-error";
    case kPeersUsedUp: return "peers-used-up";
    case kNotPermitted: return "not-permitted";
    case kTimeout: return "timeout";
  }
  return "unknown";
}

std::string to_string(const MachineError& error) {
  return fmt::format("{}: {} Next step: {}", to_string(error.kind), error.message, error.next_step);
}

std::unexpected<MachineError> failure(MachineError::Kind kind, std::string message, std::string next_step,
                                      ExitStatus exit) {
  return std::unexpected(MachineError{kind, std::move(message), std::move(next_step), exit});
}

std::unexpected<MachineError> system_failure(std::string_view call, int error) {
  if (error == EMFILE || error == ENFILE) {
    return failure(MachineError::Kind::kDescriptorLimit,
                   fmt::format("{} found no free file descriptor ({}).", call, std::strerror(error)),
                   "Raise the hard limit (ulimit -Hn, LimitNOFILE=) or boot with fewer slots.");
  }
  if (error == EFBIG) {
    return failure(MachineError::Kind::kStartFailed,
                   fmt::format("{} failed: {} (RLIMIT_FSIZE).", call, std::strerror(error)),
                   "Raise the limit on the size of files: ulimit -f unlimited, LimitFSIZE=infinity.");
  }
  return failure(MachineError::Kind::kStartFailed, fmt::format("{} failed: {}.", call, std::strerror(error)),
                 "Check the limits of this machine or container (memory, processes, seccomp profile).");
}

}  // namespace qemu
