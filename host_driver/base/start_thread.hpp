// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <csignal>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "host_driver/base/error.hpp"

namespace svp {

// A thread of the driver. The program's signals are for the program's threads: this one blocks them all, from its first
// instruction, because a thread begins with the mask of the one that creates it. Throws std::system_error as
// std::thread.
template <typename Work>
std::thread start_thread(Work&& work) {
  struct AllBlocked {
    AllBlocked() {
      sigset_t all;
      sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~AllBlocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    AllBlocked(const AllBlocked&) = delete;
    AllBlocked& operator=(const AllBlocked&) = delete;
    sigset_t before{};
  };
  const AllBlocked blocked;
  return std::thread(std::forward<Work>(work));
}

// The same, with a typed error that says what it was for.
template <typename Work>
std::thread start_worker(const std::string& purpose, Work&& work) {
  try {
    return start_thread(std::forward<Work>(work));
  } catch (const std::system_error&) {
    throw Error({.layer = Layer::Driver,
                 .source = "thread",
                 .outcome = wire::Outcome::Rejected,
                 .recoverable = true,
                 .next_step = "end other programs or raise the limit of processes (ulimit -u)",
                 .message = "the system has no thread left for " + purpose});
  }
}

}  // namespace svp
