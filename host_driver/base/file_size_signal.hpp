// SPDX-License-Identifier: Apache-2.0
// Files larger than RLIMIT_FSIZE (ulimit -f): the kernel sends SIGXFSZ, which ends a process that has not asked for it.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace svp {

// While it exists, a call of this thread that would make a file too large fails with EFBIG, and no signal is delivered.
// What the program does with SIGXFSZ itself is left as it is, also a signal of its own that was waiting before.
class FileSizeSignalHeld {
 public:
  FileSizeSignalHeld() noexcept {
    sigset_t pending;
    waiting_before_ = ::sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
    const sigset_t one = only();
    ::pthread_sigmask(SIG_BLOCK, &one, &before_);
  }
  ~FileSizeSignalHeld() {
    const sigset_t one = only();
    constexpr timespec kNow{};
    if (!waiting_before_) ::sigtimedwait(&one, nullptr, &kNow);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileSizeSignalHeld(const FileSizeSignalHeld&) = delete;
  FileSizeSignalHeld& operator=(const FileSizeSignalHeld&) = delete;

 private:
  static sigset_t only() noexcept {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGXFSZ);
    return one;
  }
  sigset_t before_{};
  bool waiting_before_;
};

}  // namespace svp
