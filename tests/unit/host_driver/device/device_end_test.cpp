// SPDX-License-Identifier: Apache-2.0
// How a device ends: deaths at every point, restarts, broken protocol, detach. The property of all of them: every
// accepted block ends exactly once, every waiter returns, later calls fail at once with the reason.
#include <gtest/gtest.h>

#include <thread>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/device/device.hpp"
#include "shared/memory_order.hpp"
#include "shared/virtio.hpp"
#include "tests/bounds.hpp"
#include "tests/support/block_stream.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

using test::Blocks;
using test::CompletionRecorder;
using test::NativeCard;
using test::submit_nops;
using test::work_limit;

wire::WindowHeader& header_of(NativeCard& card, unsigned slot = 1) {
  return *reinterpret_cast<wire::WindowHeader*>(card.window(slot));
}

void expect_refuses_everything(Device& device, std::string_view reason) {
  CompletionRecorder recorder;
  const auto block = Blocks::nop();
  const ControlBlockRequest request{&block, &recorder};
  const auto submitted = device.submit(0, {&request, 1});
  ASSERT_FALSE(submitted);
  EXPECT_NE(submitted.error().message.find(reason), std::string::npos) << describe(submitted.error());
  EXPECT_FALSE(submitted.error().next_step.empty());
  EXPECT_FALSE(device.open_stream(StreamPriority::Low));
  EXPECT_FALSE(device.reset_stream(0));
  EXPECT_FALSE(device.acquire_region(RegionType::Tensor, 2 << 20));
  EXPECT_EQ(device.wait_until([] { return false; }, work_limit()), WaitStatus::Failed);
  EXPECT_EQ(device.wait_until([] { return true; }, work_limit()), WaitStatus::Done);
  ASSERT_TRUE(device.failure());
  EXPECT_EQ(device.failure()->message, submitted.error().message) << "the first reason stays";
}

// By the card's own account: what it had fetched when it died.
TEST(DeviceEnd, ADeathInAnyIterationOfTheCardEndsEveryBlockOnce) {
  for (int victim_iteration = 0; victim_iteration < 60; ++victim_iteration) {
    std::atomic<int> iterations_left{1 << 30};
    NativeCard card({.before_iteration = [&](fw::Card&) {
      // It is -1 then: the hart does nothing more; the exit is announced by the test's own thread.
      if (iterations_left.load() < 1 << 29) iterations_left.fetch_sub(1);
      // bounded: the test sets it when its killer is ready, within 10 s
      while (iterations_left.load() == -1) iterations_left.wait(-1);
    }});
    const auto device = card.attach();
    ASSERT_TRUE(device);
    CompletionRecorder recorder;
    iterations_left.store(victim_iteration);
    std::size_t accepted = 0;
    std::thread submitter([&] {
      for (int i = 0; i < 20; ++i) accepted += submit_nops(*device, 0, recorder, 10, accepted).value_or(0);
    });
    std::thread waiter([&] { EXPECT_EQ(device->wait_until([] { return false; }, work_limit()), WaitStatus::Failed); });
    submitter.join();  // bounded: it submits and does not wait
    for (const auto end = work_limit(); iterations_left.load() != -1 && Device::Clock::now() < end;) {
      std::this_thread::yield();
    }
    std::thread killer([&] { card.die(); });
    iterations_left.store(1 << 30);
    iterations_left.notify_all();
    killer.join();  // bounded: die() closes descriptors
    waiter.join();  // bounded: it waits for 60 s at most
    const auto all = recorder.all();
    ASSERT_EQ(all.size(), accepted) << "iteration " << victim_iteration;
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i].sequence, i + 1);
      ASSERT_EQ(all[i].cookie, i);
      ASSERT_TRUE(all[i].outcome == wire::Outcome::Ok || all[i].outcome == wire::Outcome::Lost ||
                  all[i].outcome == wire::Outcome::Indeterminate);
    }
    expect_refuses_everything(*device, "the test ended it");
    EXPECT_EQ(device->health(), Health::Dead);
  }
}

