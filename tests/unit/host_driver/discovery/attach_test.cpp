// SPDX-License-Identifier: Apache-2.0
// The tenant's side against brokers that are not to be trusted: whatever they send is a typed error in time, and none
// of their descriptors stays.
#include "host_driver/discovery/attach.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/discovery/broker_message.hpp"
#include "host_driver/discovery/local_socket.hpp"
#include "host_driver/discovery/runtime_folder.hpp"
#include "tests/bounds.hpp"
#include "tests/support/process_resources.hpp"
#include "tests/unit/host_driver/discovery/example_card.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kWindow = 2ull << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

struct Pipe {
  UniqueFd read_end, write_end;
  explicit Pipe(int flags = O_NONBLOCK) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | flags) != 0) std::abort();
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
};

UniqueFd memory(std::uint64_t bytes, int seals = kSeals) {
  UniqueFd file{::memfd_create("test-window", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) std::abort();
  if (seals != 0 && ::fcntl(file.get(), F_ADD_SEALS, seals) != 0) std::abort();
  return file;
}

// Everything a good grant comes with; a test spoils one thing.
struct GoodGrant {
  Grant grant{"card0", wire::kTargetPhysical, 1, kWindow, 1, 1, 0};
  UniqueFd window = memory(kWindow);
  Pipe to_card, from_card, death;
  std::vector<int> descriptors() const {
    return {window.get(), to_card.write_end.get(), from_card.read_end.get(), death.read_end.get()};
  }
  void send(int socket) const { EXPECT_TRUE(send_message(socket, encode(BrokerReply(grant)), descriptors())); }
};

// A broker that does with each of its first clients what it is told, and keeps the connections until the end of the
// test.
class FakeBroker {
 public:
  using Deed = std::function<void(int socket, const std::string& request)>;

  FakeBroker(const std::filesystem::path& folder, Deed deed) : FakeBroker(folder, std::vector{std::move(deed)}) {}
  FakeBroker(const std::filesystem::path& folder, std::vector<Deed> deeds)
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        listener_(*listen_in(folder_.get(), kSocketName)) {
    thread_ = std::thread([this, deeds = std::move(deeds)] {
      for (const Deed& deed : deeds) serve_next(deed);
    });
  }
  ~FakeBroker() { thread_.join(); }  // bounded: it waits for clients and their requests, all bounded
  FakeBroker(const FakeBroker&) = delete;
  FakeBroker& operator=(const FakeBroker&) = delete;

 private:
  void serve_next(const Deed& deed) {
    pollfd event{listener_.get(), POLLIN, 0};
    if (::poll(&event, 1, test_bounds::in_milliseconds(test_bounds::kThread)) != 1) return;
    // bounded: poll() said that there is a client
    const int client = clients_.emplace_back(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)).get();
    pollfd received{client, POLLIN, 0};
    if (::poll(&received, 1, test_bounds::in_milliseconds(test_bounds::kThread)) != 1) return;
    deed(client, receive_message(client, kMaxBrokerMessage, 0).text);
  }

  UniqueFd folder_, listener_;
  std::vector<UniqueFd> clients_;
  std::thread thread_;
};

class Attach : public testing::Test {
 protected:
  std::filesystem::path folder() const { return temporary_.path() / "card0"; }
  void SetUp() override { ASSERT_EQ(::mkdir(folder().c_str(), 0700), 0); }

  // What attaching to a broker ends with that behaves like this.
  ErrorInfo error_of(FakeBroker::Deed deed, const Timeouts& timeouts = {}) const {
    const auto before = svp::test::count_own_resources().descriptors;
    ErrorInfo error;
    {
      const FakeBroker broker(folder(), std::move(deed));
      const auto attached = attach(folder().string(), FunctionChoice::physical(), {}, timeouts);
      EXPECT_FALSE(attached);
      if (!attached) error = attached.error();
    }
    std::filesystem::remove(folder() / kSocketName);
    EXPECT_EQ(svp::test::count_own_resources().descriptors, before);
    return error;
  }
  ErrorInfo error_of_grant(const std::function<void(GoodGrant&)>& spoil) const {
    GoodGrant good;
    spoil(good);
    Timeouts timeouts;
    timeouts.post_progress = test_bounds::kExpires;  // reached: no card has ever been behind a window of these grants
    return error_of([&](int socket, const std::string&) { good.send(socket); }, timeouts);
  }

  qemu::test::TemporaryFolder temporary_;
};

TEST_F(Attach, RequestSaysVersionAndFunction) {
  std::string received;
  (void)error_of([&](int socket, const std::string& request) {
    received = request;
    ::shutdown(socket, SHUT_RDWR);
  });
  const auto request = parse_broker_request(received);
  ASSERT_TRUE(request) << describe(request.error());
  EXPECT_EQ(std::get<HelloRequest>(*request).want, FunctionChoice::physical());
}

