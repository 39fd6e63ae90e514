// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cards/helper_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "tests/bounds.hpp"
#include "tests/support/process_end.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp::test {

namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
};

bool all_threads_stopped(pid_t pid) {
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
    std::ifstream file(thread.path() / "stat");
    std::string text;
    std::getline(file, text);
    const auto name_end = text.rfind(") ");
    if (name_end == std::string::npos || text[name_end + 2] != 'T') return false;
  }
  return !gone;
}

}  // namespace

bool stop_process(pid_t pid, std::chrono::milliseconds bound) {
  if (::kill(pid, SIGSTOP) != 0) return false;
  const auto end = Clock::now() + bound;
  while (!all_threads_stopped(pid)) {
    if (Clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

HelperProcess::HelperProcess(const std::string& program, std::vector<std::string> arguments) {
  Pipe in, out;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.read_end.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out.write_end.get(), STDOUT_FILENO);
  arguments.insert(arguments.begin(), program);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) std::abort();
  input_ = std::move(in.write_end);
  output_ = std::move(out.read_end);
}

HelperProcess::HelperProcess(HelperProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      unread_(std::move(other.unread_)) {}

HelperProcess::~HelperProcess() { kill(); }

std::string HelperProcess::read_line(std::chrono::milliseconds bound) {
  const auto end = Clock::now() + bound;
  for (;;) {
    if (const auto newline = unread_.find('\n'); newline != std::string::npos) {
      std::string line = unread_.substr(0, newline);
      unread_.erase(0, newline + 1);
      return line;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    pollfd event{output_.get(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&event, 1, static_cast<int>(left.count())) <= 0) return {};
    char bytes[512];
    const ssize_t read = ::read(output_.get(), bytes, sizeof bytes);  // bounded: poll() said that there is something
    if (read <= 0) return {};
    unread_.append(bytes, static_cast<std::size_t>(read));
  }
}

std::string HelperProcess::wait_for(const std::string& word, std::chrono::milliseconds bound) {
  const auto end = Clock::now() + bound;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    std::string line = read_line(left);
    if (line.empty() || line.starts_with(word)) return line;
  }
}

void HelperProcess::signal(int number) const {
  if (pid_ > 0) svp::test::send_signal(pid_, number);
}

void HelperProcess::kill() {
  if (pid_ < 0) return;
  svp::test::kill_and_collect(std::exchange(pid_, -1), test_bounds::kEmulator);
}

std::optional<int> HelperProcess::wait_exit(std::chrono::milliseconds bound) {
  if (pid_ < 0 || !qemu::test::wait_for_end(pid_, bound)) return std::nullopt;
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);  // bounded: wait_for_end() has seen its end
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace svp::test
