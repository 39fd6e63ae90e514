// SPDX-License-Identifier: Apache-2.0
#include "host_driver/transport/control_channel.hpp"

#include <gtest/gtest.h>

#include <array>

#include "host_driver/base/timeouts.hpp"
#include "shared/virtio.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/transport/control_peer.hpp"

namespace svp {
namespace {

using test::ControlPeer;
using wire::Message;
using wire::MessageOp;

class ControlChannelTest : public testing::Test {
 protected:
  // A peer that answers is given the driver's own time-outs; this is for one that is silent, or talks without end.
  void expect_no_answer_in(Timeouts::Duration bound) {
    timeouts.post_progress = bound;       // reached: no answer comes, however long the wait is
    timeouts.function_reset = 4 * bound;  // reached: for the same reason
  }
  ControlChannel& channel() {
    if (!channel_) channel_.emplace(peer.window(), doorbells, peer.exit_fd(), timeouts);
    return *channel_;
  }
  Expected<wire::StatusValue> ask() {
    return channel().transact<wire::StatusValue>(MessageOp::GetDeviceStatus, wire::StatusValue{});
  }
  static std::optional<Message> good(const Message& request) {
    return ControlPeer::answer(request, wire::StatusValue{3});
  }

  ControlPeer peer;
  Doorbells doorbells{peer.slot(), FaultHooks{}};
  Timeouts timeouts;
  std::optional<ControlChannel> channel_;
};

TEST_F(ControlChannelTest, ARequestGetsItsAnswer) {
  peer.serve(good);
  for (int i = 0; i < 300; ++i) ASSERT_EQ(ask().value().status, 3u);  // several laps of the FIFO
  EXPECT_EQ(channel().statistics().requests, 300u);
}

Message status_request(std::uint32_t status) {
  return ControlChannel::announcement(MessageOp::SetDeviceStatus, wire::StatusValue{status});
}
std::optional<Message> echo_status(const Message& request) {
  wire::StatusValue value{};
  EXPECT_TRUE(wire::read_payload(request, value));
  return ControlPeer::answer(request, value);
}

TEST_F(ControlChannelTest, AnnouncedRequestsAreSentOnceAndWithOneDoorbell) {
  const std::array messages{status_request(1), status_request(2), status_request(3)};
  channel().announce(messages);
  EXPECT_EQ(channel().statistics().requests, 3u);
  EXPECT_EQ(channel().statistics().doorbells, 1u);
  peer.serve(echo_status);
  for (std::uint32_t status = 1; status <= 3; ++status) {
    const auto now = channel().transact<wire::StatusValue>(MessageOp::SetDeviceStatus, wire::StatusValue{status});
    ASSERT_TRUE(now) << describe(now.error());
    EXPECT_EQ(now->status, status);
  }
  EXPECT_EQ(channel().statistics().requests, 3u);
  EXPECT_EQ(channel().statistics().doorbells, 1u);
  EXPECT_EQ(channel().statistics().stale_responses, 0u);
  EXPECT_FALSE(channel().forget_announced());
}

TEST_F(ControlChannelTest, AnotherRequestThanTheAnnouncedOneForgetsThem) {
  const std::array messages{status_request(1), status_request(2)};
  channel().announce(messages);
  peer.serve(echo_status);
  const auto now = channel().transact<wire::StatusValue>(MessageOp::SetDeviceStatus, wire::StatusValue{7});
  ASSERT_TRUE(now) << describe(now.error());
  EXPECT_EQ(now->status, 7u);
  EXPECT_EQ(channel().statistics().requests, 3u);
  EXPECT_EQ(channel().statistics().stale_responses, 2u) << "their answers are dropped";
  EXPECT_FALSE(channel().forget_announced());
}

TEST_F(ControlChannelTest, AnAnnouncedRequestOfAnEarlierBootIsNotWaitedFor) {
  const std::array messages{status_request(1)};
  channel().announce(messages);
  peer.header().boot_epoch = 2;
  const auto now = channel().transact<wire::StatusValue>(MessageOp::SetDeviceStatus, wire::StatusValue{1});
  ASSERT_FALSE(now);
  EXPECT_NE(now.error().message.find("restarted"), std::string::npos) << describe(now.error());
}

TEST_F(ControlChannelTest, APingComesBackUnchanged) {
  peer.serve([](const Message& request) {
    wire::Ping ping{};
    EXPECT_TRUE(wire::read_payload(request, ping));
    return ControlPeer::answer(request, ping);
  });
  EXPECT_TRUE(channel().ping());
}

TEST_F(ControlChannelTest, ARefusalIsATypedError) {
  peer.serve([](const Message& request) { return ControlPeer::refusal(request); });
  const auto answer = ask();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().outcome, wire::Outcome::Rejected);
  EXPECT_NE(answer.error().message.find("GET_DEVICE_STATUS"), std::string::npos);
}

TEST_F(ControlChannelTest, AnAnswerTooShortForItsPayloadIsARefusal) {
  peer.serve([](const Message& request) {
    Message message = ControlPeer::answer(request, wire::StatusValue{3});
    message.header.size = 9;
    return message;
  });
  EXPECT_FALSE(ask());
}

TEST_F(ControlChannelTest, StaleAndForeignAnswersAreCountedAndDropped) {
  int count = 0;
  peer.serve([&](const Message& request) -> std::optional<Message> {
    Message stale = ControlPeer::answer(request, wire::StatusValue{99});
    stale.header.token = static_cast<std::uint16_t>(request.header.token - 1);
    peer.send(stale);
    Message foreign = ControlPeer::answer(request, wire::StatusValue{98});
    foreign.header.op = static_cast<std::uint8_t>(MessageOp::GetConfig);
    peer.send(foreign);
    ++count;
    return good(request);
  });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ask().value().status, 3u);
  peer.stop();
  EXPECT_EQ(channel().statistics().stale_responses, 20u);
}

