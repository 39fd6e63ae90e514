// SPDX-License-Identifier: Apache-2.0
// What connects to a broker may be anything: each is refused by a reason or closed, and owners do not notice.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "host_driver/discovery/broker_message.hpp"
#include "host_driver/discovery/local_socket.hpp"
#include "shared/version.hpp"
#include "tests/bounds.hpp"
#include "tests/device/cards/cards_support.hpp"

namespace svp {
namespace {

using testing::HasSubstr;

class BadClient : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static qemu::test::TemporaryFolder runtime_folder;
    auto options = test::small_broker(runtime_folder.path(), "card0", 1, 8);
    broker_ = value_or_throw(Broker::start(std::move(options)));
    owner_ = value_or_throw(attach(broker_->folder().string(), FunctionChoice::physical())).device;
  }
  static void TearDownTestSuite() {
    owner_.reset();
    broker_.reset();
  }
  // Whatever happened, the broker serves and the owner works.
  void TearDown() override {
    EXPECT_TRUE(owner_->card_statistics());
    EXPECT_EQ(value_or_throw(describe_card(broker_->folder().string())).functions[0].use, FunctionUse::Owned);
  }

  static UniqueFd connect() {
    const UniqueFd folder{::open(broker_->folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    auto socket = connect_in(folder.get(), kSocketName, test_bounds::kConnection);
    if (!socket) throw std::runtime_error(socket.error().reason);
    return *std::move(socket);
  }
  // The broker's next word; End when it closed. Bounded.
  static Received answer(const UniqueFd& socket, std::chrono::milliseconds bound = test_bounds::kConnection) {
    pollfd event{socket.get(), POLLIN, 0};
    (void)::poll(&event, 1, static_cast<int>(bound.count()));
    return receive_message(socket.get(), kMaxBrokerMessage, kGrantDescriptors);
  }
  static ErrorInfo refusal_of(std::string_view text) {
    const auto socket = connect();
    EXPECT_TRUE(send_message(socket.get(), text));
    const auto reply = value_or_throw(parse_broker_reply(answer(socket).text));
    EXPECT_EQ(answer(socket).kind, Received::Kind::End);
    return std::get<ErrorInfo>(reply);
  }

  static inline std::unique_ptr<Broker> broker_;
  static inline std::unique_ptr<Device> owner_;
};

TEST_F(BadClient, GarbageIsRefusedByNamingIt) {
  EXPECT_THAT(refusal_of("garbage").message, HasSubstr("is not JSON"));
  EXPECT_EQ(refusal_of("[]").source, "request");
  EXPECT_EQ(refusal_of("{}").source, "request.type");
  EXPECT_EQ(refusal_of(R"({"type": "dance"})").source, "request.type");
  EXPECT_EQ(refusal_of(R"({"type": "hello"})").source, "request.abi");
  EXPECT_EQ(refusal_of(R"({"type": "hello", "abi": )" + std::to_string(wire::kAbiVersion) + "}").source,
            "request.want");
  EXPECT_EQ(refusal_of(R"({"type": "stop", "now": true})").source, "request");
  EXPECT_EQ(refusal_of(R"({"type": "reset", "target": 0})").source, "request.target");
  EXPECT_EQ(refusal_of(R"({"type": "reset", "target": -1})").source, "request.target");
}

TEST_F(BadClient, OtherAbiVersionIsRefusedWithBothNumbers) {
  const auto error = refusal_of(R"({"type": "hello", "abi": 77, "want": "what that version wants"})");
  EXPECT_THAT(error.message, HasSubstr("the tenant has 77, the card " + std::to_string(wire::kAbiVersion)));
}

TEST_F(BadClient, TooLongAMessageIsRefused) {
  EXPECT_THAT(refusal_of(std::string(kMaxBrokerMessage + 1, ' ')).message, HasSubstr("longer than 4096"));
}

TEST_F(BadClient, DescriptorsAreRefusedAndNotKept) {
  ASSERT_TRUE(test::wait_until_at_rest(*broker_));
  const auto before = test::count_process_resources();
  for (const std::size_t descriptors : {1u, 8u}) {
    const auto socket = connect();
    const std::vector<int> sent(descriptors, socket.get());
    ASSERT_TRUE(send_message(socket.get(), encode(DescribeRequest{}), sent));
    EXPECT_TRUE(std::holds_alternative<ErrorInfo>(value_or_throw(parse_broker_reply(answer(socket).text))));
  }
  EXPECT_EQ(value_or_throw(describe_card(broker_->folder().string())).functions[1].use, FunctionUse::Free);
  ASSERT_TRUE(test::wait_until_at_rest(*broker_));
  EXPECT_EQ(test::left_over(before), "");
}

TEST_F(BadClient, ClientThatClosesAtOnceCostsNothing) {
  for (int i = 0; i < 100; ++i) (void)connect();
  // Also when it has said what it wants, and does not wait for it.
  const auto retired = value_or_throw(describe_card(broker_->folder().string())).retirements.count;
  const auto socket = connect();
  ASSERT_TRUE(send_message(socket.get(), encode(DescribeRequest{})));
  EXPECT_EQ(value_or_throw(describe_card(broker_->folder().string())).retirements.count, retired);
}

TEST_F(BadClient, SilentClientIsSentAway) {
  const auto socket = connect();
  const auto reply = value_or_throw(parse_broker_reply(answer(socket).text));
  EXPECT_TRUE(std::holds_alternative<Late>(reply));
  EXPECT_EQ(answer(socket).kind, Received::Kind::End);
}

TEST_F(BadClient, ClientsThatNeverReadDoNotBlockTheOthers) {
  std::vector<UniqueFd> masked;
  for (int i = 0; i < 20; ++i) {
    masked.push_back(connect());
    ASSERT_TRUE(send_message(masked.back().get(), encode(DescribeRequest{})));
  }
  EXPECT_TRUE(describe_card(broker_->folder().string()));
}

TEST_F(BadClient, TooManySilentClientsAreRefusedAndTheirPlacesComeBack) {
  std::vector<UniqueFd> silent(kMaxWaitingClients);
  for (UniqueFd& client : silent) client = connect();
  const auto one_more = connect();
  EXPECT_THAT(std::get<ErrorInfo>(value_or_throw(parse_broker_reply(answer(one_more).text))).message,
              HasSubstr("already"));
  for (const auto& socket : silent) EXPECT_EQ(answer(socket).kind, Received::Kind::Message);
  EXPECT_TRUE(describe_card(broker_->folder().string()));
}

TEST_F(BadClient, OwnerThatTalksLosesItsFunction) {
  const auto socket = connect();
  ASSERT_TRUE(send_message(socket.get(), encode(HelloRequest{wire::kAbiVersion, FunctionChoice::any_virtual()})));
  const Received granted = answer(socket);
  ASSERT_EQ(granted.descriptors.size(), kGrantDescriptors);
  ASSERT_TRUE(std::holds_alternative<Grant>(value_or_throw(parse_broker_reply(granted.text))));
  ASSERT_TRUE(send_message(socket.get(), "more"));
  EXPECT_EQ(answer(socket).kind, Received::Kind::End);
  EXPECT_TRUE(attach(broker_->folder().string(), FunctionChoice::any_virtual()));
}

}  // namespace
}  // namespace svp
