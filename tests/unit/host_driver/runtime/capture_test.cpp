// SPDX-License-Identifier: Apache-2.0
// Events and functions of the host between prepared launches, against the real firmware core on a thread.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/device/device_source.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/prepared_launches.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/support/gate.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

using test::Gate;
using Clock = FlexStream::Clock;
using wire::Outcome;
using wire::Status;

Clock::time_point soon() { return Clock::now() + test_bounds::kWork; }

class Captures : public testing::Test {
 protected:
  explicit Captures(RecoveryPolicy recovery = RecoveryPolicy::Manual)
      : runtime_(std::make_unique<Runtime>(card_.attach(), options(recovery))) {}

  static RuntimeOptions options(RecoveryPolicy recovery) {
    RuntimeOptions options;
    options.recovery.policy = recovery;
    options.allocator.region_bytes = {64 * wire::kMiB, 16 * wire::kMiB};
    return options;
  }
  AllocationIndex allocate() { return runtime_->allocator().allocate(wire::kMiB); }

  // The steps of a capture. Its jobs stay where they are.
  class Steps {
   public:
    Steps& fill(AllocationIndex memory, std::uint64_t pattern, std::uint64_t offset = 0) {
      jobs_.push_back(std::make_unique<Job>(Job::fill(memory, 128, pattern, offset)));
      steps_.emplace_back(LaunchRequest{.job = jobs_.back().get()});
      return *this;
    }
    Steps& copy(void* to, AllocationIndex from) {
      jobs_.push_back(std::make_unique<Job>(Job::from_device(to, from, 128)));
      steps_.emplace_back(LaunchRequest{.job = jobs_.back().get()});
      return *this;
    }
    Steps& record(std::shared_ptr<CapturedEvent> event = std::make_shared<CapturedEvent>()) {
      steps_.emplace_back(RecordStep{std::move(event)});
      return *this;
    }
    template <typename Awaited>
    Steps& awaiting(Awaited awaited) {
      steps_.emplace_back(WaitStep{std::move(awaited)});
      return *this;
    }
    Steps& host(std::function<void()> function) {
      steps_.emplace_back(HostStep{std::make_shared<const std::function<void()>>(std::move(function))});
      return *this;
    }
    std::shared_ptr<PreparedLaunches> on(FlexStream& stream) const { return stream.Prepare(steps_); }

   private:
    std::vector<std::unique_ptr<Job>> jobs_;
    std::vector<CapturedStep> steps_;
  };

  static std::uint64_t value(FlexStream& stream, AllocationIndex memory, std::uint64_t offset = 0) {
    std::uint64_t word = 0;
    stream.Launch(Job::from_device(&word, memory, sizeof word, offset), {});
    stream.Synchronize(soon());
    return word;
  }
  static StreamFailure failure_of(FlexStream& stream) {
    try {
      stream.Synchronize(soon());
    } catch (const StreamError& error) {
      return error.failure();
    }
    ADD_FAILURE() << "the stream did not fail";
    return {};
  }
  using Events = std::vector<std::shared_ptr<Event>>;

  test::NativeCard card_{{.window_bytes = 32 * wire::kMiB}};
  std::unique_ptr<Runtime> runtime_;
  FlexStream& a_ = runtime_->next_stream(StreamPriority::Low);
  FlexStream& b_ = runtime_->next_stream(StreamPriority::Low);
};

TEST_F(Captures, EachReplayRecordsEventsOfItsOwn) {
  const auto memory = allocate();
  const auto graph = Steps().fill(memory, 1).record().fill(memory, 2).record().on(a_);
  EXPECT_EQ(graph->size(), 2u);
  EXPECT_EQ(graph->events(), 2u);
  Events first, second;
  EXPECT_EQ(a_.Launch(*graph, {}, &first), 4u) << "two calls and two signals";
  EXPECT_EQ(a_.Launch(*graph, {}, &second), 8u);
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 2u);
  for (const auto& event : {first[0], first[1], second[0], second[1]}) event->Synchronize(soon());
  EXPECT_GE(first[1]->since(*first[0]).count(), 0);
  EXPECT_GE(second[0]->since(*first[1]).count(), 0);
  EXPECT_NE(first[0], second[0]);
}

TEST_F(Captures, AReplayIsOneSubmission) {
  const auto memory = allocate();
  const auto graph = Steps().fill(memory, 1).record().fill(memory, 2).record().fill(memory, 3).on(a_);
  const auto before = runtime_->device().statistics();
  a_.Launch(*graph);
  a_.Synchronize(soon());
  const auto after = runtime_->device().statistics();
  EXPECT_EQ(after.submitted, before.submitted + 5);
  EXPECT_LE(after.doorbells_signalled, before.doorbells_signalled + 1);
  EXPECT_EQ(value(a_, memory), 3u);
}

