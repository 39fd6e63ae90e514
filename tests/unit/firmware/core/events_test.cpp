// SPDX-License-Identifier: Apache-2.0
// EVENT_SIGNAL and EVENT_WAIT: order between the streams of a function, what ends a wait, timelines over resets, and
// cycles of waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "firmware/core/dispatcher.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::StreamHandle;
using wire::AdminCommand;
using wire::Completion;
using wire::Field;
using wire::Outcome;
using wire::Status;

class Events : public testing::Test {
 protected:
  explicit Events(const char* arguments = fwtest::kAllForTheFirst) : card_({.boot_arguments = arguments}) {
    EXPECT_TRUE(driver_.bring_up());
  }

  StreamHandle open() { return driver_.open_stream().value(); }
  std::vector<StreamHandle> open(unsigned count) {
    std::vector<StreamHandle> streams;
    streams.reserve(count);
    for (unsigned i = 0; i < count; ++i) streams.push_back(open());
    return streams;
  }
  // The cookie, by which ended() finds it.
  std::uint64_t submit(const wire::ControlBlock& block) {
    driver_.submit(block);
    return block.header.cookie;
  }
  // How a block ended, if it has.
  std::optional<Completion> ended(std::uint64_t cookie) {
    card_.run_until_idle();
    for (const auto& one : driver_.collect()) {
      EXPECT_TRUE(endings_.emplace(one.completion.cookie, one.completion).second) << "ended twice";
      order_.push_back(one.completion.cookie);
    }
    const auto found = endings_.find(cookie);
    return found == endings_.end() ? std::nullopt : std::optional(found->second);
  }
  bool waits(std::uint64_t cookie) { return !ended(cookie).has_value(); }
  void expect_end(std::uint64_t cookie, Outcome outcome, Status status = Status::None) {
    const auto end = ended(cookie);
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->outcome, outcome) << wire::name(end->status);
    EXPECT_EQ(end->status, status) << wire::name(end->status);
  }
  bool ended_before(std::uint64_t first, std::uint64_t second) const {
    return std::ranges::find(order_, first) < std::ranges::find(order_, second);
  }
  wire::AdminReply cancel(const StreamHandle& stream, std::uint64_t sequence) {
    auto request = driver_.admin_request(AdminCommand::Cancel);
    request.arguments.cancel = {stream.id, stream.incarnation, sequence};
    return driver_.admin(request);
  }
  // Streams that the completion tells as a cycle, at most as many as it has room for.
  static std::vector<unsigned> cycle_of(const Completion& end) {
    std::vector<unsigned> streams;
    for (unsigned i = 0; i < std::min<std::uint64_t>(end.fault.argument, wire::kCycleStreams); ++i) {
      streams.push_back((i < 8 ? end.fault.offset : end.fault.pc) >> i % 8 * 8 & 0xff);
    }
    return streams;
  }

  fwtest::TestCard card_;
  fwtest::RawDriver& driver_ = card_.driver(2);
  std::map<std::uint64_t, Completion> endings_;
  std::vector<std::uint64_t> order_;
};

TEST_F(Events, AWaitForWhatWasSignalledEndsAtOnce) {
  auto a = open(), b = open();
  ASSERT_EQ(driver_.run(driver_.event_signal(a, 7)).outcome, Outcome::Ok);
  for (const std::uint64_t value : {1, 6, 7})
    EXPECT_EQ(driver_.run(driver_.event_wait(b, a, value)).outcome, Outcome::Ok);
}

TEST_F(Events, AWaitHoldsItsOwnStreamBackAndNoOther) {
  auto a = open(), b = open(), c = open();
  const auto wait = submit(driver_.event_wait(b, a, 2));
  const auto behind = submit(driver_.nop(b));
  EXPECT_EQ(driver_.run(driver_.nop(c)).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.run(driver_.event_signal(a, 1)).outcome, Outcome::Ok);
  EXPECT_TRUE(waits(wait)) << "1 is less than 2";
  const auto signal = submit(driver_.event_signal(a, 3));
  expect_end(behind, Outcome::Ok);
  expect_end(wait, Outcome::Ok);
  EXPECT_TRUE(ended_before(signal, wait));
  EXPECT_TRUE(ended_before(wait, behind));
  EXPECT_LE(endings_[wait].start_time, endings_[signal].start_time) << "it began to wait before";
  EXPECT_GE(endings_[wait].end_time, endings_[signal].start_time);
}

