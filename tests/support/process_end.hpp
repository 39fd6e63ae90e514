// SPDX-License-Identifier: Apache-2.0
// How a test ends a process of its own. A signal that could not be sent, or a process that does not end of it, ends the
// test program with a message: whoever waits for that process would wait for ever.
#pragma once

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace svp::test {

/// A process that has ended and been collected counts as signalled.
inline void send_signal(pid_t pid, int number) {
  if (::kill(pid, number) == 0 || errno == ESRCH) return;
  std::perror("a process of the test cannot be signalled");
  std::abort();
}

/// A child of this process. Returns what waitpid() says of it; 0 when somebody else has collected it. A process that
/// traces the child (the leak check of AddressSanitizer starts one) learns of its end first: the child has ended then,
/// and waitpid() gives it to this process only when the tracer has let go of it.
inline int kill_and_collect(pid_t child, std::chrono::milliseconds bound) {
  const auto deadline = std::chrono::steady_clock::now() + bound;
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  if (descriptor < 0 && errno == ESRCH) return 0;
  send_signal(child, SIGKILL);
  pollfd event{descriptor, POLLIN, 0};
  const bool ended = descriptor >= 0 && ::poll(&event, 1, static_cast<int>(bound.count())) == 1;
  int status = 0;
  pid_t collected = ended ? ::waitpid(child, &status, WNOHANG) : 0;
  while (ended && collected == 0 && std::chrono::steady_clock::now() < deadline) {
    ::usleep(1000);  // bounded: a pause of the bounded loop
    collected = ::waitpid(child, &status, WNOHANG);
  }
  if (collected == 0) {
    std::fprintf(stderr, "process %d did not end of SIGKILL\n", static_cast<int>(child));
    std::abort();
  }
  ::close(descriptor);
  return status;
}

}  // namespace svp::test
