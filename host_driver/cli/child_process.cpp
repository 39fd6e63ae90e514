// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "host_driver/cli/exit_codes.hpp"

namespace cli {

namespace {

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto replaced = [&](const auto& variable) {
      return text.starts_with(variable.first) && text.substr(variable.first.size()).starts_with('=');
    };
    if (std::ranges::none_of(variables, replaced)) entries.emplace_back(text);
  }
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

svp::ErrorInfo not_started(const std::string& program, int error) {
  return {.layer = svp::Layer::Driver,
          .source = program,
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "check the name behind -- and PATH",
          .message = "cannot start '" + program + "': " + std::strerror(error)};
}

}  // namespace

svp::Expected<ChildProcess> ChildProcess::start(const std::vector<std::string>& command,
                                                const std::vector<std::pair<std::string, std::string>>& variables,
                                                const sigset_t& mask, int* why) {
  std::vector<std::string> words = command;
  std::vector<std::string> environment = environment_with(variables);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, words.front().c_str(), nullptr, &attributes, pointers_to(words).data(),
                                   pointers_to(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  if (why != nullptr) *why = error;
  if (error != 0) return std::unexpected(not_started(words.front(), error));
  return ChildProcess(pid, svp::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
}

int ChildProcess::await_end(const SignalDescriptor& signals) {
  std::array<pollfd, 2> events = {pollfd{pidfd_.get(), POLLIN, 0}, pollfd{signals.descriptor(), POLLIN, 0}};
  // Without a pidfd (no descriptor left) nothing can be passed on, but its end is still learned.
  while (pidfd_.valid()) {
    // bounded: as long as the user's program runs; a signal comes here too
    if (::poll(events.data(), events.size(), -1) < 0) continue;
    if (events[0].revents != 0) break;
    if (events[1].revents == 0) continue;
    const signalfd_siginfo signal = signals.read();
    // The terminal sends its signals to the whole process group: the child has it already.
    const bool has_it = signal.ssi_code == SI_KERNEL;
    if (signal.ssi_signo != 0 && !has_it) pass_on(static_cast<int>(signal.ssi_signo));
  }
  return collect();
}

void ChildProcess::pass_on(int number) const {
  if (::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0) == 0 || errno == ESRCH) return;
  // A command may run as another user (sudo). It is told on the terminal, where the signal most often came from.
  fmt::print(stderr, "spyre: {} cannot be passed on to process {}: {}; end it as the user that it runs as\n",
             ::strsignal(number), pid_, std::strerror(errno));
}

int ChildProcess::collect() const {
  int status = 0;
  // bounded: it has ended, or as long as the user's program runs
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? kEndedBySignal + WTERMSIG(status) : WEXITSTATUS(status);
}

svp::Expected<BackgroundProcess> BackgroundProcess::start(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(not_started(words.front(), errno));
  svp::UniqueFd output(ends[0]);
  const svp::UniqueFd input(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, words.front().c_str(), &actions, &attributes, pointers_to(words).data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::unexpected(not_started(words.front(), error));
  return BackgroundProcess(pid, std::move(output));
}

int BackgroundProcess::await_end() const {
  int status = 0;
  // bounded: its output has ended, which its exit closes
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? kEndedBySignal + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace cli
