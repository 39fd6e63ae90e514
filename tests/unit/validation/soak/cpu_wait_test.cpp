// SPDX-License-Identifier: Apache-2.0
// What the kernel says about a thread that has to share its CPU.
#include "tests/validation/soak/cpu_wait.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/bounds.hpp"

namespace svp::soak {
namespace {

void pin_to_one_cpu() {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  CPU_SET(cpu, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
}

TEST(CpuWait, GrowsWhileAnotherThreadHasTheOnlyCpu) {
  std::atomic<pid_t> waiting{0};
  std::atomic<bool> stop{false};
  const auto busy = [&] {
    pin_to_one_cpu();
    waiting = ::gettid();
    while (!stop) {  // bounded: by the main thread's limit
    }
  };
  std::thread one(busy), other(busy);
  const auto limit = std::chrono::steady_clock::now() + test_bounds::kThread;
  while (waiting == 0) std::this_thread::yield();  // bounded: both threads begin by storing it
  const CpuWait wait(::getpid(), waiting);
  const auto before = wait.total();
  while (wait.total() <= before && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(test_bounds::kLook);  // bounded: by the loop's limit
  }
  const auto after = wait.total();
  stop = true;
  one.join();    // bounded: the flag is set
  other.join();  // bounded: the flag is set
  EXPECT_GT(after, before);
}

TEST(CpuWait, OfNobodyIsZero) {
  EXPECT_EQ(CpuWait().total(), std::chrono::nanoseconds{});
  EXPECT_EQ(CpuWait(::getpid(), 0).total(), std::chrono::nanoseconds{});
}

}  // namespace
}  // namespace svp::soak
