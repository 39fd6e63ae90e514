// SPDX-License-Identifier: Apache-2.0
#include "qemu/qmp.hpp"
#include "tests/bounds.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace qemu {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

TEST(QmpMessages, EventsAreTyped) {
  const auto event = parse_event(
      json::parse(R"({"event":"SHUTDOWN","data":{"guest":true,"reason":"guest-shutdown"},"timestamp":{"seconds":1}})"));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, MachineEvent::Kind::kShutdown);
  EXPECT_EQ(event->reason, "guest-shutdown");
  EXPECT_TRUE(event->caused_by_guest);
  EXPECT_EQ(parse_event(json::parse(R"({"event":"GUEST_PANICKED"})"))->kind, MachineEvent::Kind::kGuestPanicked);
  EXPECT_EQ(parse_event(json::parse(R"({"event":"VSERPORT_CHANGE","data":7})"))->kind, MachineEvent::Kind::kOther);
}

TEST(QmpMessages, WhatIsNoEventIsNone) {
  for (const char* text : {"[]", "7", "null", R"({"return":{}})", R"({"event":7})", R"({"event":""})"}) {
    EXPECT_EQ(parse_event(json::parse(text)), std::nullopt) << text;
  }
}

TEST(QmpMessages, GreetingsAreCheckedInDepth) {
  EXPECT_EQ(parse_greeting(json::parse(R"({"QMP":{"version":{"qemu":{"micro":2,"minor":0,"major":10}}}})")),
            (Version{10, 0, 2}));
  for (const char* text : {R"({"QMP":{}})", R"({"QMP":{"version":{"qemu":7}}})", R"([1])",
                           R"({"QMP":{"version":{"qemu":{"major":"10","minor":0,"micro":0}}}})"}) {
    EXPECT_EQ(parse_greeting(json::parse(text)), std::nullopt) << text;
  }
}

/// A session whose peer is the test itself, with a thread that reads as the machine's does.
class QmpSessionTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    peer_.reset(ends[1]);
    session_.emplace(svp::UniqueFd{ends[0]}, [this](const MachineEvent& event) { events_.push_back(event.name); });
  }
  void say(std::string_view text) { ASSERT_EQ(::write(peer_.get(), text.data(), text.size()), ssize_t(text.size())); }
  /// Reads one request and answers it.
  void answer_one(const std::function<std::string(const json& request)>& reply) {
    std::string line;
    for (char c; ::read(peer_.get(), &c, 1) == 1 && c != '\n';) line += c;  // bounded: the session has sent a line
    say(reply(json::parse(line)));
    session_->on_readable();
  }

  svp::UniqueFd peer_;
  std::optional<QmpSession> session_;
  std::vector<std::string> events_;
};

TEST_F(QmpSessionTest, MessagesSurviveAnyCut) {
  const std::string_view text =
      "{\"QMP\":{\"version\":{\"qemu\":{\"major\":10,\"minor\":0,\"micro\":2}}}}\r\n{\"event\":\"STOP\"}\r\n";
  for (const char c : text) {
    say({&c, 1});
    EXPECT_TRUE(session_->on_readable());
  }
  EXPECT_EQ(session_->wait_greeting(test_bounds::kLook).value_or(Version{}), (Version{10, 0, 2}));
  EXPECT_EQ(events_, std::vector<std::string>{"STOP"});
}

TEST_F(QmpSessionTest, AnswersAreMatchedByIdNotByOrder) {
  std::jthread peer([this] {  // bounded: it answers once and ends
    answer_one([](const json& request) {
      return json{{"return", "stale"}, {"id", 999}}.dump() + "\n{broken\n" +
             json{{"return", "right"}, {"id", request["id"]}}.dump() + "\n";
    });
  });
  EXPECT_EQ(session_->execute("x", {}, test_bounds::kPlayedEmulator).value_or(json{}), json("right"));
}

TEST_F(QmpSessionTest, ARefusalCarriesItsReason) {
  std::jthread peer([this] {  // bounded: it answers once and ends
    answer_one([](const json& request) {
      return json{{"error", {{"class", "GenericError"}, {"desc", "no such thing"}}}, {"id", request["id"]}}.dump() +
             "\n";
    });
  });
  const auto result = session_->execute("x", {}, test_bounds::kPlayedEmulator);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, MachineError::Kind::kQmpError);
  EXPECT_TRUE(result.error().message.contains("no such thing"));
}

TEST_F(QmpSessionTest, ASilentPeerIsATypedErrorAfterTheBound) {
  const auto result = session_->execute("x", {}, milliseconds{5});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, MachineError::Kind::kQmpError);
  EXPECT_EQ(session_->wait_greeting(test_bounds::kRareLook).error().kind, MachineError::Kind::kHandshakeTimeout);
}

TEST_F(QmpSessionTest, TheEndReachesEveryWaiterAndEveryLaterRequest) {
  std::jthread waiter([this] {  // bounded: its request has a bound
    const auto result = session_->execute("x", {}, test_bounds::kPlayedEmulator);
    EXPECT_EQ(result.error().kind, MachineError::Kind::kDied);
    EXPECT_EQ(result.error().exit, (ExitStatus{ExitStatus::Kind::kSignaled, 9}));
  });
  char c;
  // bounded: the waiter sends its request
  ASSERT_EQ(::read(peer_.get(), &c, 1), 1);  // the request is under way
  session_->close({ExitStatus::Kind::kSignaled, 9});
  waiter.join();  // bounded: its request has a bound
  EXPECT_EQ(session_->execute("y", {}, test_bounds::kPlayedEmulator).error().kind, MachineError::Kind::kDied);
}

TEST_F(QmpSessionTest, ARequestFromTheServiceThreadIsRefusedAtOnce) {
  session_->set_service_thread(std::this_thread::get_id());
  EXPECT_EQ(session_->execute("x", {}, test_bounds::kPlayedEmulator).error().kind, MachineError::Kind::kQmpError);
}

TEST_F(QmpSessionTest, APeerThatNeverEndsItsLineIsCutOff) {
  const std::string chunk(64 * 1024, 'x');
  bool usable = true;
  for (int i = 0; i < 100 && usable; ++i) {
    say(chunk);
    usable = session_->on_readable();
  }
  EXPECT_FALSE(usable);
}

}  // namespace
}  // namespace qemu
