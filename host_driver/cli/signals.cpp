// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/signals.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace cli {

SignalDescriptor::SignalDescriptor(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  descriptor_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_.valid()) throw std::system_error(errno, std::generic_category(), "signalfd");
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

SignalDescriptor::~SignalDescriptor() {
  while (read().ssi_signo != 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

signalfd_siginfo SignalDescriptor::read() const {
  signalfd_siginfo info{};
  if (::read(descriptor(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) info = {};
  return info;
}

}  // namespace cli
