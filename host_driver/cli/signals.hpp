// SPDX-License-Identifier: Apache-2.0
// Signals as something to poll, for commands that stay, and as a note, for commands that print what they have so far.
#pragma once

#include <sys/signalfd.h>

#include <csignal>
#include <initializer_list>

#include "host_driver/base/unique_fd.hpp"

namespace cli {

// Blocks the signals in this thread, and so in every thread that it starts afterwards: make it before any. At its end
// the old mask comes back, and signals that came until then are forgotten: they asked for the end that is reached.
class SignalDescriptor {
 public:
  explicit SignalDescriptor(std::initializer_list<int> signals);
  ~SignalDescriptor();
  SignalDescriptor(const SignalDescriptor&) = delete;
  SignalDescriptor& operator=(const SignalDescriptor&) = delete;

  int descriptor() const { return descriptor_.get(); }
  // What a child should start with.
  const sigset_t& mask_before() const { return before_; }
  // One signal, once the descriptor is readable.
  signalfd_siginfo read() const;

 private:
  sigset_t before_{};
  svp::UniqueFd descriptor_;
};

// While it exists, the first SIGINT or SIGTERM is noted instead of ending the process, for a command that prints what
// it has so far. The second one ends the process. One at a time.
class InterruptNote {
 public:
  InterruptNote();
  ~InterruptNote();
  InterruptNote(const InterruptNote&) = delete;
  InterruptNote& operator=(const InterruptNote&) = delete;

  static bool came() noexcept;

 private:
  struct sigaction before_interrupt_{};
  struct sigaction before_terminate_{};
};

}  // namespace cli
