// SPDX-License-Identifier: Apache-2.0
// Events against the real firmware core on a thread: order between streams, ends, errors, resets, recovery, time.
#include "host_driver/runtime/event.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/support/gate.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

using Clock = FlexStream::Clock;
using wire::Status;

Clock::time_point soon() { return Clock::now() + test_bounds::kWork; }

class Events : public testing::Test {
 protected:
  explicit Events(RecoveryPolicy policy = RecoveryPolicy::Manual) : runtime_(card_.attach(), options(policy)) {}

  static RuntimeOptions options(RecoveryPolicy policy) {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB, 16 * wire::kMiB};
    options.recovery.policy = policy;
    return options;
  }
  void fill(FlexStream& stream, std::uint64_t pattern) { stream.Launch(Job::fill(memory_, 8, pattern), {}); }
  // Poisons its stream: this card runs no kernels.
  void load_source(FlexStream& on) {
    plan_.load(runtime_, on);
    on.Synchronize(soon());
  }
  void launch_source(FlexStream& on) {
    if (!plan_.loaded()) plan_.load(runtime_, on);
    std::vector<Argument> arguments;
    arguments.reserve(3);
    for (int i = 0; i < 3; ++i) {
      arguments.push_back({.allocation = runtime_.allocator().allocate(64 * 64 * 2), .shape = {64, 64}});
    }
    on.Launch(plan_.jobs()[0], arguments);
  }
  std::uint64_t value(FlexStream& stream) { return value(stream, memory_); }
  std::uint64_t value(FlexStream& stream, AllocationIndex memory) {
    std::uint64_t word = 0;
    stream.Launch(Job::from_device(&word, memory, sizeof word), {});
    stream.Synchronize(soon());
    return word;
  }
  // Its text.
  std::string expect_error(FlexStream& stream, Status status) {
    try {
      stream.Synchronize(soon());
    } catch (const StreamError& error) {
      EXPECT_EQ(error.failure().status, status) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return {};
  }

  test::NativeCard card_{{.window_bytes = 32 * wire::kMiB}};
  Runtime runtime_;
  AllocationIndex memory_ = runtime_.allocator().allocate(1 * wire::kMiB);
  ExecutionPlan plan_{{Job(CompiledKernel(test::matmul_kernel(), {{"M", 64}, {"K", 64}, {"N", 64}}))}};
  FlexStream& a_ = runtime_.next_stream(StreamPriority::Low);
  FlexStream& b_ = runtime_.next_stream(StreamPriority::Low);
  FlexStream& c_ = runtime_.next_stream(StreamPriority::High);
};

TEST_F(Events, WhatIsLaunchedBehindAWaitBeginsAfterWhatStoodBeforeTheEvent) {
  // Long enough to be overtaken by everything that does not wait.
  const auto large = runtime_.allocator().allocate(8 * wire::kMiB);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    a_.Launch(Job::fill(large, 8 * wire::kMiB, round), {});
    const auto event = a_.Record();
    b_.Wait(event);
    std::uint64_t last = 0;
    b_.Launch(Job::from_device(&last, large, sizeof last, 8 * wire::kMiB - 128), {});
    b_.Synchronize(soon());
    EXPECT_EQ(last, round);
    EXPECT_EQ(event->stage(), EventStage::Signalled) << "the wait's end is behind the signal's";
    EXPECT_TRUE(event->Query());
  }
}

TEST_F(Events, AnEventEndsWithWhatStoodBeforeIt) {
  card_.pause();
  a_.Launch(Job::fill(memory_, 8, 1), {});
  const auto event = a_.Record();
  EXPECT_FALSE(event->Query());
  EXPECT_THROW(event->Synchronize(Clock::now()), TimeoutError);
  EXPECT_FALSE(event->Query()) << "a timeout leaves everything running";
  card_.resume();
  event->Synchronize(soon());
  EXPECT_TRUE(event->Query());
  EXPECT_TRUE(a_.Query());
}

