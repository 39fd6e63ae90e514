// SPDX-License-Identifier: Apache-2.0
// ResetLevel::Queue and the orderly end of a device that stays: every accepted block ends exactly once, in the order of
// its stream, nothing ends after the reset has been reported, and whoever waits meanwhile comes home.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "host_driver/base/event_loop.hpp"
#include "host_driver/device/device.hpp"
#include "tests/bounds.hpp"
#include "tests/support/block_stream.hpp"
#include "tests/support/gate.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

using test::CompletionRecorder;
using test::NativeCard;
using test::submit_nops;
using test::work_limit;
using wire::Outcome;

void expect_works(Device& device, std::uint32_t stream) {
  CompletionRecorder recorder;
  ASSERT_EQ(submit_nops(device, stream, recorder, 10).value_or(0), 10u);
  ASSERT_EQ(device.wait_until([&] { return recorder.ended() == 10; }, work_limit()), WaitStatus::Done);
  for (const auto& end : recorder.all()) EXPECT_EQ(end.outcome, Outcome::Ok);
}

TEST(QueueReset, WhatNeverStartedEndsAbortedOnceAndEveryStreamGoesOn) {
  NativeCard card;
  const auto device = card.attach();
  const std::uint32_t second = device->open_stream(StreamPriority::High).value();
  for (int round = 0; round < 20; ++round) {
    CompletionRecorder first, other;
    card.pause();
    // The card has taken some of them in most rounds, and none in others.
    const std::size_t accepted = submit_nops(*device, 0, first, 40).value_or(0);
    EXPECT_EQ(submit_nops(*device, second, other, 30).value_or(0), 30u);
    std::thread resumes([&] { card.resume(); });
    const auto before = device->stream_incarnation(second);
    const auto reset = device->reset_queues();
    resumes.join();  // bounded: it resumes the card once
    ASSERT_TRUE(reset) << describe(reset.error());
    EXPECT_EQ(first.ended(), accepted);
    EXPECT_EQ(other.ended(), 30u);
    EXPECT_EQ(device->outstanding(0), 0u);
    EXPECT_EQ(device->stream_incarnation(second), before + 1);
    for (const CompletionRecorder* recorder : {&first, &other}) {
      const auto all = recorder->all();
      std::uint64_t sequence = all.front().sequence;
      bool aborted = false;
      for (const auto& end : all) {
        EXPECT_EQ(end.sequence, sequence++) << "out of order, twice or never";
        EXPECT_TRUE(end.outcome == Outcome::Ok || end.outcome == Outcome::Aborted) << wire::name(end.outcome);
        EXPECT_FALSE(aborted && end.outcome == Outcome::Ok) << "an earlier block had been removed";
        aborted |= end.outcome == Outcome::Aborted;
      }
    }
    expect_works(*device, 0);
    expect_works(*device, second);
  }
}

TEST(QueueReset, SubmittersWaitersAndOtherStreamsOfCommandsMayBeAtWork) {
  NativeCard card;
  const auto device = card.attach();
  std::atomic<bool> over{false};
  std::atomic<std::size_t> accepted{0};
  CompletionRecorder recorder;
  std::thread submitter([&] {
    while (!over.load()) {  // bounded: the test sets the flag; it does not wait
      accepted += submit_nops(*device, 0, recorder, 7).value_or(0);
      std::this_thread::yield();
    }
  });
  std::thread waiter(
      [&] { EXPECT_EQ(device->wait_until([&] { return over.load(); }, work_limit()), WaitStatus::Done); });
  std::thread commander([&] {
    while (!over.load()) {  // bounded: the test sets the flag; it does not wait
      const auto stream = device->open_stream(StreamPriority::Low);
      ASSERT_TRUE(stream) << describe(stream.error());
      ASSERT_TRUE(device->close_stream(*stream));
    }
  });
  for (int round = 0; round < 50; ++round) {
    const auto reset = device->reset_queues();
    ASSERT_TRUE(reset) << describe(reset.error());
  }
  over = true;
  device->wake_waiters();
  submitter.join();  // bounded: the flag is set; it does not wait
  waiter.join();     // bounded: the flag is set, and it has a deadline
  commander.join();  // bounded: the flag is set, and admin calls have Timeouts::admin
  EXPECT_EQ(device->wait_until([&] { return recorder.ended() == accepted.load(); }, work_limit()), WaitStatus::Done);
  expect_works(*device, 0);
}

