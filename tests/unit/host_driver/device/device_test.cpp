// SPDX-License-Identifier: Apache-2.0
// What a test can see only with the card in its hand: paused, without timers, with a driver that blocks where it may
// not. What holds for any function of any card is in tests/conformance.
#include "host_driver/device/device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "host_driver/base/event_loop.hpp"
#include "tests/bounds.hpp"
#include "tests/support/block_stream.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

using test::CompletionCounter;
using test::CompletionRecorder;
using test::NativeCard;
using test::submit_nops;
using test::work_limit;

TEST(Device, AStreamGetsItsCreditsAndNotOneMore) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  card.pause();
  CompletionCounter counter;
  EXPECT_EQ(value_or_throw(submit_nops(*device, 0, counter, 1000)), wire::kStreamCredits);
  EXPECT_EQ(value_or_throw(submit_nops(*device, 0, counter, 1)), 0u);
  EXPECT_EQ(device->outstanding(0), wire::kStreamCredits);
  card.resume();
  ASSERT_EQ(device->wait_until([&] { return counter.ended() == wire::kStreamCredits; }, work_limit()),
            WaitStatus::Done);
  EXPECT_EQ(counter.not_ok(), 0u);
}

TEST(Device, AWaitEndsAtItsDeadline) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  const auto start = Device::Clock::now();
  EXPECT_EQ(device->wait_until([] { return false; }, start + test_bounds::kExpires), WaitStatus::TimedOut);
  EXPECT_EQ(device->wait_until([] { return false; }, start), WaitStatus::TimedOut) << "in the past";
}

TEST(Device, AWaitForSomethingElseEndsWhenToldToLook) {
  NativeCard card;
  DeviceOptions options;
  options.faults.no_timers = true;
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  std::atomic<bool> flag{false};
  std::vector<std::thread> waiters;
  waiters.reserve(3);
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back(
        [&] { EXPECT_EQ(device->wait_until([&] { return flag.load(); }, work_limit()), WaitStatus::Done); });
  }
  flag.store(true);
  device->wake_waiters();
  for (auto& waiter : waiters) waiter.join();  // bounded: each has a deadline of its own
}

class Intruder final : public CompletionSink {
 public:
  explicit Intruder(Device& device) : device_(device) {}
  void on_completion(const wire::Completion&) noexcept override {
    waited = device_.wait_until([] { return false; }, work_limit());
    admin_failed = !device_.card_statistics().has_value();
    reset_failed = !device_.reset_stream(0).has_value();
    device_.poll();
    done.store(true);
  }
  WaitStatus waited = WaitStatus::Done;
  bool admin_failed = false;
  bool reset_failed = false;
  std::atomic<bool> done{false};

 private:
  Device& device_;
};

// A thread that waits sleeps between its looks at the card; here for as long as the test lasts.
TEST(Device, CheckNowFindsARestartThatAThreadWhichWaitsHasNotSeen) {
  NativeCard card;
  DeviceOptions options;
  options.faults.no_timers = true;
  const auto device = card.attach(1, std::move(options));
  std::thread waiter([&] { EXPECT_EQ(device->wait_until([] { return false; }, work_limit()), WaitStatus::Failed); });
  const auto limit = work_limit();
  while (device->statistics().sleeps == 0 && Device::Clock::now() < limit) std::this_thread::yield();
  ASSERT_NE(device->statistics().sleeps, 0u);
  card.pause();
  auto& epoch = reinterpret_cast<wire::WindowHeader*>(card.window(1))->boot_epoch;
  epoch = epoch + 1;
  device->check_now();
  EXPECT_EQ(device->health(), Health::NeedsReset);
  waiter.join();  // bounded: the device has failed
  card.resume();
}

TEST(Device, BlockingInsideASinkIsRefusedAtOnce) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  Intruder intruder(*device);
  value_or_throw(submit_nops(*device, 0, intruder, 1));
  ASSERT_EQ(device->wait_until([&] { return intruder.done.load(); }, work_limit()), WaitStatus::Done);
  EXPECT_EQ(intruder.waited, WaitStatus::Refused);
  EXPECT_TRUE(intruder.admin_failed);
  EXPECT_TRUE(intruder.reset_failed);
}

