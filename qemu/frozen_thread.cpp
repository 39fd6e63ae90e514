// SPDX-License-Identifier: Apache-2.0
#include "qemu/frozen_thread.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>

#include "host_driver/base/start_thread.hpp"
#include "qemu/errors.hpp"

namespace qemu {

namespace {

/// There is no descriptor for another process's thread to wait on before Linux 6.9: looked at this often until it has
/// stopped, …
constexpr int kLookMilliseconds = 1;
/// … and whether it has died, from then on.
constexpr std::chrono::milliseconds kLookForDeath{10};  // bounded: until it is let go, or has died

std::unexpected<MachineError> refused(pid_t thread, const char* call, int error) {
  return failure(MachineError::Kind::kStartFailed,
                 fmt::format("{} of thread {} failed: {}.", call, thread, std::generic_category().message(error)),
                 error == EPERM
                     ? "Allow tracing of children: sysctl kernel.yama.ptrace_scope=1, a container with ptrace."
                     : "See whether the emulator still runs (exit_status()), and whether a debugger holds it.");
}

/// The signal that came while it was being stopped, or 0: to be delivered when it goes on.
Result<int> stop(pid_t thread, Timeouts::Duration timeout) {
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return refused(thread, "PTRACE_SEIZE", errno);
  if (::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return refused(thread, "PTRACE_INTERRUPT", errno);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    int status = 0;
    const pid_t stopped = ::waitpid(thread, &status, __WALL | WNOHANG);
    if (stopped == thread) {
      if (!WIFSTOPPED(status)) return refused(thread, "waitpid", ESRCH);
      const bool ours = status >> 16 == PTRACE_EVENT_STOP;
      return ours ? 0 : WSTOPSIG(status);
    }
    if (stopped < 0 && errno != EINTR) return refused(thread, "waitpid", errno);
    if (std::chrono::steady_clock::now() >= deadline) {
      return failure(MachineError::Kind::kTimeout,
                     fmt::format("thread {} did not stop within {} ms.", thread, timeout.count()),
                     "Look at /proc/<pid>/task/<thread>/stack: it hangs in the kernel.");
    }
    ::poll(nullptr, 0, kLookMilliseconds);
  }
}

}  // namespace

/// Its thread's end lets go of what it still traces, whatever state that is in.
class FrozenThread::Tracer {
 public:
  /// Throws std::system_error without a thread.
  Tracer(pid_t thread, Timeouts::Duration timeout)
      : frozen_(thread), self_(svp::start_thread([this, timeout] { trace(timeout); })) {}
  ~Tracer() {
    {
      const std::lock_guard lock(mutex_);
      let_go_ = true;
    }
    changed_.notify_one();
    self_.join();  // bounded: by stop()'s time-out, and it was told
  }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Once.
  Result<void> began() { return began_.get_future().get(); }  // bounded: by stop()'s time-out

 private:
  void trace(Timeouts::Duration timeout) {
    ::pthread_setname_np(::pthread_self(), "spyre-freeze");
    const auto stopped = stop(frozen_, timeout);
    if (!stopped) return began_.set_value(std::unexpected(stopped.error()));
    began_.set_value({});
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kLookForDeath, [this] { return let_go_; })) {
      const pid_t dead = ::waitpid(frozen_, nullptr, __WALL | WNOHANG);
      if (dead == frozen_ || (dead < 0 && errno != EINTR)) return;
    }
    ::ptrace(PTRACE_DETACH, frozen_, nullptr, *stopped);
  }

  const pid_t frozen_;
  std::promise<Result<void>> began_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool let_go_ = false;
  std::thread self_;  // the last: it uses the others
};

Result<FrozenThread> FrozenThread::freeze(pid_t thread, Timeouts::Duration timeout) try {
  auto tracer = std::make_unique<Tracer>(thread, timeout);
  if (auto began = tracer->began(); !began) return std::unexpected(std::move(began.error()));
  return FrozenThread{std::move(tracer)};
} catch (const std::system_error& error) {
  return refused(thread, "a thread that traces", error.code().value());
}

FrozenThread::FrozenThread(std::unique_ptr<Tracer> tracer) : tracer_(std::move(tracer)) {}
FrozenThread::FrozenThread(FrozenThread&&) noexcept = default;
FrozenThread::~FrozenThread() = default;

}  // namespace qemu