TEST_F(Captures, AnEventInTheMiddleEndsBeforeWhatStandsBehindIt) {
  const auto memory = allocate();
  Gate gate;
  const auto graph = Steps().fill(memory, 1).record().host(gate.passing()).fill(memory, 2).on(a_);
  Events events;
  a_.Launch(*graph, {}, &events);
  events[0]->Synchronize(soon());
  EXPECT_EQ(value(b_, memory), 1u);
  gate.open();
  a_.Synchronize(soon());
  EXPECT_EQ(value(b_, memory), 2u);
}

TEST_F(Captures, AFixedEventIsWaitedForByEachReplay) {
  const auto memory = allocate();
  Gate gate;
  b_.LaunchHost(gate.passing());
  b_.Launch(Job::fill(memory, 128, 7), {});
  const auto graph = Steps().awaiting(b_.Record()).fill(memory, 8).on(a_);
  a_.Launch(*graph);
  EXPECT_FALSE(a_.Query());
  gate.open();
  EXPECT_EQ(value(a_, memory), 8u);
  a_.Launch(*graph);  // it has been signalled
  EXPECT_EQ(value(a_, memory), 8u);
}

TEST_F(Captures, ASlotIsFilledAtEachReplay) {
  const auto memory = allocate();
  const auto produce = Steps().fill(memory, 1).record().on(a_);
  const auto consume = Steps().awaiting(WaitSlot{}).fill(memory, 2).record().on(b_);
  EXPECT_EQ(consume->slots(), 1u);
  std::shared_ptr<Event> consumed;
  for (int i = 0; i < 50; ++i) {
    Events produced, ended;
    a_.Wait(consumed);
    a_.Launch(*produce, {}, &produced);
    b_.Launch(*consume, produced, &ended);
    consumed = ended[0];
    if (i % 10 == 0) EXPECT_EQ(value(b_, memory), 2u);
  }
  const std::array<std::shared_ptr<Event>, 1> nothing{};
  b_.Launch(*consume, nothing, nullptr);
  EXPECT_EQ(value(b_, memory), 2u);
  EXPECT_THROW(b_.Launch(*consume), InvalidArgument);
  EXPECT_THROW(b_.Launch(*produce, nothing, nullptr), InvalidArgument);
}

TEST_F(Captures, AnEventOfACaptureStandsForTheLatestReplay) {
  const auto memory = allocate();
  const auto ready = std::make_shared<CapturedEvent>(), done = std::make_shared<CapturedEvent>();
  const PinnedBuffer seen = runtime_->host_memory().allocate(128);
  std::vector<std::uint64_t> values;
  // Each round writes, and the other stream reads what was written before the next round writes again.
  std::atomic<std::uint64_t> round{0};
  const PinnedBuffer source = runtime_->host_memory().allocate(128);
  const auto to_card = Job::to_device(source.data(), memory, 128);
  const std::vector<CapturedStep> writing{WaitStep{done}, HostStep{std::make_shared<const std::function<void()>>([&] {
                                            const std::uint64_t number = ++round;
                                            std::memcpy(source.data(), &number, sizeof number);
                                          })},
                                          LaunchRequest{.job = &to_card}, RecordStep{ready}};
  const auto produce = a_.Prepare(writing);
  const auto consume = Steps()
                           .awaiting(ready)
                           .copy(seen.data(), memory)
                           .host([&] {
                             std::uint64_t word = 0;
                             std::memcpy(&word, seen.data(), sizeof word);
                             values.push_back(word);
                           })
                           .record(done)
                           .on(b_);
  for (int i = 0; i < 100; ++i) {
    a_.Launch(*produce);
    b_.Launch(*consume);
  }
  b_.Synchronize(soon());
  ASSERT_EQ(values.size(), 100u);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(values[i], i + 1);
}

TEST_F(Captures, AWaitBehindItsOwnRecordDoesNothing) {
  const auto memory = allocate();
  const auto own = std::make_shared<CapturedEvent>();
  const auto graph = Steps().record(own).awaiting(own).fill(memory, 1).on(a_);
  Gate gate;
  a_.LaunchHost(gate.passing());
  a_.Launch(*graph);
  b_.Launch(*graph);  // not behind the replay on the other stream
  EXPECT_EQ(value(b_, memory), 1u);
  gate.open();
  a_.Synchronize(soon());
}