// ---- streams --------------------------------------------------------------------------------------------------------

TEST(Device, EverythingOfAStreamIsReportedBeforeItsResetReturns) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  const auto stream = device->open_stream(StreamPriority::Low);
  ASSERT_TRUE(stream);
  for (int round = 0; round < 50; ++round) {
    CompletionRecorder recorder;
    card.pause();
    const auto count = value_or_throw(submit_nops(*device, *stream, recorder, 10));
    std::thread later([&] { card.resume(); });
    const auto reset = device->reset_stream(*stream);
    later.join();  // bounded: it resumes the card once
    ASSERT_TRUE(reset) << describe(reset.error());
    ASSERT_EQ(recorder.ended(), count);
    CompletionCounter counter;
    value_or_throw(submit_nops(*device, *stream, counter, 5));
    ASSERT_EQ(device->wait_until([&] { return counter.ended() == 5; }, work_limit()), WaitStatus::Done);
    ASSERT_EQ(counter.not_ok(), 0u) << "the new incarnation is clean";
  }
}

// ---- admin ----------------------------------------------------------------------------------------------------------

TEST(Device, ALostReplyIsIndeterminateAndItsSlotComesBackWithTheReply) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  card.pause();
  // All at a time, so that they wait for the driver's own time-out together: with a shorter one a busy machine would
  // not answer the last request in time.
  std::vector<std::thread> askers(wire::kAdminSlots + 3);
  for (std::thread& asker : askers) {
    asker = std::thread([&] {
      const auto reply = device->card_statistics();
      ASSERT_FALSE(reply);
      EXPECT_EQ(reply.error().outcome, wire::Outcome::Indeterminate);
    });
  }
  for (std::thread& asker : askers) asker.join();  // bounded: each request is, by Timeouts::admin
  card.resume();
  for (unsigned i = 0; i < wire::kAdminSlots + 3; ++i) EXPECT_TRUE(device->card_statistics());
  // Silent for so long, it is believed again when its heartbeat was seen.
  EXPECT_EQ(device->wait_until([&] { return device->health() == Health::Alive; }, work_limit()), WaitStatus::Done);
}

// ---- doorbells ------------------------------------------------------------------------------------------------------

struct DropCase {
  double to_card;
  double from_card;
};
class LostDoorbells : public testing::TestWithParam<DropCase> {};

TEST_P(LostDoorbells, MakeItSlowerAndLoseNothing) {
  NativeCard card;
  DeviceOptions options;
  options.faults.drop_doorbells_to_card = GetParam().to_card;
  options.faults.drop_doorbells_from_card = GetParam().from_card;
  options.faults.no_spinning = true;
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  CompletionCounter counter;
  for (std::uint64_t round = 1; round <= 60; ++round) {
    // bounded: think time, so that the card sleeps
    std::this_thread::sleep_for(std::chrono::microseconds(round * 37 % 400));
    value_or_throw(submit_nops(*device, 0, counter, 1));
    ASSERT_EQ(device->wait_until([&] { return counter.ended() == round; }, work_limit()), WaitStatus::Done);
  }
  EXPECT_EQ(counter.not_ok(), 0u);
  EXPECT_EQ(device->health(), Health::Alive);
}
INSTANTIATE_TEST_SUITE_P(EachWay, LostDoorbells,
                         testing::Values(DropCase{1, 0}, DropCase{0, 1}, DropCase{1, 1}, DropCase{0.5, 0.5},
                                         DropCase{0.01, 0.01}),
                         [](const auto& info) { return "Case" + std::to_string(info.index); });

// Neither side has a timer: a single lost wake-up would stall until the deadline.
TEST(Device, SleepingRoundTripsNeedNoTimer) {
  NativeCard card({.boot_arguments = "timers=0"});
  DeviceOptions options;
  options.faults.no_spinning = true;
  options.faults.no_timers = true;
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  CompletionCounter counter;
  std::uint64_t state = 1;
  for (std::uint64_t round = 1; round <= 3000; ++round) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const auto end = Device::Clock::now() + std::chrono::nanoseconds(state >> 50);  // up to 16 µs
    while (Device::Clock::now() < end) {
    }
    value_or_throw(submit_nops(*device, 0, counter, 1));
    ASSERT_EQ(device->wait_until([&] { return counter.ended() == round; }, work_limit()), WaitStatus::Done) << round;
  }
  EXPECT_EQ(counter.not_ok(), 0u);
}

