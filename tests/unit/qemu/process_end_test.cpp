// SPDX-License-Identifier: Apache-2.0
//
// How tests end processes of their own (tests/support/process_end.hpp).
#include "tests/support/process_end.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "host_driver/base/unique_fd.hpp"
#include "tests/bounds.hpp"

namespace svp::test {
namespace {

struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    read_end = UniqueFd{ends[0]};
    write_end = UniqueFd{ends[1]};
  }
  void tell() const {
    if (::write(write_end.get(), "x", 1) != 1) ::_exit(2);
  }
  bool told() const {
    char byte = 0;
    pollfd event{read_end.get(), POLLIN, 0};
    if (::poll(&event, 1, static_cast<int>(test_bounds::kPlayedEmulator.count())) != 1) return false;
    return ::read(read_end.get(), &byte, 1) == 1;  // bounded: poll() has said that it is there
  }

  UniqueFd read_end;
  UniqueFd write_end;
};

pid_t start_child(const Pipe& ready) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  ready.tell();
  for (;;) ::pause();  // bounded: the test kills it
}

// Traces `traced` until some time after its end, as the leak check of AddressSanitizer does.
pid_t start_tracer(pid_t traced, const Pipe& ready) {
  const pid_t tracer = ::fork();
  if (tracer != 0) return tracer;
  const int end = static_cast<int>(::syscall(SYS_pidfd_open, traced, 0));
  if (::ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) != 0) ::_exit(3);
  ready.tell();
  pollfd event{end, POLLIN, 0};
  ::poll(&event, 1, static_cast<int>(test_bounds::kPlayedEmulator.count()));
  ::usleep(20'000);  // bounded: long enough for the test to look before the tracer has let go
  ::_exit(0);
}

TEST(ProcessEnd, SaysWhatSignalEndedAChild) {
  const Pipe ready;
  const pid_t child = start_child(ready);
  ASSERT_TRUE(ready.told());
  const int status = kill_and_collect(child, test_bounds::kPlayedEmulator);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST(ProcessEnd, WaitsForATracerThatLearnsOfTheEndFirst) {
  const Pipe ready;
  const Pipe traced;
  const pid_t child = start_child(ready);
  ASSERT_TRUE(ready.told());
  const pid_t tracer = start_tracer(child, traced);
  ASSERT_TRUE(traced.told());
  const int status = kill_and_collect(child, test_bounds::kPlayedEmulator);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  kill_and_collect(tracer, test_bounds::kPlayedEmulator);
}

TEST(ProcessEnd, OfAChildThatWasCollectedBeforeIsZero) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(7);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);  // bounded: the child ends at once
  EXPECT_EQ(kill_and_collect(child, test_bounds::kPlayedEmulator), 0);
}

}  // namespace
}  // namespace svp::test
