// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "qemu/machine.hpp"

namespace qemu::test {

/// A folder that exists as long as the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// A file with this content; returns its path.
  [[nodiscard]] std::string file(const std::string& name, const std::string& content, bool executable = false) const;
  /// A file that looks like firmware: the header of a RISC-V ELF file.
  [[nodiscard]] std::string firmware() const;

 private:
  std::filesystem::path path_;
};

/// Waits until the process (any, not only a child) has ended.
[[nodiscard]] bool wait_for_end(pid_t pid, std::chrono::milliseconds timeout);
/// Exists and is not a zombie.
[[nodiscard]] bool is_alive(pid_t pid);
[[nodiscard]] pid_t parent_of(pid_t pid);

/// machine_owner (see there), started with `ending`; killed and collected at the end.
class Owner {
 public:
  Owner(const std::string& program, const std::string& emulator, const std::string& firmware,
        const std::string& ending);
  ~Owner();
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] pid_t emulator() const { return emulator_; }
  [[nodiscard]] pid_t reaper() const { return reaper_; }
  [[nodiscard]] pid_t forked_child() const { return child_; }
  void kill();

 private:
  pid_t pid_ = -1;
  pid_t emulator_ = -1;
  pid_t reaper_ = -1;
  pid_t child_ = -1;
};

}  // namespace qemu::test