TEST(DeviceEnd, WhatNeverStartedIsLost) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  CompletionRecorder recorder;
  card.pause();
  ASSERT_EQ(submit_nops(*device, 0, recorder, 20).value_or(0), 20u);
  // As if the card had begun the first five and published none.
  wire::store_release(*reinterpret_cast<std::uint64_t*>(card.window(1) + wire::kStartedSequences.offset),
                      std::uint64_t{5});
  std::atomic<int> returned{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      EXPECT_EQ(device->wait_until([] { return false; }, work_limit()), WaitStatus::Failed);
      ++returned;
    });
  }
  card.die();
  for (auto& waiter : waiters) waiter.join();  // bounded: each has a deadline of its own
  const auto all = recorder.all();
  ASSERT_EQ(all.size(), 20u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].outcome, i < 5 ? wire::Outcome::Indeterminate : wire::Outcome::Lost) << i;
  }
}

TEST(DeviceEnd, WhatWasPublishedBeforeTheDeathCounts) {
  NativeCard card;
  DeviceOptions options;
  options.faults.drop_doorbells_from_card = 1;
  options.timeouts.tick = std::chrono::seconds(100);
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  CompletionRecorder recorder;
  ASSERT_EQ(submit_nops(*device, 0, recorder, 20).value_or(0), 20u);
  auto& started = *reinterpret_cast<std::uint64_t*>(card.window(1) + wire::kStartedSequences.offset);
  for (const auto end = work_limit(); wire::load_acquire(started) != 20 && Device::Clock::now() < end;) {
    std::this_thread::yield();
  }
  ASSERT_EQ(wire::load_acquire(started), 20u);
  card.pause();
  card.die();
  for (const auto end = work_limit(); recorder.ended() != 20 && Device::Clock::now() < end;) std::this_thread::yield();
  const auto all = recorder.all();
  ASSERT_EQ(all.size(), 20u);
  for (const auto& completion : all) EXPECT_EQ(completion.outcome, wire::Outcome::Ok);
}

TEST(DeviceEnd, ADeathWithNothingOutstandingIsNoticedToo) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  card.die();
  EXPECT_EQ(device->wait_until([&] { return device->health() == Health::Dead; }, work_limit()), WaitStatus::Done);
  expect_refuses_everything(*device, "the test ended it");
}

TEST(DeviceEnd, AnAdminCommandInFlightEndsWithTheCard) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  card.pause();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { EXPECT_FALSE(device->card_statistics()); });
  card.die();
  for (auto& thread : threads) thread.join();  // bounded: admin calls are bounded by Timeouts::admin
}

// The next boot skips what lies in the FIFO. It goes on, and the answer never comes.
TEST(DeviceEnd, ARestartEndsAnAttachThatWaitsForItsAnswer) {
  NativeCard card;
  card.pause();
  DeviceOptions options;
  options.timeouts.post_progress = options.timeouts.function_reset = test_bounds::kWork;
  const auto& asked = reinterpret_cast<wire::Fifo*>(card.window(1) + wire::kFifoToCard.offset)->written;
  const auto before = wire::load_acquire(asked);
  std::thread restart([&] {
    for (const auto end = work_limit(); wire::load_acquire(asked) == before && Device::Clock::now() < end;) {
      std::this_thread::yield();
    }
    wire::store_release(header_of(card).boot_epoch, std::uint64_t{99});
  });
  const auto device = Device::attach(card.slot(1), card.device_options(std::move(options)));
  restart.join();  // bounded: its loop is
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().outcome, wire::Outcome::Indeterminate);
  EXPECT_NE(device.error().message.find("was restarted while"), std::string::npos) << describe(device.error());
  card.resume();
}