TEST_F(Events, AWaitForWhatIsSignalledOrForItsOwnStreamSendsNothing) {
  const auto event = a_.Record();
  event->Synchronize(soon());
  const auto own = b_.Record();
  b_.Synchronize(soon());
  const std::uint64_t before = runtime_.device().statistics().submitted;
  b_.Wait(event);
  a_.Wait(event);
  b_.Wait(own);
  b_.Wait(nullptr);
  b_.Synchronize(soon());
  EXPECT_EQ(runtime_.device().statistics().submitted, before);
}

TEST_F(Events, AnyNumberOfStreamsWaitForOneAndOneForMany) {
  std::vector<FlexStream*> streams;
  for (unsigned id = 1; id <= 64; ++id) streams.push_back(&runtime_.stream(id));
  card_.pause();
  const auto first = runtime_.default_stream().Record();
  std::vector<std::shared_ptr<Event>> ends;
  for (FlexStream* stream : streams) {
    stream->Wait(first);
    ends.push_back(stream->Record());
  }
  FlexStream& last = runtime_.default_stream();
  for (const auto& end : ends) last.Wait(end);
  const auto end = last.Record();
  card_.resume();
  end->Synchronize(soon());
  for (const auto& other : ends) EXPECT_EQ(other->stage(), EventStage::Signalled);
}

// Both streams stage the program's memory in many chunks: it is read for b when a has written all of it.
TEST_F(Events, HostMemoryOfOneTransferIsReadByTheNextBehindAnEvent) {
  constexpr std::size_t kWords = 1 << 18;
  const auto source = runtime_.allocator().allocate(kWords * 8);
  const auto target = runtime_.allocator().allocate(kWords * 8);
  std::vector<std::uint64_t> host(kWords);
  for (std::uint64_t round = 1; round <= 10; ++round) {
    a_.Launch(Job::fill(source, kWords * 8, round), {});
    a_.Launch(Job::from_device(host.data(), source, kWords * 8), {});
    b_.Wait(a_.Record());
    b_.Launch(Job::to_device(host.data(), target, kWords * 8), {});
    std::uint64_t last = 0;
    b_.Launch(Job::from_device(&last, target, sizeof last, kWords * 8 - 128), {});
    b_.Synchronize(soon());
    EXPECT_EQ(last, round);
  }
}

TEST_F(Events, AnEventBehindATransferToTheHostEndsWithIt) {
  constexpr std::size_t kWords = 1 << 18;
  const auto source = runtime_.allocator().allocate(kWords * 8);
  std::vector<std::uint64_t> host(kWords);
  for (std::uint64_t round = 1; round <= 10; ++round) {
    a_.Launch(Job::fill(source, kWords * 8, round), {});
    a_.Launch(Job::from_device(host.data(), source, kWords * 8), {});
    const auto event = a_.Record();
    event->Synchronize(soon());
    EXPECT_TRUE(event->Query());
    EXPECT_EQ(host.back(), round);
  }
}

TEST_F(Events, TimeBetweenTwoEventsIsTheCards) {
  const auto start = a_.Record();
  const auto large = runtime_.allocator().allocate(8 * wire::kMiB);
  for (int i = 0; i < 8; ++i) a_.Launch(Job::fill(large, 8 * wire::kMiB, 7), {});
  const auto end = a_.Record();
  EXPECT_THROW((void)end->since(*start), InvalidArgument) << "not before both have ended";
  end->Synchronize(soon());
  EXPECT_GT(end->since(*start).count(), 0);
  EXPECT_EQ(start->since(*end), -end->since(*start));
  EXPECT_EQ(end->since(*end).count(), 0);
}

