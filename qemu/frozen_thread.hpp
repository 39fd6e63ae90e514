// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <utility>

#include "qemu/machine_error.hpp"
#include "qemu/timeouts.hpp"

namespace qemu {

/// Holds one thread of the emulator still while the others run: one hart that stops without a word (HartThread).
/// SIGSTOP stops a whole process and QMP all harts, so the thread is traced (PTRACE_SEIZE) and interrupted. Should the
/// tracing process die, the kernel lets the thread go.
///
/// A hart that holds the emulator's big lock just then holds up the devices and the other harts too, as a hart that
/// keeps the bus would.
///
/// Threading: made, moved and destroyed by one thread: tracing belongs to it.
class FrozenThread {
 public:
  /// Errors: kStartFailed (not allowed to trace, no such thread), kTimeout (it did not stop in time).
  [[nodiscard]] static Result<FrozenThread> freeze(pid_t thread, Timeouts::Duration timeout);
  FrozenThread(FrozenThread&& other) noexcept : thread_(std::exchange(other.thread_, 0)), signal_(other.signal_) {}
  FrozenThread& operator=(FrozenThread&&) = delete;
  ~FrozenThread();

 private:
  FrozenThread(pid_t thread, int signal) : thread_(thread), signal_(signal) {}
  pid_t thread_;
  int signal_;  ///< came while it was stopped: delivered when it goes on
};

}  // namespace qemu