TEST(DeviceEnd, AnEpochChangeMakesEverythingIndeterminate) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  CompletionRecorder recorder;
  card.pause();
  ASSERT_EQ(submit_nops(*device, 0, recorder, 7).value_or(0), 7u);
  wire::store_release(header_of(card).boot_epoch, std::uint64_t{99});
  ASSERT_EQ(device->wait_until([&] { return recorder.ended() == 7; }, work_limit()), WaitStatus::Done);
  for (const auto& completion : recorder.all()) EXPECT_EQ(completion.outcome, wire::Outcome::Indeterminate);
  EXPECT_EQ(device->health(), Health::NeedsReset);
  expect_refuses_everything(*device, "epoch");
  card.resume();
}

TEST(DeviceEnd, NeedsResetEndsTheDeviceAndANewAttachWorks) {
  NativeCard card;
  {
    const auto device = card.attach();
    ASSERT_TRUE(device);
    CompletionRecorder recorder;
    card.pause();
    ASSERT_EQ(submit_nops(*device, 0, recorder, 3).value_or(0), 3u);
    wire::store_release(header_of(card).device_status, header_of(card).device_status | wire::kStatusNeedsReset);
    ASSERT_EQ(device->wait_until([&] { return recorder.ended() == 3; }, work_limit()), WaitStatus::Done);
    expect_refuses_everything(*device, "NEEDS_RESET");
    card.resume();
  }
  const auto again = card.attach();
  ASSERT_TRUE(again);
  CompletionRecorder recorder;
  submit_nops(*again, 0, recorder, 1).value_or(0);
  EXPECT_EQ(again->wait_until([&] { return recorder.ended() == 1; }, work_limit()), WaitStatus::Done);
}

TEST(DeviceEnd, ASilentHeartbeatIsReportedAndTakenBack) {
  NativeCard card;
  DeviceOptions options;
  options.timeouts.silent = std::chrono::milliseconds(100);  // reached: the card is paused
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  CompletionRecorder recorder;
  card.pause();
  ASSERT_EQ(submit_nops(*device, 0, recorder, 1).value_or(0), 1u);
  EXPECT_EQ(device->wait_until([&] { return device->health() == Health::Silent; }, work_limit()), WaitStatus::Done);
  card.resume();
  EXPECT_EQ(device->wait_until([&] { return recorder.ended() == 1; }, work_limit()), WaitStatus::Done);
  EXPECT_EQ(recorder.all()[0].outcome, wire::Outcome::Ok) << "nothing was given up";
  EXPECT_EQ(device->wait_until([&] { return device->health() == Health::Alive; }, work_limit()), WaitStatus::Done);
}

// ---- a card that lies -----------------------------------------------------------------------------------------------

struct Lie {
  const char* name;
  void (*tell)(wire::Completion&, std::uint16_t& id, std::uint32_t& length);
};
class Lies : public testing::TestWithParam<Lie> {};