TEST_F(ControlChannelTest, WhatAnEarlierOwnerLeftIsDropped) {
  for (int i = 0; i < 10; ++i)
    peer.send(wire::make_message(wire::kMessageResponse, 8, static_cast<std::uint16_t>(i), wire::StatusValue{1}));
  peer.serve(good);
  EXPECT_EQ(ask().value().status, 3u);
  EXPECT_EQ(channel().statistics().stale_responses, 0u);
}

TEST_F(ControlChannelTest, AConfigurationEventSaysThatTheDeviceNeedsReset) {
  channel();
  peer.send(wire::make_message(0, static_cast<std::uint8_t>(MessageOp::EventConfig), 0,
                               wire::ConfigEvent{wire::kStatusNeedsReset | 15, 1}));
  peer.send(wire::make_message(0, 0x77, 0, wire::Ping{}));
  EXPECT_TRUE(channel().has_message());
  EXPECT_TRUE(channel().poll());
  EXPECT_TRUE(channel().needs_reset());
  EXPECT_EQ(channel().statistics().malformed, 1u);
}

TEST_F(ControlChannelTest, ALostDoorbellCostsOnlyTheNextLook) {
  FaultHooks faults;
  faults.drop_doorbells_from_card = 1;
  faults.drop_doorbells_to_card = 1;
  Doorbells masked{peer.slot(), faults};
  peer.serve(good);
  ControlChannel channel(peer.window(), masked, peer.exit_fd(), timeouts);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(channel.transact<wire::StatusValue>(MessageOp::GetDeviceStatus, wire::StatusValue{}));
  }
}

TEST_F(ControlChannelTest, SilenceEndsAfterTheBoundAndTheErrorShowsThePostCode) {
  expect_no_answer_in(test_bounds::kExpires);
  peer.show_post(wire::PostCode::PciScan);
  const auto answer = ask();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().outcome, wire::Outcome::Indeterminate);
  EXPECT_NE(answer.error().message.find("PCIe scan"), std::string::npos) << describe(answer.error());
}

// A boot that is played. True when each step came in time, that is within the bound of the one before it.
bool show_steps(ControlPeer& peer, Timeouts::Duration bound, std::chrono::steady_clock::time_point before) {
  bool in_time = true;
  for (std::uint32_t code = 1; code < 6; ++code) {
    std::this_thread::sleep_for(bound / 2);  // bounded: the rhythm that is played
    const auto now = std::chrono::steady_clock::now();
    peer.show_post(static_cast<wire::PostCode>(code));
    in_time = in_time && std::chrono::steady_clock::now() - before < bound;
    before = now;
  }
  return in_time;
}

