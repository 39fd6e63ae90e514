// SPDX-License-Identifier: Apache-2.0
// Streams that are closed or reset while work of theirs, or of their next incarnation, is on its way: admin requests
// are sent without waiting for their answers, together with control blocks that guess the incarnation that comes next.
#include <gtest/gtest.h>

#include "tests/unit/firmware/core/launch_fixture.hpp"

namespace {

using fwtest::Launch;
using fwtest::Program;
using fwtest::StreamHandle;
using wire::AdminCommand;
using wire::Outcome;
using wire::Status;

class StreamClose : public Launch {
 protected:
  void SetUp() override {
    const auto opened = driver_.open_stream();
    ASSERT_TRUE(opened);
    victim_ = *opened;
    next_ = {victim_.id, victim_.incarnation + 1, 1};
  }

  fw::Stream& stream() { return card_.function(2).streams[victim_.id]; }
  // An endless kernel runs on the stream, its close has been asked for, and the kernel has just left its core.
  std::uint16_t close_beside_a_kernel() {
    driver_.submit(block(victim_, Program::Endless));
    card_.run_until_idle();
    EXPECT_TRUE(slice());
    const std::uint16_t close = driver_.send_admin(driver_.stream_request(AdminCommand::StreamClose, victim_));
    card_.run_until_idle();
    slice();
    return close;
  }
  void submit_next(Program program, unsigned copies = 1) {
    for (unsigned i = 0; i < copies; ++i) {
      StreamHandle copy = next_;
      driver_.submit(block(copy, program));
    }
  }
  // Lets the card and its cores work until neither has anything to do.
  void settle() {
    for (int i = 0; i < 200; ++i) {
      card_.run_until_idle();
      slice();
    }
    card_.run_until_idle();
  }
  void expect_at_rest() {
    EXPECT_EQ(stream().head, fw::kNoBlock);
    EXPECT_EQ(stream().phase, fw::Stream::Phase::Idle);
    EXPECT_FALSE(card_.card().launches.active(2));
    EXPECT_FALSE(card_.function(2).streams.any_runnable());
  }
  void expect_all_refused(std::size_t count, const std::vector<raw::Ended>& ended) {
    EXPECT_EQ(ended.size(), count + 1) << "the kernel that was stopped, and the blocks of the next incarnation";
    for (const auto& one : ended) {
      if (one.completion.incarnation == victim_.incarnation) continue;
      EXPECT_EQ(one.completion.outcome, Outcome::Rejected);
    }
  }

  StreamHandle victim_;
  StreamHandle next_;
};

TEST_F(StreamClose, CompletesOnlyOnAnEmptyStream) {
  const auto close = close_beside_a_kernel();
  submit_next(Program::Endless, 100);
  card_.run_until_idle();
  const auto reply = driver_.wait_admin(close);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->outcome, Outcome::Ok);
  expect_at_rest();
  expect_all_refused(100, driver_.collect());
}

TEST_F(StreamClose, AQueueResetAfterItCompletesNothingIntoTheResetQueue) {
  const auto close = close_beside_a_kernel();
  submit_next(Program::Endless, 100);
  card_.run_until_idle();
  driver_.wait_admin(close);
  EXPECT_TRUE(driver_.reset_queue(wire::kControlBlockQueue));
  settle();
  expect_at_rest();
}

TEST_F(StreamClose, AStreamOpenedAfterItIsEmptyAndWorks) {
  const auto close = close_beside_a_kernel();
  submit_next(Program::Endless, 100);
  card_.run_until_idle();
  driver_.wait_admin(close);
  auto opened = driver_.open_stream();
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->id, victim_.id);
  settle();
  driver_.collect();
  EXPECT_EQ(driver_.run(driver_.nop(*opened)).outcome, Outcome::Ok);
  expect_at_rest();
}

// The launch of an earlier stream of the same number must never be taken for the later one's.
TEST_F(StreamClose, ALaterLaunchRunsOnItsOwnAddressSpace) {
  auto close = close_beside_a_kernel();
  submit_next(Program::Endless);
  card_.run_until_idle();
  driver_.wait_admin(close);
  auto opened = driver_.open_stream();
  ASSERT_TRUE(opened);
  ASSERT_TRUE(driver_.acquire(8 * wire::kMiB));
  const auto dirty = card_.card().pool.dirty_granules(card_.function(2).id());
  driver_.submit(block(*opened, Program::Touches));
  settle();
  bool ran = false;
  for (const auto& one : driver_.collect()) {
    if (one.completion.incarnation != opened->incarnation) continue;
    ran = one.completion.outcome == Outcome::Ok;
  }
  EXPECT_TRUE(ran);
  EXPECT_EQ(card_.card().pool.dirty_granules(card_.function(2).id()), dirty + 1);
}

TEST_F(StreamClose, AFunctionResetAfterItEnds) {
  const auto close = close_beside_a_kernel();
  submit_next(Program::Endless, 3);
  card_.run_until_idle();
  driver_.wait_admin(close);
  const std::uint64_t generation = driver_.header().generation;
  driver_.send(driver_.request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{0}));
  settle();
  EXPECT_GT(driver_.header().generation, generation);
  EXPECT_FALSE(card_.function(2).reset.running());
  expect_at_rest();
}

TEST_F(StreamClose, ACloseThatIsAnsweredLateDoesNotCloseTheNextStream) {
  const auto close = close_beside_a_kernel();
  const auto open = driver_.send_admin(driver_.admin_request(AdminCommand::StreamOpen));
  card_.run_until_idle();
  ASSERT_TRUE(driver_.wait_admin(close));
  const auto reply = driver_.wait_admin(open);
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->outcome, Outcome::Ok);
  StreamHandle opened{reply->values.stream.stream, reply->values.stream.incarnation, 1};
  driver_.collect();
  EXPECT_EQ(driver_.run(driver_.nop(opened)).outcome, Outcome::Ok);
}

TEST_F(StreamClose, BlocksOfAStreamThatIsResettingAreRefusedByTheirReason) {
  driver_.submit(block(victim_, Program::Endless));
  card_.run_until_idle();
  ASSERT_TRUE(slice());
  const auto reset = driver_.send_admin(driver_.stream_request(AdminCommand::StreamReset, victim_));
  card_.run_until_idle();
  submit_next(Program::Exit);
  card_.run_until_idle();
  const auto refused = driver_.collect();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].completion.status, Status::StreamResetting);
  slice();
  const auto reply = driver_.wait_admin(reset);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->values.stream.incarnation, next_.incarnation);
  settle();
  driver_.collect();
  EXPECT_EQ(driver_.run(driver_.nop(next_)).outcome, Outcome::Ok);
}

}  // namespace