TEST_F(Captures, AWaitBeforeItsOwnRecordOrdersReplaysOfSeveralStreams) {
  const auto memory = allocate();
  const auto own = std::make_shared<CapturedEvent>();
  const auto graph = Steps().awaiting(own).fill(memory, 1).record(own).on(a_);
  Gate gate;
  a_.LaunchHost(gate.passing());
  a_.Launch(*graph);
  b_.Launch(*graph);
  EXPECT_FALSE(b_.Query());
  gate.open();
  b_.Synchronize(soon());
  a_.Synchronize(soon());
}

TEST_F(Captures, FunctionsOfTheHostRunOncePerReplayInOrder) {
  const auto memory = allocate();
  const PinnedBuffer out = runtime_->host_memory().allocate(128);
  std::vector<std::uint64_t> seen;
  const auto look = [&] {
    std::uint64_t word = 0;
    std::memcpy(&word, out.data(), sizeof word);
    seen.push_back(word);
  };
  const auto graph = Steps()
                         .fill(memory, 5)
                         .copy(out.data(), memory)
                         .host(look)
                         .fill(memory, 6)
                         .copy(out.data(), memory)
                         .host(look)
                         .on(a_);
  for (int i = 0; i < 20; ++i) a_.Launch(*graph);
  a_.Synchronize(soon());
  ASSERT_EQ(seen.size(), 40u);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i % 2 == 0 ? 5u : 6u);
}

TEST_F(Captures, WhatAFunctionThrowsIsTheStreamsErrorAndNothingBehindItRuns) {
  const auto memory = allocate();
  const auto graph = Steps()
                         .fill(memory, 1)
                         .host([] { throw std::runtime_error("the fan stands still"); })
                         .fill(memory, 2)
                         .record()
                         .on(a_);
  Events events;
  const std::uint64_t number = a_.Launch(*graph, {}, &events);
  b_.Wait(events[0]);
  try {
    a_.Synchronize(soon());
    ADD_FAILURE() << "no error";
  } catch (const StreamError& error) {
    EXPECT_EQ(error.failure().outcome, Outcome::Fault);
    EXPECT_EQ(error.failure().launch, number - 2);
    EXPECT_NE(std::string(error.what()).find("the fan stands still"), std::string::npos) << error.what();
  }
  EXPECT_THROW(events[0]->Synchronize(soon()), Error);
  EXPECT_EQ(failure_of(b_).status, Status::EventFailed);
  EXPECT_THROW(a_.Launch(*graph), StreamError);
  a_.Reset();
  b_.Reset();
  EXPECT_EQ(value(a_, memory), 1u);
}

TEST_F(Captures, AFailedEventFailsTheReplayThatWaitsForIt) {
  const auto memory = allocate();
  Gate gate;
  b_.LaunchHost(gate.passing());  // else it may fail before there is an event
  b_.LaunchHost([] { throw std::runtime_error("no"); });
  const auto failed = b_.Record();
  gate.open();
  EXPECT_EQ(failure_of(b_).outcome, Outcome::Fault);
  const auto graph = Steps().awaiting(failed).fill(memory, 4).record().on(a_);
  for (int i = 0; i < 2; ++i) {
    Events events;
    a_.Launch(*graph, {}, &events);
    EXPECT_EQ(failure_of(a_).status, Status::EventFailed);
    EXPECT_THROW(events[0]->Synchronize(soon()), Error);
    a_.Reset();
  }
  EXPECT_NE(value(a_, memory), 4u);
}

TEST_F(Captures, AResetOfTheStreamFailsTheEventsOfItsReplays) {
  const auto memory = allocate();
  Gate gate;
  const auto graph = Steps().host(gate.passing()).fill(memory, 1).record().on(a_);
  Events events;
  a_.Launch(*graph, {}, &events);
  b_.Wait(events[0]);
  a_.Reset();
  gate.open();
  EXPECT_THROW(events[0]->Synchronize(soon()), Error);
  EXPECT_EQ(failure_of(b_).status, Status::EventFailed);
  b_.Reset();
  events.clear();
  a_.Launch(*graph, {}, &events);
  events[0]->Synchronize(soon());
}

TEST_F(Captures, WhatIsHeldIsLetGoOfWithTheLastReplay) {
  const auto memory = allocate();
  auto token = std::make_shared<int>(1);
  const std::weak_ptr<int> held = token;
  auto graph = Steps().fill(memory, 1).host([token] {}).record().on(a_);
  token.reset();
  a_.Launch(*graph);
  graph.reset();
  a_.Synchronize(soon());
  EXPECT_TRUE(held.expired());
}