TEST_F(Events, AWaitThatIsHeldHasNotStarted) {
  auto a = open(), b = open();
  submit(driver_.event_wait(b, a, 1));
  card_.run_until_idle();
  const auto* started = driver_.at<std::uint64_t>(wire::kStartedSequences.offset);
  EXPECT_EQ(started[b.id], 0u);
  submit(driver_.event_signal(a, 1));
  card_.run_until_idle();
  EXPECT_EQ(started[b.id], 1u);
}

TEST_F(Events, OneSignalReleasesAllThatItFulfilsAndNobodyElse) {
  auto streams = open(100);
  auto a = open();
  std::vector<std::uint64_t> waits_of;
  waits_of.reserve(streams.size());
  for (unsigned i = 0; i < streams.size(); ++i) waits_of.push_back(submit(driver_.event_wait(streams[i], a, 1 + i)));
  submit(driver_.event_signal(a, 60));
  for (unsigned i = 0; i < streams.size(); ++i) EXPECT_EQ(waits(waits_of[i]), i >= 60) << i;
  submit(driver_.event_signal(a, 100));
  for (const std::uint64_t wait : waits_of) expect_end(wait, Outcome::Ok);
}

TEST_F(Events, AValueThatDoesNotGrowIsRefusedAndPoisonsItsStream) {
  for (const std::uint64_t value : {9, 10}) {
    auto a = open();
    ASSERT_EQ(driver_.run(driver_.event_signal(a, 10)).outcome, Outcome::Ok);
    const auto end = driver_.run(driver_.event_signal(a, value));
    EXPECT_EQ(end.outcome, Outcome::Rejected);
    EXPECT_EQ(end.status, Status::EventRegressed);
    EXPECT_EQ(end.field, Field::EventValue);
    EXPECT_EQ(driver_.run(driver_.event_signal(a, 11)).outcome, Outcome::Aborted);
  }
}

// ---- the awaited stream fails, is reset, is closed

TEST_F(Events, AnErrorOfTheAwaitedStreamEndsTheWaitAndSaysWhose) {
  auto a = open(), b = open(), c = open();
  const auto wait = submit(driver_.event_wait(b, a, 2));
  const auto behind = submit(driver_.nop(b));
  const auto second = submit(driver_.event_wait(c, b, 1));
  driver_.run(driver_.event_signal(a, 1));
  submit(driver_.event_signal(a, 1));  // refused
  expect_end(wait, Outcome::Aborted, Status::EventFailed);
  EXPECT_EQ(endings_[wait].fault.argument, a.id);
  EXPECT_EQ(endings_[wait].field, Field::EventStream);
  expect_end(behind, Outcome::Aborted, Status::StreamPoisoned);
  expect_end(second, Outcome::Aborted, Status::EventFailed);
  EXPECT_EQ(endings_[second].fault.argument, b.id);
  // What was signalled before the error is there all the same.
  auto d = open();
  EXPECT_EQ(driver_.run(driver_.event_wait(d, a, 1)).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.run(driver_.event_wait(d, a, 2)).status, Status::EventFailed);
}

TEST_F(Events, AResetOfTheAwaitedStreamEndsTheWait) {
  for (const bool closes : {false, true}) {
    auto a = open(), b = open();
    const auto wait = submit(driver_.event_wait(b, a, 1));
    ASSERT_TRUE(waits(wait));
    const auto command = closes ? AdminCommand::StreamClose : AdminCommand::StreamReset;
    ASSERT_EQ(driver_.admin(driver_.stream_request(command, a)).outcome, Outcome::Ok);
    expect_end(wait, Outcome::Aborted, Status::EventFailed);
  }
}