TEST(Device, ProgressWithoutAWaiterNeedsNoTimer) {
  NativeCard card({.boot_arguments = "timers=0"});
  DeviceOptions options;
  options.faults.no_timers = true;
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  CompletionCounter counter;
  for (std::uint64_t round = 1; round <= 3000; ++round) {
    value_or_throw(submit_nops(*device, 0, counter, 1));
    for (const auto end = work_limit(); counter.ended() != round;) {
      ASSERT_LT(Device::Clock::now(), end) << round;
      std::this_thread::yield();
    }
  }
}

// Waiting now and then, so that the reaping moves between the waiter and the event loop all the time.
TEST(Device, HandingOverBetweenWaiterAndEventLoopLosesNothing) {
  NativeCard card({.boot_arguments = "timers=0"});
  DeviceOptions options;
  options.faults.no_timers = true;
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  CompletionCounter counter;
  std::uint64_t sent = 0;
  for (std::uint64_t round = 1; round <= 3000; ++round) {
    sent += value_or_throw(submit_nops(*device, 0, counter, 1 + round % 3));
    if (round % 2 == 0) {
      const auto target = sent - round % 3;
      ASSERT_EQ(device->wait_until([&] { return counter.ended() >= target; }, work_limit()), WaitStatus::Done) << round;
    }
    for (const auto end = work_limit(); counter.ended() + 100 < sent;) ASSERT_LT(Device::Clock::now(), end) << round;
  }
  for (const auto end = work_limit(); counter.ended() != sent;) ASSERT_LT(Device::Clock::now(), end);
}

TEST(Device, APolledDeviceFindsEverythingAndNothingWithoutBeingAsked) {
  NativeCard card;
  DeviceOptions options;
  options.polled = true;
  options.faults.no_timers = true;  // no tick either: nobody but this thread looks
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  // By the card's own count. What the loop reaps would say less: a doorbell of bring-up that is received late finds
  // blocks, too.
  const auto doorbells = [&] { return device->card_statistics().value().values.stats.doorbells_signalled; };
  const std::uint64_t before = doorbells();
  CompletionCounter counter;
  constexpr std::size_t kBlocks = 100;
  for (std::size_t i = 1; i <= kBlocks; ++i) {
    ASSERT_EQ(value_or_throw(submit_nops(*device, 0, counter, 1)), 1u);
    const auto limit = work_limit();
    while (counter.ended() < i && Device::Clock::now() < limit) (void)device->poll();
    ASSERT_EQ(counter.ended(), i);
  }
  EXPECT_LE(doorbells() - before, 2u) << "more than for the answers to these questions";
  // Who sleeps in a wait is woken all the same.
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(value_or_throw(submit_nops(*device, 0, counter, 1)), 1u);
    const std::size_t wanted = kBlocks + static_cast<std::size_t>(i) + 1;
    ASSERT_EQ(device->wait_until([&] { return counter.ended() == wanted; }, work_limit()), WaitStatus::Done);
  }
}

TEST(Device, AnIdleDeviceDoesNotWakeUp) {
  NativeCard card;
  DeviceOptions options;
  options.loop = EventLoop::create().value();
  const auto loop = options.loop;
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  CompletionCounter counter;
  value_or_throw(submit_nops(*device, 0, counter, 1));
  ASSERT_EQ(device->wait_until([&] { return counter.ended() == 1; }, work_limit()), WaitStatus::Done);
  std::this_thread::sleep_for(test_bounds::kQuiet);  // bounded: longer than the driver's ticks go on
  const auto before = loop->wakeups();
  std::this_thread::sleep_for(test_bounds::kQuiet);  // bounded: time in which nothing may happen
  EXPECT_LE(loop->wakeups() - before, 1u);
}

}  // namespace
}  // namespace svp
