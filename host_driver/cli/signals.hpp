// SPDX-License-Identifier: Apache-2.0
// Signals as something to poll, for commands that stay.
#pragma once

#include <sys/signalfd.h>

#include <csignal>
#include <initializer_list>

#include "host_driver/base/unique_fd.hpp"

namespace cli {

// Blocks the signals in this thread, and so in every thread that it starts afterwards: make it before any. At its end the
// old mask comes back, and signals that came until then are forgotten: they asked for the end that is reached.
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

}  // namespace cli
