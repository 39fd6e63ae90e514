// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/start_thread.hpp"

#include <gtest/gtest.h>

#include <array>
#include <csignal>

namespace svp {
namespace {

constexpr std::array kOfPrograms{SIGINT,  SIGTERM, SIGHUP,  SIGUSR1, SIGUSR2,
                                 SIGALRM, SIGCHLD, SIGPROF, SIGPIPE, SIGWINCH};

sigset_t mask_of_this_thread() {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return mask;
}

TEST(StartThread, EverySignalIsBlockedInItsFirstLineAndNoneInItsCreator) {
  const sigset_t before = mask_of_this_thread();
  sigset_t seen;
  sigemptyset(&seen);
  std::thread thread = start_thread([&] { seen = mask_of_this_thread(); });
  thread.join();  // bounded: it reads its mask
  const sigset_t after = mask_of_this_thread();
  for (const int signal : kOfPrograms) {
    EXPECT_EQ(sigismember(&seen, signal), 1) << signal;
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
  }
  EXPECT_EQ(sigismember(&seen, SIGRTMAX), 1);
}

}  // namespace
}  // namespace svp
