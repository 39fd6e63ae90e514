// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/event_loop.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "host_driver/base/unique_fd.hpp"
#include "tests/bounds.hpp"

namespace svp {
namespace {

using namespace std::chrono_literals;

struct Pipe {
  Pipe() {
    int fds[2];
    EXPECT_EQ(::pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    read_end.reset(fds[0]);
    write_end.reset(fds[1]);
  }
  void ring() { EXPECT_EQ(::write(write_end.get(), "12345678", 8), 8); }
  UniqueFd read_end;
  UniqueFd write_end;
};

template <typename Condition>
bool soon(Condition condition) {
  for (const auto end = std::chrono::steady_clock::now() + test_bounds::kThread;
       std::chrono::steady_clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  return condition();
}

TEST(EventLoop, PostedClosuresRunInOrderOnTheLoopsThread) {
  const auto loop = EventLoop::create().value();
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) {
    loop->post([&, i] {
      EXPECT_TRUE(loop->on_loop_thread());
      order.push_back(i);
    });
  }
  loop->flush();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(EventLoop, EverySignalIsReceivedAlsoWhenTheDescriptorIsNeverRead) {
  const auto loop = EventLoop::create().value();
  Pipe pipe;
  std::atomic<int> received{0};
  const auto id = loop->watch(pipe.read_end.get(), [&](unsigned events) {
    EXPECT_NE(events & POLLIN, 0u);
    received.fetch_add(1);
  });
  for (int i = 1; i <= 200; ++i) {
    const int before = received.load();
    pipe.ring();
    ASSERT_TRUE(soon([&] { return received.load() > before; })) << i;
  }
  loop->unwatch(id);
}

TEST(EventLoop, ADescriptorThatIsReadyAlreadyIsReported) {
  const auto loop = EventLoop::create().value();
  Pipe pipe;
  pipe.ring();
  std::atomic<int> received{0};
  const auto id = loop->watch(pipe.read_end.get(), [&](unsigned) { received.fetch_add(1); });
  EXPECT_TRUE(soon([&] { return received.load() > 0; }));
  loop->unwatch(id);
}

TEST(EventLoop, AHangUpIsReportedAndDoesNotSpin) {
  const auto loop = EventLoop::create().value();
  Pipe pipe;
  std::atomic<unsigned> seen{0};
  const auto id = loop->watch(pipe.read_end.get(), [&](unsigned events) { seen.fetch_or(events); });
  pipe.write_end.reset();
  EXPECT_TRUE(soon([&] { return (seen.load() & POLLHUP) != 0; }));
  const auto before = loop->wakeups();
  std::this_thread::sleep_for(test_bounds::kQuiet);  // bounded: time in which nothing may happen
  EXPECT_LE(loop->wakeups() - before, 2u);
  loop->unwatch(id);
}

TEST(EventLoop, AfterUnwatchTheHandlerNeverRuns) {
  const auto loop = EventLoop::create().value();
  for (int i = 0; i < 300; ++i) {
    Pipe pipe;
    auto alive = std::make_unique<std::atomic<int>>(0);
    const auto id = loop->watch(pipe.read_end.get(), [at = alive.get()](unsigned) { at->fetch_add(1); });
    std::thread ringer([&] {
      for (int k = 0; k < 5; ++k) pipe.ring();
    });
    loop->unwatch(id);
    alive.reset();  // a late call would be a use after free
    ringer.join();  // bounded: it rings a number of times
  }
}

TEST(EventLoop, AHandlerMayUnwatchItself) {
  const auto loop = EventLoop::create().value();
  Pipe pipe;
  std::atomic<int> received{0};
  std::atomic<EventLoop::WatchId> id{EventLoop::WatchId::None};
  loop->post([&] {
    id = loop->watch(pipe.read_end.get(), [&](unsigned) {
      received.fetch_add(1);
      loop->unwatch(id);
    });
  });
  pipe.ring();
  EXPECT_TRUE(soon([&] { return received.load() == 1; }));
  pipe.ring();
  loop->flush();
  std::this_thread::sleep_for(test_bounds::kExpires);  // bounded: time in which nothing may happen
  EXPECT_EQ(received.load(), 1);
}

TEST(EventLoop, TimersRunInTheOrderOfTheirTimesAndNotBefore) {
  const auto loop = EventLoop::create().value();
  std::vector<int> order;
  std::atomic<int> count{0};
  const auto start = EventLoop::Clock::now();
  for (const int ms : {30, 10, 20}) {
    loop->run_at(start + std::chrono::milliseconds(ms), [&, ms] {
      // elapsed: a late thread only makes it longer
      EXPECT_GE(EventLoop::Clock::now() - start, std::chrono::milliseconds(ms));
      order.push_back(ms);
      count.fetch_add(1);
    });
  }
  ASSERT_TRUE(soon([&] { return count.load() == 3; }));
  EXPECT_EQ(order, (std::vector<int>{10, 20, 30}));
}

TEST(EventLoop, ACancelledTimerNeverRuns) {
  const auto loop = EventLoop::create().value();
  for (int i = 0; i < 200; ++i) {
    auto alive = std::make_unique<std::atomic<int>>(0);
    const auto id =
        loop->run_at(EventLoop::Clock::now() + std::chrono::microseconds(i), [at = alive.get()] { at->fetch_add(1); });
    loop->cancel(id);
    alive.reset();
  }
}

TEST(EventLoop, ALoopMayBeLetGoOnItsOwnThread) {
  std::atomic<bool> ran{false};
  {
    auto loop = EventLoop::create().value();
    auto* raw = loop.get();
    raw->post([kept = std::move(loop), &ran]() mutable {
      kept.reset();
      ran = true;
    });
  }
  EXPECT_TRUE(soon([&] { return ran.load(); }));
}

TEST(EventLoop, AnIdleLoopSleeps) {
  const auto loop = EventLoop::create().value();
  loop->flush();
  const auto before = loop->wakeups();
  std::this_thread::sleep_for(test_bounds::kQuiet);  // bounded: time in which nothing may happen
  EXPECT_LE(loop->wakeups() - before, 1u);
}

// No descriptor is left; puts the limit back at the end of the scope.
class NoDescriptorLeft {
 public:
  NoDescriptorLeft() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const UniqueFd next(::fcntl(0, F_DUPFD_CLOEXEC, 0));
    rlimit full = before_;
    full.rlim_cur = static_cast<rlim_t>(next.get());
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  }
  ~NoDescriptorLeft() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  NoDescriptorLeft(const NoDescriptorLeft&) = delete;
  NoDescriptorLeft& operator=(const NoDescriptorLeft&) = delete;

 private:
  rlimit before_{};
};

TEST(EventLoop, WithoutADescriptorTheErrorSaysWhichLimitToRaise) {
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "UBSan opens a pipe to look at an object, and takes it for a bad one when there is no descriptor";
#endif
  const auto refused = [] {
    const NoDescriptorLeft full;
    return EventLoop::create();
  }();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("Too many open files"));
  EXPECT_THAT(refused.error().next_step, testing::HasSubstr("ulimit -n"));
  EXPECT_TRUE(EventLoop::create()) << "and with descriptors it works";
}

}  // namespace
}  // namespace svp
