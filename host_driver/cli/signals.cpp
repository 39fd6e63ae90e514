// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/signals.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "host_driver/base/error.hpp"

namespace cli {

SignalDescriptor::SignalDescriptor(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  descriptor_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_.valid()) {
    throw svp::Error({.layer = svp::Layer::Driver,
                      .source = "signalfd",
                      .outcome = wire::Outcome::Rejected,
                      .recoverable = true,
                      .next_step = "close descriptors or raise their limit (ulimit -n)",
                      .message = "cannot wait for signals: " + std::generic_category().message(errno)});
  }
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

SignalDescriptor::~SignalDescriptor() {
  while (read().ssi_signo != 0) {  // bounded: each signal is pending at most once
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

signalfd_siginfo SignalDescriptor::read() const {
  signalfd_siginfo info{};
  // bounded: the descriptor does not block
  if (::read(descriptor(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) info = {};
  return info;
}

namespace {

volatile std::sig_atomic_t interrupt_came = 0;

extern "C" void note_interrupt(int) { interrupt_came = 1; }

}  // namespace

InterruptNote::InterruptNote() {
  interrupt_came = 0;
  struct sigaction action{};
  action.sa_handler = note_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &action, &before_interrupt_);
  ::sigaction(SIGTERM, &action, &before_terminate_);
}

InterruptNote::~InterruptNote() {
  ::sigaction(SIGINT, &before_interrupt_, nullptr);
  ::sigaction(SIGTERM, &before_terminate_, nullptr);
}

bool InterruptNote::came() noexcept { return interrupt_came != 0; }

}  // namespace cli
