// SPDX-License-Identifier: Apache-2.0
#include "qemu/child_process.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <mutex>
#include <utility>
#include <vector>

namespace qemu {

namespace {

/// By descriptor: somebody who waits for any child may have collected one, and its number may be another child's now.
struct LateChildren {
  std::mutex mutex;
  std::vector<svp::UniqueFd> all;
};

/// Never destroyed: cards may end in destructors of static objects.
LateChildren& late_children() {
  static auto& children = *new LateChildren;
  return children;
}

/// Also when it is no child of this process, or not any more: there is nothing left to do.
bool is_collected(int pidfd) {
  siginfo_t ended{};
  const int result = ::waitid(P_PIDFD, static_cast<id_t>(pidfd), &ended, WEXITED | WNOHANG);
  return result == 0 ? ended.si_pid != 0 : errno != EINTR;
}

bool ends_within(int pidfd, Timeouts::Duration timeout) {
  pollfd event{pidfd, POLLIN, 0};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  int ready;
  do {
    const auto left = std::chrono::ceil<Timeouts::Duration>(deadline - std::chrono::steady_clock::now());
    ready = ::poll(&event, 1, static_cast<int>(std::max(left, Timeouts::Duration{0}).count()));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

bool ends_or_is_killed(int pidfd, Timeouts::Duration timeout) {
  if (ends_within(pidfd, timeout)) return true;
  const bool sent = ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0) == 0;
  return (sent || errno == ESRCH) && ends_within(pidfd, timeout);
}

}  // namespace

bool collect_child(pid_t child, svp::UniqueFd pidfd, Timeouts::Duration timeout) {
  if (!pidfd.valid()) {
    const bool sent = ::kill(child, SIGKILL) == 0;
    return ::waitpid(child, nullptr, WNOHANG) != 0 || (!sent && errno == ESRCH);
  }
  if (ends_or_is_killed(pidfd.get(), timeout) && is_collected(pidfd.get())) return true;
  LateChildren& late = late_children();
  const std::lock_guard lock(late.mutex);
  late.all.push_back(std::move(pidfd));
  return false;
}

void collect_late_children() {
  LateChildren& late = late_children();
  const std::lock_guard lock(late.mutex);
  std::erase_if(late.all, [](const svp::UniqueFd& pidfd) { return is_collected(pidfd.get()); });
}

}  // namespace qemu