TEST_F(Events, AnEventOfAnotherContextIsRefusedWhenNobodyCanGrantIt) {
  Runtime other(card_.attach(2), options(RecoveryPolicy::Manual));
  card_.pause();
  const auto event = a_.Record();
  const std::uint64_t before = other.device().statistics().submitted;
  EXPECT_THROW(other.default_stream().Wait(event), Error);
  EXPECT_THROW((void)event->share(), Error);
  EXPECT_EQ(other.device().statistics().submitted, before);
  EXPECT_FALSE(other.default_stream().error().has_value());
  card_.resume();
  event->Synchronize(soon());
  other.default_stream().Wait(event);  // it has been signalled: nothing to wait for
  other.default_stream().Synchronize(soon());
}

TEST_F(Events, AnEventMayOutliveItsContext) {
  std::shared_ptr<Event> done, cut_off;
  {
    Runtime other(card_.attach(2), options(RecoveryPolicy::Manual));
    done = other.default_stream().Record();
    done->Synchronize(soon());
    // The context's end waits for the function, and sends nothing that stands behind it.
    test::Gate gate;
    other.default_stream().LaunchHost([pass = gate.passing()] {
      pass();
      throw std::runtime_error("no");
    });
    cut_off = other.default_stream().Record();
    gate.open();
  }
  EXPECT_TRUE(done->Query());
  done->Synchronize();
  a_.Wait(done);  // nothing to wait for
  EXPECT_TRUE(cut_off->Query()) << "the context's end ends it";
  EXPECT_THROW(cut_off->Synchronize(), Error);
  EXPECT_THROW(a_.Wait(cut_off), InvalidArgument);
}

// What waits fills the whole ring, and more: the signal that all of it waits for must find room.
TEST_F(Events, WaitsDoNotKeepTheirSignalFromTheCard) {
  std::vector<FlexStream*> streams;
  for (unsigned id = 4; id < 20; ++id) streams.push_back(&runtime_.stream(id));
  card_.pause();
  // More than the stream may have on the card stands before the event.
  for (int i = 0; i < 1000; ++i) fill(a_, 1);
  const auto event = a_.Record();
  for (FlexStream* stream : streams) {
    stream->Wait(event);
    for (int i = 0; i < 200; ++i) fill(*stream, 2);
  }
  card_.resume();
  for (FlexStream* stream : streams) EXPECT_NO_THROW(stream->Synchronize(soon()));
}

// ---- errors

TEST_F(Events, AnErrorBeforeTheEventIsAnErrorOfEveryStreamThatWaitsForIt) {
  load_source(a_);
  card_.pause();  // else the error may be there before the event
  launch_source(a_);
  const auto failed = a_.Record();
  b_.Wait(failed);
  fill(b_, 1);
  const auto behind = b_.Record();
  c_.Wait(behind);
  const auto last = c_.Record();
  card_.resume();
  expect_error(a_, Status::Unsupported);
  const std::string text_of_b = expect_error(b_, Status::EventFailed);
  EXPECT_NE(text_of_b.find("stream " + std::to_string(a_.stream_index())), std::string::npos) << text_of_b;
  expect_error(c_, Status::EventFailed);
  for (const auto& event : {failed, behind, last}) {
    EXPECT_TRUE(event->Query());
    EXPECT_THROW(event->Synchronize(soon()), StreamError);
    EXPECT_THROW((void)event->since(*event), InvalidArgument);
  }
  EXPECT_NE(value(runtime_.default_stream()), 1u) << "nothing behind the wait has run";
  for (FlexStream* stream : {&a_, &b_, &c_}) stream->Reset();
  // An event that failed stays so: who waits for it again fails again.
  b_.Wait(failed);
  expect_error(b_, Status::EventFailed);
  b_.Reset();
  b_.Wait(a_.Record());
  fill(b_, 2);
  EXPECT_EQ(value(b_), 2u);
}

TEST_F(Events, OnAStreamThatFailedNoEventIsRecorded) {
  launch_source(a_);
  expect_error(a_, Status::Unsupported);
  EXPECT_THROW((void)a_.Record(), StreamError);
  card_.pause();  // for an event that has been signalled nothing is launched
  EXPECT_THROW(a_.Wait(b_.Record()), StreamError);
  card_.resume();
}

