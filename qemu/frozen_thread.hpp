// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <memory>

#include "qemu/machine_error.hpp"
#include "qemu/timeouts.hpp"

namespace qemu {

/// Holds one thread of the emulator still while the others run: one hart that stops without a word (HartThread).
/// SIGSTOP stops a whole process and QMP all harts, so the thread is traced (PTRACE_SEIZE) and interrupted, by a thread
/// of this object: tracing belongs to the thread that began it. Should the tracing process die, the kernel lets the
/// thread go.
///
/// The emulator can be killed meanwhile. A traced thread that has died has to be collected by its tracer before the
/// emulator has ended for anybody; the thread of this object does that within 10 ms.
///
/// A hart that holds the emulator's big lock just then holds up the devices and the other harts too, as a hart that
/// keeps the bus would.
class FrozenThread {
 public:
  /// Errors: kStartFailed (not allowed to trace, no such thread, no thread to be had), kTimeout (it did not stop in
  /// time; it is let go).
  [[nodiscard]] static Result<FrozenThread> freeze(pid_t thread, Timeouts::Duration timeout);
  FrozenThread(FrozenThread&&) noexcept;
  FrozenThread& operator=(FrozenThread&&) = delete;
  /// The thread goes on.
  ~FrozenThread();

 private:
  class Tracer;
  explicit FrozenThread(std::unique_ptr<Tracer> tracer);
  std::unique_ptr<Tracer> tracer_;
};

}  // namespace qemu