TEST_F(Events, WhatTheLastIncarnationSignalledIsStillKnown) {
  auto a = open();
  const StreamHandle first = a;
  ASSERT_EQ(driver_.run(driver_.event_signal(a, 4)).outcome, Outcome::Ok);
  ASSERT_EQ(driver_.reset_stream(a).outcome, Outcome::Ok);
  auto b = open(), c = open(), d = open();
  EXPECT_EQ(driver_.run(driver_.event_wait(b, first, 4)).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.run(driver_.event_wait(b, first, 5)).status, Status::EventFailed) << "its signals ended with it";
  EXPECT_EQ(driver_.run(driver_.event_wait(c, a, 4)).outcome, Outcome::Ok) << "a timeline grows over resets";
  EXPECT_EQ(driver_.run(driver_.event_signal(a, 4)).status, Status::EventRegressed);
  ASSERT_EQ(driver_.reset_stream(a).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.run(driver_.event_wait(c, first, 4)).status, Status::EventFailed)
      << "of older ones nothing is known";
  ASSERT_EQ(driver_.admin(driver_.stream_request(AdminCommand::StreamClose, a)).outcome, Outcome::Ok);
  auto again = open();
  ASSERT_EQ(again.id, a.id);
  EXPECT_EQ(driver_.run(driver_.event_wait(d, a, 4)).status, Status::EventFailed);
  EXPECT_EQ(driver_.run(driver_.event_signal(again, 1)).outcome, Outcome::Ok) << "a stream that is opened begins at 0";
}

TEST_F(Events, AResetOfTheWaitingStreamEndsItsWaitOnly) {
  auto a = open();
  auto streams = open(3);
  std::vector<std::uint64_t> waits_of;
  waits_of.reserve(streams.size());
  for (auto& stream : streams) waits_of.push_back(submit(driver_.event_wait(stream, a, 1)));
  ASSERT_EQ(driver_.reset_stream(streams[1]).outcome, Outcome::Ok);
  expect_end(waits_of[1], Outcome::Aborted, Status::Stopped);
  EXPECT_TRUE(waits(waits_of[0]));
  EXPECT_TRUE(waits(waits_of[2]));
  EXPECT_EQ(driver_.run(driver_.nop(streams[1])).outcome, Outcome::Ok);
  submit(driver_.event_signal(a, 1));
  expect_end(waits_of[0], Outcome::Ok);
  expect_end(waits_of[2], Outcome::Ok);
}

TEST_F(Events, AQueueResetEndsEveryWait) {
  auto a = open(), b = open(), c = open();
  submit(driver_.event_wait(b, a, 1));
  submit(driver_.event_wait(c, b, 1));
  card_.run_until_idle();
  ASSERT_TRUE(driver_.reset_queue(wire::kControlBlockQueue));
  EXPECT_FALSE(card_.function(2).streams.any_runnable());
  for (const fw::Stream& stream : card_.function(2).streams) EXPECT_EQ(stream.phase, fw::Stream::Phase::Idle);
}

TEST_F(Events, AFunctionResetForgetsTimelines) {
  auto a = open(), b = open();
  driver_.run(driver_.event_signal(a, 3));
  submit(driver_.event_wait(b, a, 9));
  card_.run_until_idle();
  ASSERT_TRUE(driver_.bring_up());
  auto again = open(), other = open();
  EXPECT_EQ(driver_.run(driver_.event_signal(again, 1)).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.run(driver_.event_wait(other, again, 1)).outcome, Outcome::Ok);
}

// ---- cancel, budget

TEST_F(Events, ACancelledWaitEndsAndItsStreamGoesOn) {
  auto a = open(), b = open();
  const auto wait = submit(driver_.event_wait(b, a, 1));
  const auto behind = submit(driver_.nop(b));
  ASSERT_TRUE(waits(wait));
  EXPECT_EQ(cancel(b, 1).outcome, Outcome::Ok);
  expect_end(wait, Outcome::Aborted, Status::Stopped);
  expect_end(behind, Outcome::Ok);
  EXPECT_EQ(driver_.run(driver_.event_signal(a, 1)).outcome, Outcome::Ok) << "nobody waits for it any more";
}

TEST_F(Events, AWaitBeyondItsBudgetIsATimeoutOfTheWait) {
  auto a = open(), b = open();
  const auto end = driver_.run(driver_.event_wait(b, a, 1, 1));
  EXPECT_EQ(end.outcome, Outcome::Timeout);
  EXPECT_EQ(end.status, Status::BudgetExpired);
  EXPECT_EQ(end.field, Field::EventStream);
  EXPECT_NE(end.start_time, 0u);
  EXPECT_EQ(driver_.run(driver_.event_signal(a, 1)).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.run(driver_.nop(b)).outcome, Outcome::Aborted);
}

