// SPDX-License-Identifier: Apache-2.0
#include "qemu/emulator.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "qemu/child_process.hpp"
#include "qemu/errors.hpp"

namespace qemu {

namespace {

bool is_executable_file(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

std::unexpected<MachineError> not_found(std::string message) {
  return failure(MachineError::Kind::kEmulatorNotFound, std::move(message),
                 "Run scripts/bootstrap, or name the emulator's path in the options.");
}

std::unexpected<MachineError> bad_firmware(const std::filesystem::path& firmware, std::string_view why) {
  return failure(MachineError::Kind::kFirmwareMissing, fmt::format("firmware '{}' {}.", firmware.string(), why),
                 "Build the firmware (scripts/demo and scripts/test do) or correct the path.");
}

/// Everything that arrives at `fd` until its end or the deadline.
std::string read_until_end(int fd, Timeouts::Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::string text;
  std::array<char, 1024> chunk;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd event{fd, POLLIN, 0};
    if (left <= 0 || ::poll(&event, 1, static_cast<int>(left)) == 0) return text;
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());  // bounded: poll() said that there is something
    if (got == 0 || (got < 0 && errno != EINTR)) return text;
    if (got > 0) text.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

std::string to_string(const Version& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.micro);
}

Result<std::string> find_emulator(std::string_view name) {
  if (name.empty()) return not_found("No emulator was named.");
  if (name.contains('/')) {
    std::string path{name};
    if (is_executable_file(path)) return path;
    return not_found(fmt::format("'{}' is not an executable file.", path));
  }
  const char* variable = std::getenv("PATH");
  std::string_view rest = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    const std::string_view folder = rest.substr(0, end);
    std::string path = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
    if (is_executable_file(path)) return path;
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  return not_found(fmt::format("'{}' is in no folder of PATH.", name));
}

Result<void> check_firmware(const std::filesystem::path& firmware) {
  if (firmware.empty()) return bad_firmware(firmware, "is not named");
  const svp::UniqueFd file{::open(firmware.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file.valid()) return bad_firmware(firmware, fmt::format("can not be opened ({})", std::strerror(errno)));
  Elf64_Ehdr header{};
  if (::pread(file.get(), &header, sizeof header, 0) != sizeof header ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return bad_firmware(firmware, "is not an ELF file");
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_RISCV) {
    return bad_firmware(firmware, "is an ELF file, but not for 64-bit RISC-V");
  }
  return {};
}

std::optional<Version> parse_version(std::string_view text) {
  constexpr std::string_view kMarker = "version ";
  const std::size_t at = text.find(kMarker);
  if (at == std::string_view::npos) return std::nullopt;
  Version version;
  const std::string number{text.substr(at + kMarker.size(), 32)};
  if (std::sscanf(number.c_str(), "%d.%d.%d", &version.major, &version.minor, &version.micro) < 2) return std::nullopt;
  return version;
}

std::optional<Version> probe_version(const std::string& emulator, Timeouts::Duration timeout) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const svp::UniqueFd read_end{ends[0]};
  svp::UniqueFd write_end{ends[1]};

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  std::string argument = "--version";
  std::string name = emulator;
  char* arguments[] = {name.data(), argument.data(), nullptr};
  pid_t child = -1;
  const int error = ::posix_spawn(&child, emulator.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::nullopt;
  write_end.reset();

  svp::UniqueFd pidfd{static_cast<int>(::syscall(SYS_pidfd_open, child, 0))};
  const std::string text = read_until_end(read_end.get(), timeout);
  // Its output has ended, or it has been silent for too long.
  [[maybe_unused]] const bool collected = collect_child(child, std::move(pidfd), timeout);
  return parse_version(text);
}

MachineError too_old(const std::string& emulator, const Version& found) {
  return MachineError{MachineError::Kind::kEmulatorTooOld,
                      fmt::format("'{}' is QEMU {}, at least {} is needed (vector memory access is 10-30 times slower "
                                  "before, and interrupts can get lost).",
                                  emulator, to_string(found), to_string(kMinimumVersion)),
                      "Run scripts/bootstrap: it installs a new enough qemu-system-riscv64.",
                      {}};
}

}  // namespace qemu
