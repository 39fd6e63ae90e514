// SPDX-License-Identifier: Apache-2.0
#include "qemu/frozen_thread.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <system_error>

#include "qemu/errors.hpp"

namespace qemu {

namespace {

/// There is no descriptor for another process's thread to wait on before Linux 6.9: looked at this often.
constexpr int kLookMilliseconds = 1;

std::unexpected<MachineError> refused(pid_t thread, const char* call, int error) {
  return failure(MachineError::Kind::kStartFailed,
                 fmt::format("{} of thread {} failed: {}.", call, thread, std::generic_category().message(error)),
                 error == EPERM
                     ? "Allow tracing of children: sysctl kernel.yama.ptrace_scope=1, a container with ptrace."
                     : "See whether the emulator still runs (exit_status()), and whether a debugger holds it.");
}

}  // namespace

Result<FrozenThread> FrozenThread::freeze(pid_t thread, Timeouts::Duration timeout) {
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return refused(thread, "PTRACE_SEIZE", errno);
  // Another stop may come first, for a signal; what we do not know yet must not be stopped for ever.
  const auto let_go = [&] { ::ptrace(PTRACE_DETACH, thread, nullptr, nullptr); };
  if (::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) {
    const int error = errno;
    let_go();
    return refused(thread, "PTRACE_INTERRUPT", error);
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    int status = 0;
    const pid_t stopped = ::waitpid(thread, &status, __WALL | WNOHANG);
    if (stopped == thread) {
      if (!WIFSTOPPED(status)) return refused(thread, "waitpid", ESRCH);
      const bool ours = status >> 16 == PTRACE_EVENT_STOP;
      return FrozenThread{thread, ours ? 0 : WSTOPSIG(status)};
    }
    if (stopped < 0 && errno != EINTR) return refused(thread, "waitpid", errno);
    if (std::chrono::steady_clock::now() >= deadline) {
      let_go();
      return failure(MachineError::Kind::kTimeout,
                     fmt::format("thread {} did not stop within {} ms.", thread, timeout.count()),
                     "Look at /proc/<pid>/task/<thread>/stack: it hangs in the kernel.");
    }
    ::poll(nullptr, 0, kLookMilliseconds);
  }
}

FrozenThread::~FrozenThread() {
  if (thread_ != 0) ::ptrace(PTRACE_DETACH, thread_, nullptr, signal_);
}

}  // namespace qemu