TEST_F(Events, ALargeBudgetIsNoTimeout) {
  auto a = open(), b = open();
  for (const std::uint64_t budget : {std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    static std::uint64_t value = 0;
    const auto wait = submit(driver_.event_wait(b, a, ++value, budget));
    EXPECT_TRUE(waits(wait));
    submit(driver_.event_signal(a, value));
    expect_end(wait, Outcome::Ok);
  }
}

class BannedEvents : public Events {
 protected:
  BannedEvents() : Events("sole=2 strikes=2") {}
};

TEST_F(BannedEvents, WaitsThatLastTooLongBanNobody) {
  auto a = open(), b = open();
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(driver_.run(driver_.event_wait(b, a, 1, 1)).outcome, Outcome::Timeout);
    ASSERT_EQ(driver_.reset_stream(b).outcome, Outcome::Ok);
  }
  EXPECT_EQ(driver_.run(driver_.nop(b)).outcome, Outcome::Ok);
}

// ---- cycles

TEST_F(Events, AWaitOfAStreamForItselfIsADeadlock) {
  auto a = open();
  const auto end = driver_.run(driver_.event_wait(a, a, 1));
  EXPECT_EQ(end.outcome, Outcome::Fault);
  EXPECT_EQ(end.status, Status::EventDeadlock);
  EXPECT_EQ(cycle_of(end), std::vector<unsigned>{a.id});
  EXPECT_EQ(end.fault.argument, 1u);
}

TEST_F(Events, ACycleIsFoundWhenASignalClosesIt) {
  auto streams = open(3);
  std::vector<std::uint64_t> waits_of;
  waits_of.reserve(streams.size());
  for (unsigned i = 0; i < 3; ++i) waits_of.push_back(submit(driver_.event_wait(streams[i], streams[(i + 1) % 3], 1)));
  for (const std::uint64_t wait : waits_of) EXPECT_TRUE(waits(wait)) << "another stream may signal as yet";
  for (unsigned i = 0; i < 2; ++i) submit(driver_.event_signal(streams[i], 1));
  EXPECT_TRUE(waits(waits_of[2]));
  submit(driver_.event_signal(streams[2], 1));
  expect_end(waits_of[2], Outcome::Fault, Status::EventDeadlock);
  EXPECT_EQ(cycle_of(endings_[waits_of[2]]), (std::vector<unsigned>{streams[2].id, streams[0].id, streams[1].id}));
  // One is told of the cycle, the others of the stream that they waited for.
  expect_end(waits_of[1], Outcome::Aborted, Status::EventFailed);
  expect_end(waits_of[0], Outcome::Aborted, Status::EventFailed);
}

TEST_F(Events, ACycleIsFoundWhenAWaitClosesIt) {
  auto streams = open(20);
  const auto first = submit(driver_.event_wait(streams[0], streams[1], 5));
  submit(driver_.event_signal(streams[0], 5));
  std::uint64_t last = 0;
  for (unsigned i = 1; i < 20; ++i) {
    EXPECT_TRUE(waits(first));
    // Its signal stands behind its wait when that is looked at for the first time.
    last = submit(driver_.event_wait(streams[i], streams[(i + 1) % 20], 5));
    submit(driver_.event_signal(streams[i], 6));
  }
  expect_end(last, Outcome::Fault, Status::EventDeadlock);
  const Completion& end = endings_[last];
  EXPECT_EQ(end.fault.argument, 20u);
  std::vector<unsigned> expected{streams[19].id};
  for (unsigned i = 0; i < 15; ++i) expected.push_back(streams[i].id);
  EXPECT_EQ(cycle_of(end), expected);
  expect_end(first, Outcome::Aborted, Status::EventFailed);
}

TEST_F(Events, AValueThatIsNotQueuedIsNoDeadlock) {
  auto a = open(), b = open();
  const auto of_a = submit(driver_.event_wait(a, b, 2));
  submit(driver_.event_signal(a, 1));
  const auto of_b = submit(driver_.event_wait(b, a, 1));
  submit(driver_.event_signal(b, 1));
  EXPECT_TRUE(waits(of_a)) << "b has queued 1, not 2";
  EXPECT_TRUE(waits(of_b));
  EXPECT_EQ(cancel(b, 1).outcome, Outcome::Ok);
  submit(driver_.event_signal(b, 2));
  expect_end(of_a, Outcome::Ok);
}