// A function of the host keeps the signal from being sent; the reset takes it away.
TEST_F(Events, AResetOfTheAwaitedStreamEndsTheWait) {
  test::Gate gate;
  a_.LaunchHost(gate.passing());
  const auto event = a_.Record();
  b_.Wait(event);
  fill(b_, 1);
  EXPECT_FALSE(b_.Query());
  a_.Reset();
  expect_error(b_, Status::EventFailed);
  EXPECT_EQ(event->stage(), EventStage::Failed);
  gate.open();
  EXPECT_THROW(event->Synchronize(soon()), Error);
  b_.Reset();
  EXPECT_NE(value(b_), 1u) << "nothing behind the wait has run";
  b_.Wait(a_.Record());
  fill(b_, 2);
  EXPECT_EQ(value(b_), 2u);
}

TEST_F(Events, TheEndOfTheCardEndsEventsAndWaits) {
  card_.pause();
  const auto event = a_.Record();
  b_.Wait(event);
  card_.die();
  EXPECT_THROW(b_.Synchronize(soon()), StreamError);
  EXPECT_THROW(event->Synchronize(soon()), StreamError);
  EXPECT_TRUE(event->Query());
  EXPECT_EQ(event->stage(), EventStage::Failed);
}

TEST_F(Events, TwoStreamsWriteAlternately) {
  const auto word = runtime_.allocator().allocate(128);
  std::shared_ptr<Event> newest;
  for (std::uint64_t i = 1; i <= 200; ++i) {
    FlexStream& stream = i % 2 == 0 ? a_ : b_;
    stream.Wait(newest);
    stream.Launch(Job::fill(word, 8, i), {});
    newest = stream.Record();
  }
  newest->Synchronize(soon());
  EXPECT_EQ(value(c_, word), 200u);
}

TEST_F(Events, ManyThreadsRecordAndWait) {
  constexpr unsigned kThreads = 6;
  constexpr int kRounds = 200;
  std::array<std::shared_ptr<Event>, kThreads> newest;
  std::mutex mutex;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      FlexStream& stream = runtime_.stream(1 + t);
      for (int i = 0; i < kRounds; ++i) {
        const auto other = [&] {
          const std::lock_guard lock(mutex);
          return newest[static_cast<unsigned>(i) % kThreads];
        }();
        stream.Wait(other);
        fill(stream, t);
        auto event = stream.Record();
        const std::lock_guard lock(mutex);
        newest[t] = std::move(event);
      }
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: launching never waits for the card
  for (unsigned t = 0; t < kThreads; ++t) EXPECT_NO_THROW(runtime_.stream(1 + t).Synchronize(soon()));
  for (const auto& event : newest) EXPECT_EQ(event->stage(), EventStage::Signalled);
}

// ---- RecoveryPolicy::Recover

class RecoveredEvents : public Events {
 protected:
  RecoveredEvents() : Events(RecoveryPolicy::Recover) {}
};

TEST_F(RecoveredEvents, WhatDependsOnAFailedLaunchIsNotSentAgain) {
  card_.pause();
  launch_source(a_);
  const auto failed = a_.Record();
  fill(a_, 1);  // says by the policy that it needs nothing of the launch before it
  b_.Wait(failed);
  fill(b_, 2);  // says by the wait that it does
  card_.resume();
  EXPECT_THROW(a_.Synchronize(soon()), StreamError);
  EXPECT_THROW(b_.Synchronize(soon()), StreamError);
  EXPECT_EQ(failed->stage(), EventStage::Failed);
  EXPECT_EQ(value(c_), 1u) << "sent again on a, not on b";
  EXPECT_NO_THROW(a_.Synchronize(soon()));
  b_.Wait(a_.Record());
  fill(b_, 3);
  EXPECT_EQ(value(b_), 3u);
}

