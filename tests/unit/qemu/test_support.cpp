// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/qemu/test_support.hpp"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "tests/bounds.hpp"
#include "tests/support/process_end.hpp"

namespace qemu::test {

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Fields of /proc/<pid>/stat from the state on (the name before it may contain anything).
std::istringstream stat_after_name(pid_t pid) {
  const std::string text = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t end = text.rfind(')');
  return std::istringstream(end == std::string::npos ? std::string{} : text.substr(end + 1));
}

std::string read_line(int fd) {
  std::string line;
  // bounded: the process at the other end writes a line or ends
  for (char c; ::read(fd, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = testing::TempDir() + "/spyre-qemu-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) std::abort();
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::file(const std::string& name, const std::string& content, bool executable) const {
  const std::filesystem::path path = path_ / name;
  std::ofstream(path, std::ios::binary) << content;
  if (executable) std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path.string();
}

std::string TemporaryFolder::firmware() const {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = EM_RISCV;
  return file("firmware.elf", std::string(reinterpret_cast<const char*>(&header), sizeof header));
}

bool wait_for_end(pid_t pid, std::chrono::milliseconds timeout) {
  const svp::UniqueFd pidfd{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
  if (!pidfd.valid()) return true;
  pollfd event{pidfd.get(), POLLIN, 0};
  return ::poll(&event, 1, static_cast<int>(timeout.count())) == 1;
}

bool is_alive(pid_t pid) {
  char state = 'X';
  stat_after_name(pid) >> state;
  return state != 'X' && state != 'Z';
}

pid_t parent_of(pid_t pid) {
  char state = 0;
  pid_t parent = -1;
  stat_after_name(pid) >> state >> parent;
  return parent;
}

Owner::Owner(const std::string& program, const std::string& emulator, const std::string& firmware,
             const std::string& ending) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const svp::UniqueFd read_end{ends[0]};
  svp::UniqueFd write_end{ends[1]};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  std::string arguments[] = {program, emulator, firmware, ending};
  char* pointers[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), arguments[3].data(), nullptr};
  const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, pointers, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) std::abort();
  write_end.reset();
  if (std::sscanf(read_line(read_end.get()).c_str(), "emulator %d child %d", &emulator_, &child_) < 1) return;
  reaper_ = parent_of(emulator_);
}

Owner::~Owner() {
  kill();
  if (child_ > 0) svp::test::send_signal(child_, SIGKILL);
}

void Owner::kill() {
  if (pid_ < 0) return;
  svp::test::kill_and_collect(std::exchange(pid_, -1), test_bounds::kPlayedEmulator);
}

}  // namespace qemu::test
