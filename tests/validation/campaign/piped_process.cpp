// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/piped_process.hpp"

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "host_driver/base/error.hpp"
#include "tests/support/process_end.hpp"
#include "tests/validation/bounds.hpp"

extern char** environ;

namespace svp::campaign {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error({.layer = Layer::Driver,
               .source = "a tenant's process",
               .outcome = wire::Outcome::Rejected,
               .recoverable = true,
               .next_step = "look at this machine's limits on processes and descriptors",
               .message = what + ": " + std::strerror(error)});
}

int milliseconds(nanoseconds time) {
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(std::max(time, nanoseconds{0})).count());
}

std::vector<std::string> environment_with(const PipedProcess::Variables& variables) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!variables.contains(std::string(text.substr(0, text.find('='))))) result.emplace_back(text);
  }
  for (const auto& [name, value] : variables) {
    if (value) result.push_back(name + "=" + *value);
  }
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

PipedProcess::PipedProcess(const std::string& program, const std::vector<std::string>& words,
                           const Variables& variables) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("no socket for it", errno);
  socket_ = UniqueFd{ends[0]};
  const UniqueFd its_end{ends[1]};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO}) {
    ::posix_spawn_file_actions_adddup2(&actions, its_end.get(), stream);
  }
  auto arguments = words;
  auto environment = environment_with(variables);
  const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, pointers_to(arguments).data(),
                                  pointers_to(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail("'" + program + "' could not be started", error);
  pidfd_ = UniqueFd{static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0))};
}

PipedProcess::~PipedProcess() {
  if (pid_ == 0) return;
  kill();
  (void)wait_end(campaign_bounds::kBlock);
}

void PipedProcess::kill() {
  if (pid_ != 0) svp::test::send_signal(pid_, SIGKILL);
}

void PipedProcess::close_input() { ::shutdown(socket_.get(), SHUT_WR); }

bool PipedProcess::write_line(const std::string& line) {
  const std::string text = line + "\n";
  // A line is shorter than what a socket holds unread.
  return ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(text.size());
}

std::optional<std::string> PipedProcess::read_line(nanoseconds bound) {
  const auto limit = Clock::now() + bound;
  for (;;) {  // until `limit`
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    pollfd event{socket_.get(), POLLIN, 0};
    if (::poll(&event, 1, milliseconds(limit - Clock::now())) != 1) return std::nullopt;
    std::array<char, 4096> text{};
    const auto got = ::recv(socket_.get(), text.data(), text.size(), MSG_DONTWAIT);
    if (got <= 0) return std::nullopt;
    unread_.append(text.data(), static_cast<std::size_t>(got));
  }
}

std::optional<int> PipedProcess::wait_end(nanoseconds bound) {
  pollfd event{pidfd_.get(), POLLIN, 0};
  if (::poll(&event, 1, milliseconds(bound)) != 1) return std::nullopt;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace svp::campaign