TEST_F(Events, ASignalThatWasCancelledClosesNoCycle) {
  auto a = open(), b = open();
  const auto of_a = submit(driver_.event_wait(a, b, 1));
  submit(driver_.event_signal(a, 1));
  submit(driver_.event_signal(a, 2));
  EXPECT_EQ(cancel(a, 2).outcome, Outcome::Ok);
  EXPECT_EQ(cancel(a, 3).outcome, Outcome::Ok);
  const auto of_b = submit(driver_.event_wait(b, a, 1));
  submit(driver_.event_signal(b, 1));
  EXPECT_TRUE(waits(of_a));
  EXPECT_TRUE(waits(of_b));
  submit(driver_.event_signal(a, 1));
  expect_end(of_a, Outcome::Fault, Status::EventDeadlock);
  expect_end(of_b, Outcome::Aborted, Status::EventFailed);
}

TEST_F(Events, ACycleOfAnEarlierIncarnationIsNone) {
  auto a = open(), b = open();
  submit(driver_.event_wait(a, b, 1));
  submit(driver_.event_signal(a, 1));
  card_.run_until_idle();
  ASSERT_EQ(driver_.reset_stream(a).outcome, Outcome::Ok);
  const auto of_a = submit(driver_.event_wait(a, b, 1));
  const auto of_b = submit(driver_.event_wait(b, a, 1));
  submit(driver_.event_signal(b, 1));
  EXPECT_TRUE(waits(of_a)) << "the signal of a went with its reset";
  EXPECT_TRUE(waits(of_b));
}

TEST_F(Events, AWaitThatHasItsSignalIsInNoCycleBeforeItIsStepped) {
  auto x = open(), z = open();
  auto y = driver_.open_stream(true).value();
  const auto of_x = submit(driver_.event_wait(x, y, 3));
  submit(driver_.event_signal(x, 1));
  const auto of_z = submit(driver_.event_wait(z, x, 1));
  submit(driver_.event_signal(z, 1));
  ASSERT_TRUE(waits(of_z));
  // High priority makes both steps before x makes its next one.
  submit(driver_.event_signal(y, 3));
  const auto of_y = submit(driver_.event_wait(y, z, 1));
  for (const std::uint64_t wait : {of_x, of_z, of_y}) expect_end(wait, Outcome::Ok);
}

// ---- anything in any order

// Waits name only what has been submitted: there is no cycle, and nothing may stay.
TEST_F(Events, WaitsForWhatWasRecordedAlwaysEnd) {
  std::mt19937 random(11);
  auto streams = open(24);
  std::vector<std::uint64_t> value(streams.size(), 0);
  std::map<std::pair<std::size_t, std::uint64_t>, std::uint64_t> signals;
  struct Wait {
    std::uint64_t cookie, signal;
  };
  std::vector<Wait> waits_of;
  for (int i = 0; i < 4000; ++i) {
    while (driver_.blocks_under_way() > wire::kStreamCredits / 2) (void)ended(0);
    const std::size_t s = random() % streams.size(), other = random() % streams.size();
    if (random() % 2 == 0) {
      const auto cookie = submit(driver_.event_signal(streams[s], ++value[s]));
      signals[{s, value[s]}] = cookie;
    } else if (value[other] != 0 && other != s) {
      const std::uint64_t awaited = 1 + random() % value[other];
      waits_of.push_back({submit(driver_.event_wait(streams[s], streams[other], awaited)), signals[{other, awaited}]});
    }
    if (random() % 8 == 0) (void)ended(0);
  }
  (void)ended(0);
  EXPECT_EQ(driver_.blocks_under_way(), 0u);
  for (const Wait& wait : waits_of) {
    ASSERT_EQ(endings_[wait.cookie].outcome, Outcome::Ok);
    ASSERT_TRUE(ended_before(wait.signal, wait.cookie));
  }
}

// ---- a timeline is renewed under its waiters