TEST_P(Lies, EndTheDeviceWithATypedErrorAndEveryBlockOnce) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  CompletionRecorder recorder;
  card.pause();  // from here on this thread plays the card
  ASSERT_EQ(submit_nops(*device, 0, recorder, 4, 100).value_or(0), 4u);
  auto& queue = card.core().functions[fw::kPhysical].queues[wire::kControlBlockQueue];
  fw::Chain first, second;
  ASSERT_TRUE(queue.pop(first) && queue.pop(second));
  const auto complete = [&](const fw::Chain& chain, std::uint64_t sequence, const Lie* lie) {
    wire::Completion completion{};
    completion.incarnation = 1;
    completion.generation = device->config().generation;
    completion.sequence = sequence;
    completion.cookie = 99 + sequence;
    std::uint16_t id = chain.id;
    std::uint32_t length = wire::kStickBytes;
    if (lie != nullptr) lie->tell(completion, id, length);
    wire::store_shared_words(reinterpret_cast<std::uint64_t*>(card.window(1) + chain.writable.offset),
                             reinterpret_cast<const std::uint64_t*>(&completion), sizeof completion / 8);
    queue.push_used(id, chain.slots, length);
  };
  complete(first, 1, nullptr);
  complete(second, 2, &GetParam());
  ASSERT_EQ(device->wait_until([&] { return recorder.ended() == 4; }, work_limit()), WaitStatus::Done);
  const auto all = recorder.all();
  EXPECT_EQ(all[0].outcome, wire::Outcome::Ok) << "what was right before the lie counts";
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(all[i].outcome, wire::Outcome::Indeterminate);
    EXPECT_EQ(all[i].cookie, 100 + i) << "the driver's own table";
  }
  ASSERT_TRUE(device->failure());
  EXPECT_EQ(device->failure()->layer, Layer::Transport);
  expect_refuses_everything(*device, "");
  card.resume();
}
INSTANTIATE_TEST_SUITE_P(
    OfEveryKind, Lies,
    testing::Values(Lie{"Stream", [](auto& c, auto&, auto&) { c.stream = 1; }},
                    Lie{"Incarnation", [](auto& c, auto&, auto&) { c.incarnation = 7; }},
                    Lie{"Generation", [](auto& c, auto&, auto&) { ++c.generation; }},
                    Lie{"Sequence", [](auto& c, auto&, auto&) { c.sequence = 3; }},
                    Lie{"Cookie", [](auto& c, auto&, auto&) { c.cookie = 0; }},
                    Lie{"OutcomeOutOfRange",
                        [](auto& c, auto&, auto&) { c.outcome = static_cast<wire::Outcome>(200); }},
                    Lie{"OutcomeOfTheDriver", [](auto& c, auto&, auto&) { c.outcome = wire::Outcome::Lost; }},
                    Lie{"NothingWritten", [](auto&, auto&, auto& length) { length = 0; }},
                    Lie{"IdOutOfRange", [](auto&, auto& id, auto&) { id = 4000; }},
                    Lie{"IdNotInFlight", [](auto&, auto& id, auto&) { id = 300; }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(DeviceEnd, HostileIndicesOfTheControlFifoEndTheDevice) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  card.pause();
  auto& fifo = *reinterpret_cast<wire::Fifo*>(card.window(1) + wire::kFifoToHost.offset);
  const auto good = wire::load_acquire(fifo.written);
  wire::store_release(fifo.written, good + 5000);
  EXPECT_EQ(device->wait_until([] { return false; }, work_limit()), WaitStatus::Failed);
  expect_refuses_everything(*device, "FIFO");
  wire::store_release(fifo.written, good);
  card.resume();
}

// ---- detach ---------------------------------------------------------------------------------------------------------

TEST(DeviceEnd, ClosingADeviceEndsItsBlocksFirst) {
  for (int round = 0; round < 100; ++round) {
    NativeCard card;
    DeviceOptions options;  // the card's hart is a thread, which a busy machine may leave without a CPU
    options.timeouts.post_progress = options.timeouts.detach = test_bounds::kCompute;
    auto device = card.attach(1, std::move(options));
    ASSERT_TRUE(device);
    CompletionRecorder recorder;
    const auto accepted = submit_nops(*device, 0, recorder, 100).value_or(0);
    device.reset();
    const auto all = recorder.all();
    ASSERT_EQ(all.size(), accepted);
    for (const auto& completion : all) {
      ASSERT_TRUE(completion.outcome == wire::Outcome::Ok || completion.outcome == wire::Outcome::Aborted ||
                  completion.outcome == wire::Outcome::Rejected)
          << wire::name(completion.outcome);
    }
  }
}

TEST(DeviceEnd, ClosingADeviceWhoseCardDoesNotAnswerIsBounded) {
  NativeCard card;
  DeviceOptions options;
  options.timeouts.detach = std::chrono::milliseconds(100);  // reached: the card is paused
  auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  CompletionRecorder recorder;
  card.pause();
  const auto accepted = submit_nops(*device, 0, recorder, 10).value_or(0);
  device.reset();
  EXPECT_EQ(recorder.ended(), accepted);
  for (const auto& completion : recorder.all()) EXPECT_EQ(completion.outcome, wire::Outcome::Indeterminate);
  card.resume();
}

}  // namespace
}  // namespace svp