TEST_F(Attach, BrokerThatClosesEarlyIsLost) {
  const auto error = error_of([](int socket, const std::string&) { ::shutdown(socket, SHUT_RDWR); });
  EXPECT_THAT(error.message, HasSubstr("ended before it answered"));
  EXPECT_THAT(error.message, HasSubstr("pid " + std::to_string(::getpid())));
  EXPECT_EQ(error.outcome, wire::Outcome::Lost);
}

TEST_F(Attach, BrokerThatSaysNothingIsIndeterminateInTime) {
  Timeouts short_ones;
  short_ones.attach = test_bounds::kExpires;  // reached: the broker never answers
  const auto error = error_of([](int, const std::string&) {}, short_ones);
  EXPECT_THAT(error.message, HasSubstr("did not answer in time"));
  EXPECT_EQ(error.outcome, wire::Outcome::Indeterminate);
}

TEST_F(Attach, RefusalArrivesAsTheErrorThatTheBrokerMeant) {
  const ErrorInfo meant{Layer::Driver, "PF", wire::Outcome::Rejected, true, "wait", "PF is owned by pid 1234"};
  const auto error =
      error_of([&](int socket, const std::string&) { EXPECT_TRUE(send_message(socket, encode(BrokerReply(meant)))); });
  EXPECT_EQ(describe(error), describe(meant));
}

TEST_F(Attach, GarbageAndHalfMessagesNameWhatIsWrong) {
  const auto source = [&](const std::string& text) {
    return error_of([&](int socket, const std::string&) { EXPECT_TRUE(send_message(socket, text)); }).source;
  };
  EXPECT_EQ(source("garbage"), "reply");
  const std::string whole = encode(BrokerReply(GoodGrant().grant));
  EXPECT_EQ(source(whole.substr(0, whole.size() / 2)), "reply");
  EXPECT_EQ(source(R"({"type": "granted", "card": "card0"})"), "reply.target");
  EXPECT_EQ(source(encode(BrokerReply(Done{}))), "reply");
  EXPECT_EQ(source(encode(BrokerReply(test::example_card()))), "reply");
  EXPECT_EQ(source(std::string(kMaxBrokerMessage + 1, ' ')), "card0");
}

TEST_F(Attach, GrantWithTooFewOrTooManyDescriptorsIsRefused) {
  const GoodGrant good;
  const auto error_with = [&](std::vector<int> descriptors) {
    return error_of([&](int socket, const std::string&) {
      EXPECT_TRUE(send_message(socket, encode(BrokerReply(good.grant)), descriptors));
    });
  };
  EXPECT_THAT(error_with({}).message, HasSubstr("0 descriptors instead of 4"));
  EXPECT_THAT(error_with({good.window.get()}).message, HasSubstr("1 descriptors instead of 4"));
  auto five = good.descriptors();
  five.push_back(five.back());
  EXPECT_THAT(error_with(five).message, HasSubstr("too many descriptors"));
}

TEST_F(Attach, WindowThatIsNotWhatItShouldBeIsRefused) {
  EXPECT_EQ(error_of_grant([](GoodGrant& g) { g.window = memory(kWindow / 2); }).source, "window");
  EXPECT_EQ(error_of_grant([](GoodGrant& g) { g.window = memory(kWindow, 0); }).source, "window");
  EXPECT_EQ(error_of_grant([](GoodGrant& g) { g.window = memory(kWindow, F_SEAL_GROW | F_SEAL_SEAL); }).source,
            "window");
  EXPECT_EQ(error_of_grant([](GoodGrant& g) { g.window = Pipe().read_end.duplicate(); }).source, "window");
  EXPECT_EQ(error_of_grant([](GoodGrant& g) { g.window.reset(::open("/dev/zero", O_RDWR | O_CLOEXEC)); }).source,
            "window");
}

TEST_F(Attach, DoorbellsThatAreNotTheRightEndsOfPipesAreRefused) {
  EXPECT_EQ(error_of_grant([](GoodGrant& g) { std::swap(g.to_card.read_end, g.to_card.write_end); }).source,
            "doorbell to the card");
  EXPECT_EQ(error_of_grant([](GoodGrant& g) { g.to_card.write_end = memory(4096); }).source, "doorbell to the card");
  EXPECT_EQ(error_of_grant([](GoodGrant& g) { g.to_card = Pipe(0); }).source, "doorbell to the card")
      << "it would block";
  EXPECT_EQ(error_of_grant([](GoodGrant& g) { std::swap(g.from_card.read_end, g.from_card.write_end); }).source,
            "doorbell from the card");
  EXPECT_EQ(error_of_grant([](GoodGrant& g) { g.death.read_end = memory(4096); }).source, "death pipe");
}

TEST_F(Attach, GoodDescriptorsWithoutACardBehindThemAreABringUpError) {
  EXPECT_THAT(error_of_grant([](GoodGrant&) {}).message, HasSubstr("bring-up of slot 1 failed"));
}