// STREAM_CLOSE and STREAM_OPEN in one batch: the stream is opened again before all of its waiters were stepped, of
// which there are more than a quantum has steps.
TEST_F(Events, ATimelineIsOpenedAgainUnderItsWaiters) {
  auto a = open();
  auto waiting = open(120);
  std::vector<std::uint64_t> waits_of;
  for (auto& stream : waiting) waits_of.push_back(submit(driver_.event_wait(stream, a, 1)));
  for (const std::uint64_t wait : waits_of) ASSERT_TRUE(waits(wait));
  driver_.send_admin(driver_.stream_request(AdminCommand::StreamClose, a));
  driver_.send_admin(driver_.admin_request(AdminCommand::StreamOpen));
  const auto& streams = card_.function(2).streams;
  const std::uint32_t incarnation = streams[a.id].incarnation;
  for (int i = 0; streams[a.id].incarnation != incarnation + 2; ++i) {
    ASSERT_LT(i, 100);
    fw::run_iteration(card_.card());
  }
  EXPECT_GT(std::ranges::count(streams, fw::Stream::Phase::Idle, &fw::Stream::phase), 0);
  EXPECT_GT(driver_.blocks_under_way(), 0u) << "some of the waits have to be there still";
  EXPECT_EQ(streams.timeline(a.id).first_waiter, fw::kNoWaiter);
  for (const std::uint64_t wait : waits_of) expect_end(wait, Outcome::Aborted, Status::EventFailed);
}

TEST_F(Events, AFunctionIsResetUnderAWaitForStreamZero) {
  StreamHandle zero;
  for (int round = 0; round < 3; ++round) {
    auto b = open();
    submit(driver_.event_wait(b, zero, 1));
    card_.run_until_idle();
    ASSERT_NE(card_.function(2).streams.timeline(0).first_waiter, fw::kNoWaiter);
    ASSERT_EQ(driver_.set_status(0), 0u);
    EXPECT_EQ(card_.function(2).streams.timeline(0).first_waiter, fw::kNoWaiter);
    ASSERT_TRUE(driver_.bring_up());
    zero = {};
    endings_.clear();
  }
}

// What was done by mistake has to end in a panic, not in another function's memory.
TEST_F(Events, AWaitThatIsInNoListIsFound) {
  auto a = open(), b = open();
  submit(driver_.event_wait(b, a, 1));
  card_.run_until_idle();
  auto& streams = card_.function(2).streams;
  const_cast<fw::Timeline&>(streams.timeline(a.id)).first_waiter = fw::kNoWaiter;
  EXPECT_DEATH(streams.withdraw_wait(b.id), "in no list");
}

// Each walk along the list ends, also where it leads back into itself.
TEST_F(Events, AListOfWaitsThatLeadsBackIntoItselfIsFound) {
  auto a = open(), b = open(), c = open(), d = open();
  for (auto* stream : {&b, &c, &d}) submit(driver_.event_wait(*stream, a, 1));
  card_.run_until_idle();
  auto& streams = card_.function(2).streams;
  const auto behind = [&](unsigned stream) -> std::uint8_t& {
    return const_cast<fw::Timeline&>(streams.timeline(stream)).next_waiter;
  };
  ASSERT_EQ(streams.timeline(a.id).first_waiter, d.id);
  ASSERT_EQ(behind(d.id), c.id);
  behind(c.id) = static_cast<std::uint8_t>(d.id);
  EXPECT_DEATH(streams.signal(a.id, 1), "leads back") << "who is called";
  EXPECT_DEATH(streams.set_state(a.id, fw::StreamState::Poisoned), "leads back") << "likewise, for any value";
  EXPECT_DEATH(streams.withdraw_wait(b.id), "leads back") << "a wait that is looked for";
  EXPECT_DEATH(streams.open_timeline(a.id), "leads back") << "all that are withdrawn";
}

// ---- what waits cost

// Each signal behind a wait looks along the chain that it may have closed: the quantum ends by what that costs, long
// before its number of blocks.
TEST_F(Events, LooksAlongAChainOfWaitsAreChargedToTheirFunction) {
  constexpr unsigned kChain = 95;
  StreamHandle zero;
  auto streams = open(kChain + 1);
  for (unsigned i = kChain; i-- != 0;) {
    submit(driver_.event_wait(streams[i], i + 1 == kChain ? zero : streams[i + 1], 1));
    submit(driver_.event_signal(streams[i], 1));
    card_.run_until_idle();
  }
  ASSERT_TRUE(driver_.collect().empty());
  auto& head = streams[kChain];
  const std::uint64_t before = card_.function(2).charged();
  submit(driver_.event_wait(head, streams[0], 1));
  card_.run_until_idle();
  EXPECT_GE(card_.function(2).charged() - before, kChain * fw::kBytesOfALook);
  // Each further signal on it looks again: a quantum has as many as its bytes are worth.
  std::uint64_t most = 0;
  for (std::uint64_t value = 2; value < 40; ++value) submit(driver_.event_signal(head, value));
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t charged = card_.function(2).charged();
    fw::run_iteration(card_.card());
    most = std::max(most, card_.function(2).charged() - charged);
  }
  EXPECT_LE(most, fw::kQuantumBytes + wire::kStreamsPerFunction * fw::kBytesOfALook);
}

