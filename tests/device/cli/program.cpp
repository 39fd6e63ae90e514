// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cli/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "tests/bounds.hpp"
#include "tests/support/process_end.hpp"

namespace svp::test {

namespace {

std::vector<std::string> changed_environment(const Environment& changes) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    if (!changes.contains(text.substr(0, text.find('=')))) entries.push_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (value) entries.push_back(name + "=" + *value);
  }
  return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::array<UniqueFd, 2> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

int milliseconds_until(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return left.count() < 0 ? 0 : static_cast<int>(left.count());
}

}  // namespace

Program::Program(std::vector<std::string> command, const Environment& environment) {
  auto entries = changed_environment(environment);
  auto in = make_pipe();
  auto out = make_pipe();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0].get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out[1].get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out[1].get(), STDERR_FILENO);
  const int error = ::posix_spawnp(&pid_, command.front().c_str(), &actions, nullptr, pointers_to(command).data(),
                                   pointers_to(entries).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), command.front());
  stdin_ = std::move(in[1]);
  output_fd_ = std::move(out[0]);
}

Program::~Program() {
  if (collected_) return;
  svp::test::kill_and_collect(pid_, test_bounds::kEmulator);
}

void Program::write(std::string_view text) const {
  if (::write(stdin_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("its stdin does not take what it is told");
  }
}

void Program::send(int signal) const {
  if (!collected_) svp::test::send_signal(pid_, signal);
}

bool Program::read_some(std::chrono::steady_clock::time_point deadline) {
  pollfd readable{output_fd_.get(), POLLIN, 0};
  if (::poll(&readable, 1, milliseconds_until(deadline)) <= 0) return false;
  std::array<char, 4096> bytes;
  // bounded: poll() said that there is something
  const ssize_t count = ::read(output_fd_.get(), bytes.data(), bytes.size());
  if (count <= 0) return false;
  output_.append(bytes.data(), static_cast<std::size_t>(count));
  return true;
}

std::string Program::wait_for_line(std::string_view text) {
  const auto deadline = std::chrono::steady_clock::now() + kProgramBound;
  do {
    for (std::size_t end; (end = output_.find('\n', seen_)) != std::string::npos;) {
      const std::string line = output_.substr(seen_, end - seen_);
      seen_ = end + 1;
      if (line.find(text) != std::string::npos) return line;
    }
  } while (read_some(deadline));
  return {};
}

std::optional<int> Program::wait_exit(std::chrono::seconds bound) {
  if (collected_) return code_;
  const auto deadline = std::chrono::steady_clock::now() + bound;
  const UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  // Both at once: a program that writes much ends only when it is read.
  for (bool open = true; open;) {
    std::array<pollfd, 2> events = {pollfd{ended.get(), POLLIN, 0}, pollfd{output_fd_.get(), POLLIN, 0}};
    if (::poll(events.data(), events.size(), milliseconds_until(deadline)) <= 0) return std::nullopt;
    if (events[1].revents != 0 && read_some(deadline)) continue;
    open = events[0].revents == 0;
    if (open && events[1].revents != 0) {
      // It closed its output and runs on.
      if (::poll(events.data(), 1, milliseconds_until(deadline)) <= 0) return std::nullopt;
      open = false;
    }
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);  // bounded: its pidfd said that it has ended
  collected_ = true;
  code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return code_;
}

Finished run(std::vector<std::string> command, const Environment& environment, std::chrono::seconds bound) {
  Program program(std::move(command), environment);
  program.close_stdin();
  const auto code = program.wait_exit(bound);
  return {code, program.output()};
}

}  // namespace svp::test