TEST_F(Attach, CardThatEndsDuringBringUpIsLostAndTheConnectionClosed) {
  GoodGrant good;
  const auto error = error_of([&](int socket, const std::string&) {
    good.send(socket);
    EXPECT_EQ(::write(good.death.write_end.get(), "signal 9 (Killed)", 17), 17);
  });
  EXPECT_EQ(error.outcome, wire::Outcome::Lost);
}

// The card is named relative to a working directory that is removed while the broker answers.
TEST_F(Attach, AWorkingDirectoryThatGoesIsNoException) {
  const std::filesystem::path before = std::filesystem::current_path();
  const std::filesystem::path removed = temporary_.path() / "removed";
  ASSERT_TRUE(std::filesystem::create_directory(removed));
  std::filesystem::current_path(temporary_.path());
  GoodGrant good;
  Timeouts timeouts;
  timeouts.post_progress = test_bounds::kExpires;  // reached: no card has ever been behind the window of this grant
  {
    const FakeBroker broker(folder(), [&](int socket, const std::string&) {
      std::filesystem::current_path(removed);
      std::filesystem::remove(removed);
      good.send(socket);
    });
    const auto attached = attach("./card0", FunctionChoice::physical(), {}, timeouts);
    EXPECT_FALSE(attached);
    if (!attached) EXPECT_THAT(attached.error().message, HasSubstr("bring-up of slot 1 failed"));
  }
  std::error_code error;
  (void)std::filesystem::current_path(error);
  EXPECT_TRUE(error) << "the folder is there";
  std::filesystem::current_path(before);
}

TEST_F(Attach, NobodyListeningIsSaid) {
  {
    const FakeBroker gone(folder(), [](int, const std::string&) {});
    (void)describe_card(folder().string());
  }
  const auto refused = attach(folder().string(), FunctionChoice::physical());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("nobody serves the card card0 any more"));
}

TEST_F(Attach, FolderOfOthersIsNotTrusted) {
  for (const mode_t mode : {0755u, 0770u, 0720u, 0701u}) {
    ASSERT_EQ(::chmod(folder().c_str(), mode), 0);
    const auto refused = attach(folder().string(), FunctionChoice::physical());
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("others may change it")) << std::oct << mode;
  }
}

TEST_F(Attach, ABrokerThatAsksForAProofGetsIt) {
  std::optional<BrokerRequest> proof;
  const auto error = error_of([&](int socket, const std::string&) {
    EXPECT_TRUE(send_message(socket, encode(BrokerReply(Prove{0x123456789abcdef0}))));
    pollfd event{socket, POLLIN, 0};
    if (::poll(&event, 1, test_bounds::in_milliseconds(test_bounds::kThread)) != 1) return;
    if (const auto said = parse_broker_request(receive_message(socket, kMaxBrokerMessage, 0).text)) proof = *said;
    ErrorInfo enough;
    enough.source = "enough";
    EXPECT_TRUE(send_message(socket, encode(BrokerReply(enough))));
  });
  EXPECT_EQ(error.source, "enough");
  ASSERT_TRUE(proof);
  EXPECT_EQ(*proof, BrokerRequest(ProofRequest{0x123456789abcdef0}));
}

// The machine gave the client no time, or a debugger held it between its connection and its request.
TEST_F(Attach, ABrokerThatFindsItLateIsAskedAgain) {
  std::vector<std::string> asked;
  const auto late = [&](int socket, const std::string& request) {
    asked.push_back(request);
    EXPECT_TRUE(send_message(socket, encode(BrokerReply(Late{}))));
    ::shutdown(socket, SHUT_RDWR);
  };
  const auto enough = [&](int socket, const std::string& request) {
    asked.push_back(request);
    ErrorInfo error;
    error.source = "enough";
    EXPECT_TRUE(send_message(socket, encode(BrokerReply(error))));
  };
  {
    const FakeBroker broker(folder(), {late, late, enough});
    const auto attached = attach(folder().string(), FunctionChoice::physical());
    ASSERT_FALSE(attached);
    EXPECT_EQ(attached.error().source, "enough") << describe(attached.error());
  }
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[0], asked[2]);
}

TEST_F(Attach, FullQueueOfABrokerThatDoesNotAcceptIsAnErrorInTime) {
  const UniqueFd opened{::open(folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  const auto listener = listen_in(opened.get(), kSocketName);
  ASSERT_TRUE(listener);
  std::vector<UniqueFd> queued;
  for (;;) {  // bounded: ends when the listener's queue is full
    auto socket = connect_in(opened.get(), kSocketName, test_bounds::kExpires);
    if (!socket) break;
    queued.push_back(*std::move(socket));
    ASSERT_LT(queued.size(), 10'000u);
  }
  Timeouts short_ones;
  short_ones.attach = test_bounds::kExpires;  // reached: the queue stays full
  const auto refused = attach(folder().string(), FunctionChoice::physical(), {}, short_ones);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("cannot be reached"));
}

}  // namespace
}  // namespace svp