TEST_F(RecoveredEvents, AWaitBehindAFailedLaunchIsSentAgainBeforeWhatStandsBehindIt) {
  const auto large = runtime_.allocator().allocate(8 * wire::kMiB);
  card_.pause();
  launch_source(b_);
  a_.Launch(Job::fill(large, 8 * wire::kMiB, 5), {});
  b_.Wait(a_.Record());
  std::uint64_t last = 0;
  b_.Launch(Job::from_device(&last, large, sizeof last, 8 * wire::kMiB - 128), {});
  card_.resume();
  EXPECT_THROW(b_.Synchronize(soon()), StreamError);
  EXPECT_NO_THROW(b_.Synchronize(soon()));
  EXPECT_EQ(last, 5u);
}

// ---- events of other functions

// Whoever holds M: grants as a broker does, and counts what it is asked.
class Granter {
 public:
  explicit Granter(test::NativeCard& card) : management_(card.attach(0)) {}

  class Sharing final : public TimelineSharing {
   public:
    Sharing(Granter& granter, wire::Target function) : granter_(granter), function_(function) {}
    Expected<TimelineToken> offer(std::uint64_t generation, std::uint32_t stream, std::uint32_t incarnation) override {
      ++granter_.offered;
      return granter_.offers_.offer(
          {.function = function_, .generation = generation, .stream = stream, .incarnation = incarnation});
    }
    Expected<TimelineGrant> redeem(const TimelineToken& token, std::uint64_t generation) override {
      ++granter_.redeemed;
      const auto timeline = granter_.offers_.find(token);
      if (!timeline) return std::unexpected(unknown_timeline());
      return grant_timeline(*granter_.management_, *timeline, function_, generation);
    }

   private:
    Granter& granter_;
    const wire::Target function_;
  };

  unsigned offered = 0;
  unsigned redeemed = 0;

 private:
  std::unique_ptr<Device> management_;
  TimelineOffers offers_;
};

// A function of the card, opened again by each recovery.
class SharingSource final : public DeviceSource {
 public:
  SharingSource(test::NativeCard& card, Granter& granter, unsigned slot)
      : card_(card), granter_(granter), slot_(slot) {}
  Expected<std::unique_ptr<Device>> open() override {
    return Device::attach(card_.slot(slot_), card_.device_options());
  }
  Expected<void> raise(ResetLevel, bool) override { return {}; }
  ResetLevel highest() const override { return ResetLevel::Function; }
  std::shared_ptr<TimelineSharing> sharing() override { return std::make_shared<Granter::Sharing>(granter_, slot_); }

 private:
  test::NativeCard& card_;
  Granter& granter_;
  const unsigned slot_;
};

class SharedEvents : public testing::Test {
 protected:
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.allocator.region_bytes = {16 * wire::kMiB};
    return options;
  }
  std::unique_ptr<Runtime> open(unsigned slot) {
    return std::make_unique<Runtime>(card_.attach(slot), options(),
                                     std::make_unique<SharingSource>(card_, granter_, slot));
  }
  static wire::Status status_of(FlexStream& stream) {
    try {
      stream.Synchronize(soon());
    } catch (const StreamError& error) {
      EXPECT_FALSE(error.info().next_step.empty());
      return error.failure().status;
    }
    return wire::Status::None;
  }

  test::NativeCard card_;
  Granter granter_{card_};
  std::unique_ptr<Runtime> owner_ = open(1), other_ = open(2);
  FlexStream& a_ = owner_->next_stream(StreamPriority::Low);
  FlexStream& b_ = other_->next_stream(StreamPriority::Low);
};

TEST_F(SharedEvents, OrderStreamsOfTwoFunctions) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> before{false};
    bool seen = false;
    test::Gate gate;
    a_.LaunchHost([&] {
      gate.pass();
      before = true;
    });
    b_.Wait(a_.Record());
    b_.LaunchHost([&] { seen = before; });
    gate.open();
    b_.Synchronize(soon());
    EXPECT_TRUE(seen);
    a_.Synchronize(soon());
  }
  EXPECT_EQ(granter_.offered, 1u) << "once per stream";
  EXPECT_EQ(granter_.redeemed, 1u);
}

