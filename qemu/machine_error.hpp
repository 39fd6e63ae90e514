// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <expected>
#include <string>
#include <string_view>

namespace qemu {

/// How an emulator process ended.
struct ExitStatus {
  enum class Kind {
    kExited,    ///< `value` is the exit code (0: the firmware powered off or QMP `quit`; else the firmware's code)
    kSignaled,  ///< `value` is the signal number
    kUnknown,   ///< the process is gone but whoever watched it was killed too; `value` is 0
  };
  Kind kind = Kind::kUnknown;
  int value = 0;

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

/// "exit code 3", "signal 9 (Killed)", "unknown".
[[nodiscard]] std::string to_string(const ExitStatus& status);

/// What went wrong with a machine. `message` says what happened with the values involved, `next_step` what a person
/// can do about it; both are complete sentences without a trailing newline.
struct MachineError {
  enum class Kind {
    kInvalidOption,     ///< an option is out of range or contradicts another one; nothing was started
    kEmulatorNotFound,  ///< no executable emulator at the given path or in PATH
    kEmulatorTooOld,    ///< older than kMinimumVersion
    kFirmwareMissing,   ///< the firmware file is absent, unreadable or not a 64-bit RISC-V ELF file
    kDescriptorLimit,   ///< RLIMIT_NOFILE (hard) is too small for the number of slots
    kStartFailed,       ///< a system call failed, or the emulator ended while starting; carries its error output
    kHandshakeTimeout,  ///< the emulator runs, but did not finish its start within the bound
    kDied,              ///< the emulator has ended; `exit` says how
    kQmpError,          ///< the emulator refused a command or did not answer within the bound
    kPeersUsedUp,       ///< a doorbell device has no peer id left
    kNotPermitted,      ///< this process may not signal the emulator, and its reaper is gone
    kTimeout,           ///< a bounded wait of the caller passed; the machine is unchanged
  };

  Kind kind;
  std::string message;
  std::string next_step;
  ExitStatus exit{};  ///< only for kDied and for a kStartFailed whose emulator ended
};

/// Stable lower-case name: "emulator-too-old".
[[nodiscard]] std::string_view to_string(MachineError::Kind kind);
/// "emulator-too-old: <message> Next step: <next step>".
[[nodiscard]] std::string to_string(const MachineError& error);

template <typename T>
using Result = std::expected<T, MachineError>;

}  // namespace qemu
