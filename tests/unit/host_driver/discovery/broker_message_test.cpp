// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/broker_message.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "shared/version.hpp"
#include "tests/unit/host_driver/discovery/example_card.hpp"

namespace svp {
namespace {

using testing::HasSubstr;
constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();

std::string source_of_request(std::string_view text) {
  const auto request = parse_broker_request(text);
  return request ? "accepted" : request.error().source;
}
std::string source_of_reply(std::string_view text) {
  const auto reply = parse_broker_reply(text);
  return reply ? "accepted" : reply.error().source;
}

TEST(FunctionChoices, AreReadAsTheyAreWritten) {
  for (const auto& choice : {FunctionChoice::physical(), FunctionChoice::any_virtual(),
                             FunctionChoice::virtual_function(1), FunctionChoice::virtual_function(16)}) {
    EXPECT_EQ(parse_function_choice(to_string(choice)), choice);
  }
  for (const char* bad : {"", "pf", "PF0", "M", "VF0", "VF01", "VF17", "VF-1", "VF+1", "VF 1", " PF", "VF1 ", "VF1x",
                          "VF99999999999999999999"}) {
    const auto refused = parse_function_choice(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_THAT(refused.error().next_step, HasSubstr("VF1 to VF16"));
  }
  EXPECT_EQ(function_name(wire::kTargetPhysical), "PF");
  EXPECT_EQ(function_name(wire::target_of_virtual(7)), "VF7");
}

TimelineToken example_token() {
  TimelineToken token;
  for (std::size_t i = 0; i < token.size(); ++i) token[i] = static_cast<std::byte>(i * 37 + 11);
  return token;
}

TEST(BrokerMessages, RequestsAreReadAsTheyAreWritten) {
  const BrokerRequest all[] = {HelloRequest{wire::kAbiVersion, FunctionChoice::virtual_function(3)},
                               DescribeRequest{},
                               ResetRequest{wire::target_of_virtual(2)},
                               RaiseRequest{ResetLevel::Card},
                               PowerCycleRequest{},
                               StopRequest{},
                               CollectRequest{"/tmp/core", true},
                               DebugRequest{false},
                               HeldRequest{},
                               StatisticsRequest{wire::target_of_virtual(16)},
                               OfferTimelineRequest{{wire::target_of_virtual(16), kMost, 127, ~std::uint32_t{0}}},
                               RedeemTimelineRequest{wire::kTargetPhysical, kMost, example_token()},
                               ProofRequest{kMost}};
  for (const auto& request : all) {
    const auto read = parse_broker_request(encode(request));
    ASSERT_TRUE(read) << describe(read.error());
    EXPECT_EQ(*read, request);
  }
}

TEST(BrokerMessages, StatisticsAreReadAsTheyAreWritten) {
  FunctionStatistics statistics{.target = wire::target_of_virtual(16)};
  std::uint64_t value = kMost;
  for (const auto& member : kStatisticsMembers) statistics.*member.value = value--;
  const std::string text = encode(BrokerReply(statistics));
  EXPECT_LE(text.size(), kMaxBrokerMessage);
  const auto read = parse_broker_reply(text);
  ASSERT_TRUE(read) << describe(read.error());
  EXPECT_EQ(std::get<FunctionStatistics>(*read), statistics);
  EXPECT_FALSE(parse_broker_reply(R"({"type": "statistics", "target": 1})"));
  EXPECT_FALSE(parse_broker_request(R"({"type": "statistics", "target": 0})")) << "M has no owner";
}

TEST(BrokerMessages, GrantsOfTimelinesAreReadAsTheyAreWritten) {
  const TimelineOffered offered{example_token()};
  EXPECT_EQ(std::get<TimelineOffered>(*parse_broker_reply(encode(BrokerReply(offered)))), offered);
  const TimelineGrant granted{wire::kGrantsPerFunction - 1, kMost};
  EXPECT_EQ(std::get<TimelineGrant>(*parse_broker_reply(encode(BrokerReply(granted)))), granted);
  const std::string token = to_text(example_token());
  const auto redeem = [](const std::string& text) {
    return R"({"type": "redeem-timeline", "target": 1, "generation": 1, "token": ")" + text + R"("})";
  };
  EXPECT_EQ(source_of_request(redeem(token)), "accepted");
  for (const std::string& bad : {std::string(), token.substr(1), token + "0", "A" + token.substr(1),
                                 "g" + token.substr(1), std::string(32, ' ')}) {
    EXPECT_EQ(source_of_request(redeem(bad)), "request.token") << bad;
  }
  EXPECT_EQ(
      source_of_request(R"({"type": "offer-timeline", "target": 1, "generation": 1, "stream": 128, "incarnation": 1})"),
      "request.stream");
  EXPECT_EQ(
      source_of_request(R"({"type": "offer-timeline", "target": 0, "generation": 1, "stream": 1, "incarnation": 1})"),
      "request.target")
      << "M has no streams";
  EXPECT_EQ(source_of_reply(R"({"type": "timeline-granted", "grant": 64, "epoch": 1})"), "reply.grant");
  EXPECT_EQ(source_of_reply(R"({"type": "offered", "token": "00"})"), "reply.token");
}

TEST(Utilisation, IsThePartOfTheCoresTimeThatKernelsHad) {
  const FunctionStatistics before{.time_ticks = 1000, .cores = 2, .kernel_ticks = 100, .resets = 1};
  FunctionStatistics after{.time_ticks = 2000, .cores = 2, .kernel_ticks = 600, .resets = 1};
  EXPECT_DOUBLE_EQ(core_utilisation(before, after), 0.25);
  after.kernel_ticks = 100'000;
  EXPECT_DOUBLE_EQ(core_utilisation(before, after), 1) << "a kernel's ticks are counted when it ends";
  after.resets = 2;
  EXPECT_DOUBLE_EQ(core_utilisation(before, after), 0) << "counted from anew";
  EXPECT_DOUBLE_EQ(core_utilisation(before, before), 0);
}

TEST(BrokerMessages, GrantsAndCardsAreReadAsTheyAreWritten) {
  const Grant grant{"card0", wire::target_of_virtual(16), 247, 4ull << 30, kMost, kMost, kMost};
  const auto granted = parse_broker_reply(encode(BrokerReply(grant)));
  ASSERT_TRUE(granted) << describe(granted.error());
  EXPECT_EQ(std::get<Grant>(*granted), grant);
  const auto card = parse_broker_reply(encode(BrokerReply(test::example_card())));
  ASSERT_TRUE(card) << describe(card.error());
  EXPECT_EQ(std::get<CardDescription>(*card), test::example_card());
  const Done done{"card reset helped after 17.1 ms"};
  EXPECT_EQ(std::get<Done>(*parse_broker_reply(encode(BrokerReply(done)))), done);
  EXPECT_EQ(std::get<Late>(*parse_broker_reply(encode(BrokerReply(Late{})))), Late{});
  EXPECT_EQ(std::get<Prove>(*parse_broker_reply(encode(BrokerReply(Prove{kMost})))), Prove{kMost});
  const std::string cut = encode(BrokerReply(Done{std::string(100'000, '\1')}));
  EXPECT_LE(cut.size(), kMaxBrokerMessage);
  EXPECT_TRUE(parse_broker_reply(cut));
}

TEST(BrokerMessages, LargestCardFitsIntoAMessage) {
  auto card = test::example_card(std::string(32, 'x'), 16);
  card.broker = card.emulator = std::numeric_limits<pid_t>::max();
  card.memory_bytes = card.window_bytes = card.power_cycles = kMost;
  card.state = CardState::Dead;
  card.state_reason = std::string(256, '"');  // escaped: two bytes each
  card.slots_total = card.slots_used = card.slots_left = 248;
  card.retirements = {kMost, std::chrono::microseconds::max(), std::chrono::microseconds::max()};
  for (auto& function : card.functions) {
    function.use = FunctionUse::Owned;
    function.owner = std::numeric_limits<pid_t>::max();
    function.slot = 247;
    function.serial = ~std::uint32_t{0};
    function.violations = kMost;
  }
  const std::string text = encode(BrokerReply(card));
  EXPECT_LE(text.size(), kMaxBrokerMessage);
  const auto read = parse_broker_reply(text);
  ASSERT_TRUE(read) << describe(read.error());
}

RC_GTEST_PROP(BrokerMessages, ErrorsTravelWhateverTheirTexts, ()) {
  const auto text = [](std::size_t limit) {
    auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
    for (auto repeat = *rc::gen::inRange(0, 6); repeat > 0 && bytes.size() < limit; --repeat)
      bytes += bytes + "\x01\xff";
    return bytes;
  };
  const ErrorInfo error{.layer = *rc::gen::element(Layer::Driver, Layer::Firmware, Layer::Emulator),
                        .source = text(2000),
                        .outcome = *rc::gen::element(wire::Outcome::Rejected, wire::Outcome::Indeterminate),
                        .recoverable = *rc::gen::arbitrary<bool>(),
                        .next_step = text(2000),
                        .message = text(8000)};
  const std::string sent = encode(BrokerReply(error));
  RC_ASSERT(sent.size() <= kMaxBrokerMessage);
  const auto read = parse_broker_reply(sent);
  RC_ASSERT(read.has_value());
  const auto& got = std::get<ErrorInfo>(*read);
  RC_ASSERT(got.layer == error.layer && got.outcome == error.outcome && got.recoverable == error.recoverable);
}

TEST(BrokerMessages, PlainErrorTextsAreUnchanged) {
  const ErrorInfo error{Layer::Memory, "VF1", wire::Outcome::Lost, false, "do that", "this \"happened\""};
  const auto got = std::get<ErrorInfo>(*parse_broker_reply(encode(BrokerReply(error))));
  EXPECT_EQ(describe(got), describe(error));
}

TEST(BrokerMessages, BadRequestsNameTheirMember) {
  EXPECT_EQ(source_of_request(""), "request");
  EXPECT_EQ(source_of_request("null"), "request");
  EXPECT_EQ(source_of_request(R"({"type": 1})"), "request.type");
  EXPECT_EQ(source_of_request(R"({"type": "stop", "x": 1})"), "request");
  EXPECT_EQ(source_of_request(R"({"type": "reset", "target": 18})"), "request.target");
  EXPECT_EQ(source_of_request(R"({"type": "reset", "target": 0})"), "request.target");
  EXPECT_EQ(source_of_request(R"({"type": "reset", "target": "PF"})"), "request.target");
  EXPECT_EQ(source_of_request(R"({"type": "collect", "file": "core", "now": false})"), "request.file");
  EXPECT_EQ(source_of_request(R"({"type": "collect", "file": "/core"})"), "request.now");
  EXPECT_EQ(source_of_request(R"({"type": "debug", "offer": 1})"), "request.offer");
  const std::string hello = R"({"type": "hello", "abi": )" + std::to_string(wire::kAbiVersion) + R"(, "want": )";
  EXPECT_EQ(source_of_request(hello + "\"PF\"}"), "accepted");
  EXPECT_EQ(source_of_request(hello + "\"M\"}"), "request.want");
  EXPECT_EQ(source_of_request(hello + "1}"), "request.want");
  EXPECT_EQ(source_of_request(hello + "\"PF\", \"root\": true}"), "request");
  EXPECT_EQ(source_of_request(std::string(kMaxBrokerMessage + 1, ' ')), "request");
}

TEST(BrokerMessages, OtherVersionIsNamedBeforeAnythingElseOfIt) {
  const auto refused = parse_broker_request(R"({"type": "hello", "abi": 99, "want": 5, "new": []})");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("tenant has 99, the card " + std::to_string(wire::kAbiVersion)));
  EXPECT_FALSE(refused.error().recoverable);
}

TEST(BrokerMessages, BadRepliesNameTheirMember) {
  EXPECT_EQ(source_of_reply("{"), "reply");
  EXPECT_EQ(source_of_reply(R"({"type": "granted"})"), "reply.card");
  EXPECT_EQ(source_of_reply(R"({"type": "card", "card": {}})"), "card.name");
  EXPECT_EQ(source_of_reply(R"({"type": "refused", "error": []})"), "reply.error");
  EXPECT_EQ(source_of_reply(R"({"type": "refused", "error": {"layer": "moon"}})"), "reply.error.layer");
  EXPECT_EQ(source_of_reply(R"({"type": "done"})"), "reply.how");
  EXPECT_EQ(source_of_reply(R"({"type": "done", "how": "", "really": 1})"), "reply");
  std::string slot_zero = encode(BrokerReply(Grant{"card0", 1, 1, 1 << 20, 0, 0, 0}));
  slot_zero.replace(slot_zero.find("\"slot\":1"), 8, "\"slot\":0");
  EXPECT_EQ(source_of_reply(slot_zero), "reply.slot") << "the management function is never handed out";
}

RC_GTEST_PROP(BrokerMessages, DamagedMessagesAreErrorsOrMessagesNeverMore, ()) {
  std::string text = *rc::gen::element(
      encode(BrokerRequest(HelloRequest{wire::kAbiVersion, {}})), encode(BrokerRequest(ResetRequest{2})),
      encode(BrokerReply(Grant{"card0", 1, 1, 1 << 28, 1, 1, 0})), encode(BrokerReply(test::example_card())));
  for (auto damage = *rc::gen::inRange(1, 6); damage > 0; --damage) {
    text[*rc::gen::inRange<std::size_t>(0, text.size())] = *rc::gen::arbitrary<char>();
  }
  const auto request = parse_broker_request(text);
  if (!request) RC_ASSERT(!request.error().message.empty());
  const auto reply = parse_broker_reply(text);
  if (!reply) RC_ASSERT(!reply.error().message.empty());
}

}  // namespace
}  // namespace svp