TEST_F(Events, LooksAtWaitersAreChargedToTheSignallingFunction) {
  auto waiting = open(100);
  auto a = open();
  for (auto& stream : waiting) submit(driver_.event_wait(stream, a, 1'000'000));
  card_.run_until_idle();
  const std::uint64_t before = card_.function(2).charged();
  ASSERT_EQ(driver_.run(driver_.event_signal(a, 1)).outcome, Outcome::Ok);
  EXPECT_GE(card_.function(2).charged() - before, waiting.size() * fw::kBytesOfALook);
}

// Any waits, resets and cancels: each block ends once, and whatever still waits is in no cycle, as this test sees it.
class AnyEvents : public Events {
 protected:
  struct Pending {
    std::uint64_t cookie;
    bool signals;
    std::uint64_t value;
    std::size_t awaited;
    std::uint32_t incarnation;
  };

  void forget_ended() {
    (void)ended(0);
    for (auto& queue : queues_) std::erase_if(queue, [&](const Pending& p) { return endings_.contains(p.cookie); });
  }
  // Whether the head of the stream is released, now or later, by what stands in the queues alone, or is not known to be
  // stuck.
  bool stuck(std::size_t first) const {
    std::size_t at = first;
    for (std::size_t step = 0; step <= queues_.size(); ++step) {
      const auto& queue = queues_[at];
      if (queue.empty() || queue.front().signals) return false;
      const Pending& wait = queue.front();
      if (wait.awaited == at) return true;
      const auto& next = queues_[wait.awaited];
      const bool queued =
          std::ranges::any_of(next, [&](const Pending& p) { return p.signals && p.value >= wait.value; });
      if (!queued) return false;
      at = wait.awaited;
      if (at == first) return true;
    }
    return false;
  }

  std::vector<std::vector<Pending>> queues_;
};

TEST_F(AnyEvents, EveryBlockEndsOnceAndNoCycleStays) {
  std::mt19937 random(5);
  auto streams = open(12);
  queues_.resize(streams.size());
  std::vector<std::uint64_t> value(streams.size(), 0);
  unsigned deadlocks = 0;
  std::size_t submitted = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::size_t s = random() % streams.size(), other = random() % streams.size();
    if (driver_.blocks_under_way() > wire::kStreamCredits / 2 || random() % 16 == 0) {
      ASSERT_EQ(driver_.reset_stream(streams[s]).outcome, Outcome::Ok);
    } else if (random() % 3 == 0) {
      const std::uint64_t awaited = value[other] + random() % 4;
      if (awaited == 0) continue;
      const auto cookie = submit(driver_.event_wait(streams[s], streams[other], awaited));
      queues_[s].push_back({cookie, false, awaited, other, streams[other].incarnation});
      ++submitted;
    } else if (random() % 2 == 0) {
      value[s] += 1 + random() % 2;
      queues_[s].push_back({submit(driver_.event_signal(streams[s], value[s])), true, value[s], s, 0});
      ++submitted;
    } else if (!queues_[s].empty() && random() % 8 == 0) {
      (void)cancel(streams[s], streams[s].next_sequence - 1 - random() % 3);
    }
    forget_ended();
    for (std::size_t q = 0; q < queues_.size(); ++q) ASSERT_FALSE(stuck(q)) << "step " << i << ", stream " << q;
  }
  for (auto& stream : streams) ASSERT_EQ(driver_.reset_stream(stream).outcome, Outcome::Ok);
  forget_ended();
  EXPECT_EQ(driver_.blocks_under_way(), 0u);
  EXPECT_EQ(endings_.size(), submitted);
  for (const auto& [cookie, end] : endings_) deadlocks += end.status == Status::EventDeadlock;
  EXPECT_GT(deadlocks, 20u) << "the test has to meet what it is about";
}

}  // namespace
