// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "qemu/machine.hpp"

namespace qemu {

/// The executable that `name` means: itself when it contains '/', else the first match in PATH.
[[nodiscard]] Result<std::string> find_emulator(std::string_view name);

/// Readable and a 64-bit RISC-V ELF file?
[[nodiscard]] Result<void> check_firmware(const std::filesystem::path& firmware);

/// From "QEMU emulator version 10.0.2 (Debian …)".
[[nodiscard]] std::optional<Version> parse_version(std::string_view text);

/// Runs `emulator --version`. Slow (a process that links 60 MB of libraries): only to explain a failed start.
[[nodiscard]] std::optional<Version> probe_version(const std::string& emulator, Timeouts::Duration timeout);

/// kEmulatorTooOld for `found`.
[[nodiscard]] MachineError too_old(const std::string& emulator, const Version& found);

}  // namespace qemu