TEST_F(Captures, AThousandReplaysLeaveNothingBehind) {
  const auto memory = allocate();
  const auto own = std::make_shared<CapturedEvent>();
  std::atomic<int> runs{0};
  {
    const auto graph = Steps().awaiting(own).fill(memory, 1).host([&] { ++runs; }).fill(memory, 2).record(own).on(a_);
    std::vector<std::thread> threads;
    for (FlexStream* stream : {&a_, &b_}) {
      threads.emplace_back([&, stream] {
        for (int i = 0; i < 500; ++i) stream->Launch(*graph);
      });
    }
    for (auto& thread : threads) thread.join();  // bounded: launches do not block
    a_.Synchronize(soon());
    b_.Synchronize(soon());
  }
  EXPECT_EQ(runs, 1000);
  // All buffers of the card can be had.
  std::vector<std::shared_ptr<PreparedLaunches>> all;
  all.reserve(wire::kCommandBuffers);
  for (std::uint32_t i = 0; i < wire::kCommandBuffers; ++i) all.push_back(Steps().fill(memory, i).on(a_));
  EXPECT_EQ(value(a_, memory), 2u);
}

TEST_F(Captures, WithoutLaunchesTheyAreReplayedAsWell) {
  int runs = 0;
  const auto graph = Steps().host([&] { ++runs; }).record().on(a_);
  EXPECT_EQ(graph->size(), 0u);
  Events events;
  a_.Launch(*graph, {}, &events);
  events[0]->Synchronize(soon());
  EXPECT_EQ(runs, 1);
  const auto nothing = Steps().awaiting(std::shared_ptr<Event>{}).on(a_);
  EXPECT_EQ(a_.Launch(*nothing), 2u) << "nothing was launched: the number of the last launch";
}

TEST_F(Captures, EmptyFunctionsForeignBytesAndEventsOfTheDeadAreRefused) {
  EXPECT_THROW(Steps().host({}).on(a_), InvalidArgument);
  EXPECT_THROW(Steps().awaiting(spyre::SharedEvent{}).on(a_), InvalidArgument);
  std::shared_ptr<Event> dead;
  {
    Runtime other(card_.attach(2), options(RecoveryPolicy::Manual));
    dead = other.default_stream().Record();
  }
  EXPECT_THROW(Steps().awaiting(dead).on(a_), InvalidArgument);
  EXPECT_EQ(value(a_, allocate(), 0), 0u) << "the stream works";
}

TEST_F(Captures, APatchKeepsEventsAndFunctions) {
  const auto memory = allocate();
  int runs = 0;
  const auto graph = Steps().fill(memory, 1).host([&] { ++runs; }).record().on(a_);
  a_.Patch(*graph, 0, {});
  Events events;
  a_.Launch(*graph, {}, &events);
  events[0]->Synchronize(soon());
  EXPECT_EQ(runs, 1);
}

class RecoveredCaptures : public Captures {
 protected:
  RecoveredCaptures() : Captures(RecoveryPolicy::Recover) {}
};

TEST_F(RecoveredCaptures, WhatStandsBehindAFailedWaitIsNotSentAgain) {
  const auto memory = allocate();
  a_.Launch(Job::fill(memory, 128, 9), {});
  a_.Synchronize(soon());
  Gate gate;
  b_.LaunchHost([&] {
    gate.pass();
    throw std::runtime_error("no");
  });
  const auto failing = b_.Record();
  const auto graph = Steps().awaiting(failing).fill(memory, 1).record().fill(memory, 2).on(a_);
  Events events;
  a_.Launch(*graph, {}, &events);
  gate.open();
  EXPECT_EQ(failure_of(a_).status, Status::EventFailed);
  EXPECT_THROW(events[0]->Synchronize(soon()), Error);
  EXPECT_THROW(b_.Synchronize(soon()), StreamError);
  EXPECT_EQ(value(a_, memory), 9u);
  events.clear();
  const auto later = Steps().fill(memory, 3).record().on(a_);
  a_.Launch(*later, {}, &events);
  events[0]->Synchronize(soon());
  EXPECT_EQ(value(a_, memory), 3u);
}

TEST_F(RecoveredCaptures, WhatHadNotStartedIsSentAgainAndItsEventsHaveFailed) {
  const auto memory = allocate(), other = allocate();
  Gate gate;
  a_.LaunchHost([&] {
    gate.pass();
    throw std::runtime_error("no");
  });
  int runs = 0;
  const auto graph = Steps().fill(memory, 1).record().host([&] { ++runs; }).fill(other, 2).on(b_);
  Events events;
  a_.Launch(*graph, {}, &events);
  gate.open();
  EXPECT_THROW(a_.Synchronize(soon()), StreamError);
  EXPECT_EQ(events[0]->stage(), EventStage::Failed);
  EXPECT_EQ(value(a_, memory), 1u);
  EXPECT_EQ(value(a_, other), 2u);
  EXPECT_EQ(runs, 0) << "it may read what the function that threw would have written: docs/recovery.md";
}

}  // namespace
}  // namespace svp