TEST_F(SharedEvents, MayBeSentAsBytes) {
  const spyre::SharedEvent event = a_.Record()->share();
  spyre::SharedEvent received;
  received.bytes = event.bytes;
  b_.Wait(received);
  EXPECT_EQ(status_of(b_), wire::Status::None);
  EXPECT_EQ(a_.Record()->share().bytes == event.bytes, false) << "another event";
}

TEST_F(SharedEvents, AnErrorOfTheOwnerFailsTheWaiterAndNamesNoStreamOfIt) {
  b_.Wait(a_.Record()->share());  // from now on nobody has to be asked
  b_.Synchronize(soon());
  card_.pause();
  test::Gate gate;
  a_.LaunchHost([&gate] {
    gate.pass();
    throw std::runtime_error("no");
  });
  b_.Wait(a_.Record()->share());
  gate.open();
  card_.resume();
  EXPECT_THROW(a_.Synchronize(soon()), StreamError);
  a_.Reset();  // the card has not seen the error of a function of the host
  EXPECT_EQ(status_of(b_), wire::Status::EventFailed);
  const std::string text = b_.error()->what();
  EXPECT_NE(text.find("of another function"), std::string::npos) << text;
  b_.Reset();
  b_.Wait(a_.Record()->share());
  EXPECT_EQ(status_of(b_), wire::Status::None);
}

TEST_F(SharedEvents, AResetOfTheOwnersFunctionRevokesWhatWasGranted) {
  b_.Wait(a_.Record()->share());
  EXPECT_EQ(status_of(b_), wire::Status::None);
  const spyre::SharedEvent before = a_.Record()->share();
  const auto old = a_.Record();
  old->Synchronize(soon());
  (void)owner_->recover(ResetLevel::Function);
  EXPECT_THROW((void)old->share(), Error) << "recorded before the recovery";
  b_.Wait(before);
  EXPECT_EQ(status_of(b_), wire::Status::GrantRevoked);
  b_.Reset();
  b_.Wait(a_.Record()->share());
  EXPECT_EQ(status_of(b_), wire::Status::None);
  EXPECT_EQ(granter_.redeemed, 2u);
  (void)other_->recover(ResetLevel::Function);
  b_.Wait(a_.Record()->share());
  EXPECT_EQ(status_of(b_), wire::Status::None);
  EXPECT_EQ(granter_.redeemed, 3u) << "the waiter's own reset takes its grants as well";
}

TEST_F(SharedEvents, WaitsOfManyStreamsEndInTypedErrorsBeyondWhatAFunctionHolds) {
  std::vector<spyre::SharedEvent> events;
  for (unsigned id = 0; id <= 64; ++id) events.push_back(owner_->stream(id).Record()->share());
  for (unsigned id = 0; id < 64; ++id) b_.Wait(events[id]);
  try {
    b_.Wait(events[64]);
    ADD_FAILURE() << "a 65th grant";
  } catch (const Error& error) {
    EXPECT_EQ(error.info().status, wire::Status::OutOfGrants) << error.what();
  }
  EXPECT_EQ(status_of(b_), wire::Status::None) << "what was refused has launched nothing";
}

TEST_F(SharedEvents, BytesThatWereNeverSharedAreRefused) {
  spyre::SharedEvent bad = a_.Record()->share();
  bad.bytes[8] ^= std::byte{1};  // the token
  const std::uint64_t before = other_->device().statistics().submitted;
  EXPECT_THROW(b_.Wait(bad), Error);
  EXPECT_THROW(b_.Wait(spyre::SharedEvent{}), InvalidArgument);
  EXPECT_EQ(other_->device().statistics().submitted, before);
  EXPECT_EQ(status_of(b_), wire::Status::None);
}

}  // namespace
}  // namespace svp