TEST(QueueReset, ACardThatDoesNotAnswerIsATypedErrorInTimeAndNeedsAFunctionReset) {
  NativeCard card;
  DeviceOptions options;
  options.timeouts.queue_reset = test_bounds::kExpires;  // reached: the card is paused
  const auto device = card.attach(1, std::move(options));
  CompletionRecorder recorder;
  card.pause();
  ASSERT_EQ(submit_nops(*device, 0, recorder, 5).value_or(0), 5u);
  const auto reset = device->reset_queues();
  ASSERT_FALSE(reset);
  EXPECT_EQ(reset.error().outcome, Outcome::Indeterminate);
  EXPECT_NE(reset.error().next_step.find("recover"), std::string::npos) << describe(reset.error());
  EXPECT_EQ(device->health(), Health::NeedsReset);
  EXPECT_EQ(recorder.ended(), 5u) << "each ended, once";
  EXPECT_FALSE(device->reset_queues());
  card.resume();
}

// ---- close() --------------------------------------------------------------------------------------------------------

TEST(DeviceClose, TheFunctionMayBeAttachedAgainWhileTheClosedDeviceStillExists) {
  NativeCard card;
  std::unique_ptr<Device> last = card.attach();
  for (int boot = 0; boot < 10; ++boot) {
    CompletionRecorder recorder;
    const std::size_t accepted = submit_nops(*last, 0, recorder, 20).value_or(0);
    std::thread waiter([&] { EXPECT_EQ(last->wait_until([] { return false; }, work_limit()), WaitStatus::Failed); });
    last->close();
    waiter.join();  // bounded: close() ends its wait, or its deadline
    EXPECT_EQ(recorder.ended(), accepted) << "everything has ended when close() returns";
    auto next = card.attach();
    ASSERT_TRUE(next);
    EXPECT_EQ(next->window_identity(), last->window_identity());
    // The closed one does not touch what is the other's now.
    EXPECT_EQ(last->poll(), 0u);
    last->check();
    EXPECT_FALSE(last->submit(0, {}));
    EXPECT_FALSE(last->open_stream(StreamPriority::Low));
    EXPECT_FALSE(last->reset_queues());
    expect_works(*next, 0);
    last->close();
    last = std::move(next);
  }
}

TEST(DeviceClose, IsOverForEveryCallerWhenItReturns) {
  NativeCard card;
  for (int round = 0; round < 20; ++round) {
    const auto loop = EventLoop::create().value();
    DeviceOptions options;
    options.loop = loop;
    const auto device = card.attach(1, std::move(options));
    CompletionRecorder recorder;
    const std::size_t accepted = submit_nops(*device, 0, recorder, 20).value_or(0);
    // The loop's thread is kept busy, so that whoever closes first waits for it.
    test::Gate gate;
    loop->post(gate.passing());
    std::atomic<int> at_it{0}, returned{0};
    std::vector<std::thread> closers;
    closers.reserve(3);
    for (int i = 0; i < 3; ++i) {
      closers.emplace_back([&] {
        ++at_it;
        device->close();
        EXPECT_EQ(recorder.ended(), accepted) << "a block has not ended";
        EXPECT_TRUE(device->failure());
        ++returned;
      });
    }
    while (at_it != 3) std::this_thread::yield();  // bounded: the threads start
    for (int i = 0; i < 1000 && returned == 0; ++i) std::this_thread::yield();
    gate.open();
    for (auto& closer : closers) closer.join();  // bounded: close() is, by Timeouts::detach
    const auto next = card.attach();
    expect_works(*next, 0);
  }
}

}  // namespace
}  // namespace svp