TEST_F(ControlChannelTest, EveryNewPostCodeBuysTime) {
  // On a busy machine a step may come too late: then the wait may have ended, and it is played again, slower.
  bool in_time = false;
  for (Timeouts::Duration bound = test_bounds::kPlayedBound; !in_time && bound < test_bounds::kWork; bound *= 2) {
    expect_no_answer_in(bound);
    channel_.reset();
    channel();
    std::atomic<bool> done{false};
    const auto begin = std::chrono::steady_clock::now();
    std::thread boot([&] {
      in_time = show_steps(peer, bound, begin);
      done = true;
    });
    EXPECT_FALSE(ask());
    const bool ended_behind_the_last_step = done;
    boot.join();  // bounded: five steps of half a bound each
    EXPECT_TRUE(ended_behind_the_last_step || !in_time);
  }
  EXPECT_TRUE(in_time);
}

TEST_F(ControlChannelTest, EndlessProgressIsNotBelieved) {
  expect_no_answer_in(test_bounds::kPlayedBound);
  std::atomic<bool> stop{false};
  std::thread liar([&] {
    for (std::uint32_t code = 0; !stop; ++code) {
      peer.show_post(static_cast<wire::PostCode>(code % 7));
      std::this_thread::sleep_for(test_bounds::kLook);  // bounded: the rhythm that is played
    }
  });
  EXPECT_FALSE(ask());
  stop = true;
  liar.join();  // bounded: the flag is set above
}

TEST_F(ControlChannelTest, EndlessTalkAboutSomethingElseIsNotBelieved) {
  expect_no_answer_in(test_bounds::kPlayedBound);
  std::atomic<bool> stop{false};
  channel();
  std::thread talker([&] {
    while (!stop) peer.send(wire::make_message(0, 0x77, 0, wire::Ping{}));
  });
  EXPECT_FALSE(ask());
  stop = true;
  talker.join();  // bounded: the flag is set above
}

TEST_F(ControlChannelTest, ADeathEndsTheWait) {
  peer.serve([&](const Message&) -> std::optional<Message> {
    peer.die();
    return std::nullopt;
  });
  const auto answer = ask();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().outcome, wire::Outcome::Lost) << "and no timeout";
}

TEST_F(ControlChannelTest, AnAnswerGivenBeforeTheDeathCounts) {
  peer.serve([&](const Message& request) -> std::optional<Message> {
    peer.send(*good(request));
    peer.die();
    return std::nullopt;
  });
  EXPECT_TRUE(ask());
}

TEST_F(ControlChannelTest, HostileIndicesAreTypedErrors) {
  channel();
  for (const std::uint32_t written : {61u, 0x8000'0000u, 0xffff'ffffu}) {
    wire::store_release(peer.window()->fifo_to_host().written, written);
    const auto answer = ask();
    ASSERT_FALSE(answer) << written;
    EXPECT_EQ(answer.error().layer, Layer::Transport);
    EXPECT_FALSE(channel().poll());
  }
  wire::store_release(peer.window()->fifo_to_host().written, 0u);
  for (const std::uint32_t read : {100u, 0x7fff'ffffu, 0x8000'0000u}) {
    wire::store_release(peer.window()->fifo_to_card().read, read);
    const auto answer = ask();
    ASSERT_FALSE(answer) << read;
    EXPECT_EQ(answer.error().layer, Layer::Transport);
  }
}

TEST_F(ControlChannelTest, AFullFifoIsAnErrorAndKeepsItsMessages) {
  expect_no_answer_in(test_bounds::kLook);
  for (std::uint32_t i = 0; i < wire::kFifoSlots; ++i) EXPECT_FALSE(ask());
  EXPECT_FALSE(ask());
  EXPECT_EQ(wire::load_acquire(peer.window()->fifo_to_card().written), wire::kFifoSlots) << "nothing was added";
}

}  // namespace
}  // namespace svp
