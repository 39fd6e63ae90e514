// SPDX-License-Identifier: Apache-2.0
// Who may do what to a long-lived card: tenants take functions and reset their own, everything else is for the user
// whose card it is. Tenants of another user, and in user and pid namespaces of their own, as docs/isolation.md
// recommends them.
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "host_driver/discovery/broker_message.hpp"
#include "host_driver/discovery/local_socket.hpp"
#include "shared/version.hpp"
#include "tests/bounds.hpp"
#include "tests/device/cards/cards_support.hpp"

namespace svp {
namespace {

using test::HelperProcess;
using test::Tenant;
using testing::HasSubstr;
using testing::StartsWith;

constexpr gid_t kGroup = 54321;
constexpr const char* kOtherUser = "54322";

// One request on a socket of its own; the reply.
BrokerReply ask(const Broker& broker, const char* socket_name, const BrokerRequest& request) {
  const UniqueFd folder{::open(broker.folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  auto socket = connect_in(folder.get(), socket_name, test_bounds::kConnection);
  if (!socket) throw std::runtime_error(socket.error().reason);
  EXPECT_TRUE(send_message(socket->get(), encode(request)));
  pollfd event{socket->get(), POLLIN, 0};
  (void)::poll(&event, 1, test_bounds::in_milliseconds(test_bounds::kWork));
  return value_or_throw(parse_broker_reply(receive_message(socket->get(), kMaxBrokerMessage, 0).text));
}

std::string refusal_of(const BrokerReply& reply) {
  const auto* error = std::get_if<ErrorInfo>(&reply);
  return error == nullptr ? std::string("not refused") : error->message;
}

// Directly in /tmp: another user must be able to come so far, and a test run's own folder is closed to others.
class OpenFolder {
 public:
  OpenFolder() {
    if (::mkdtemp(name_) == nullptr) throw std::runtime_error("mkdtemp failed");
  }
  ~OpenFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(name_, ignored);
  }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;
  std::filesystem::path path() const { return name_; }

 private:
  char name_[32] = "/tmp/spyre-rights-XXXXXX";
};

class Rights : public testing::Test {
 protected:
  void SetUp() override { start(test::small_broker(runtime_folder_.path(), "card0", 2, 8)); }
  void start(BrokerOptions options) {
    broker_.reset();
    broker_ = value_or_throw(Broker::start(std::move(options)));
  }
  std::string folder() const { return broker_->folder().string(); }

  OpenFolder runtime_folder_;
  std::unique_ptr<Broker> broker_;
};

TEST_F(Rights, ATenantMayNotManage) {
  const BrokerRequest requests[] = {RaiseRequest{ResetLevel::Firmware},
                                    RaiseRequest{ResetLevel::Card},
                                    PowerCycleRequest{},
                                    StopRequest{},
                                    CollectRequest{"/tmp/never", false},
                                    DebugRequest{true}};
  const auto before = broker_->description();
  for (const auto& request : requests) {
    EXPECT_THAT(refusal_of(ask(*broker_, kSocketName, request)), HasSubstr("a tenant may not manage"))
        << encode(request);
  }
  const auto after = broker_->description();
  EXPECT_EQ(after.state, CardState::Running);
  EXPECT_EQ(after.emulator, before.emulator);
  EXPECT_EQ(after.power_cycles, 0u);
}

TEST_F(Rights, ATenantResetsItsOwnFunctionAndNoOther) {
  Tenant other(folder(), "VF1", "attach");
  const auto own = value_or_throw(attach(folder(), FunctionChoice::virtual_function(2)));
  EXPECT_TRUE(reset_own_function(folder(), own.target));
  for (const wire::Target target : {wire::kTargetPhysical, wire::target_of_virtual(1)}) {
    const auto refused = reset_own_function(folder(), target);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("is not owned by the process that asks"));
    EXPECT_TRUE(reset_function(folder(), target)) << "the card's user may";
  }
}

TEST_F(Rights, CommandsAreBoundedAndTheirPlacesComeBack) {
  auto options = test::small_broker(runtime_folder_.path(), "card1", 2, 8);
  options.card.timeouts.admin = test_bounds::kWork;  // the card is stopped for a while
  start(std::move(options));
  const pid_t emulator = broker_->description().emulator;
  ASSERT_TRUE(test::stop_process(emulator));
  const UniqueFd card{::open(folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  std::vector<UniqueFd> clients;
  unsigned refused = 0;
  for (unsigned i = 0; i < kMaxCommands + 4; ++i) {
    auto client = connect_in(card.get(), kManagementSocketName, test_bounds::kConnection);
    ASSERT_TRUE(client);
    clients.push_back(*std::move(client));
    ASSERT_TRUE(send_message(clients.back().get(), encode(BrokerRequest(ResetRequest{wire::kTargetPhysical}))));
  }
  for (unsigned i = kMaxCommands; i < clients.size(); ++i) {
    pollfd event{clients[i].get(), POLLIN, 0};
    (void)::poll(&event, 1, test_bounds::in_milliseconds(test_bounds::kWork));
    const auto reply = value_or_throw(parse_broker_reply(receive_message(clients[i].get(), kMaxBrokerMessage, 0).text));
    refused += refusal_of(reply).contains("commands are being carried out") ? 1 : 0;
  }
  EXPECT_EQ(refused, 4u);
  clients.clear();
  ASSERT_EQ(::kill(emulator, SIGCONT), 0);
  // What was begun ends, and its places are free again.
  const auto limit = std::chrono::steady_clock::now() + test_bounds::kWork;
  while (!reset_function(folder(), wire::kTargetPhysical) && std::chrono::steady_clock::now() < limit) {
  }
  EXPECT_TRUE(reset_function(folder(), wire::kTargetPhysical));
}

// A kernel before 6.5: the client proves who it is.
TEST_F(Rights, ClientsThatAreKnownByNumberProveThemselves) {
  auto options = test::small_broker(runtime_folder_.path(), "card1", 2, 8);
  options.peers_by_number = true;
  start(std::move(options));
  {
    Tenant tenant(folder(), "VF1", "compute");
    EXPECT_THAT(tenant.attached, StartsWith("attached VF1"));
    EXPECT_THAT(tenant.wait_for("computed"), StartsWith("computed"));
  }
  const auto described = describe_card(folder());
  EXPECT_TRUE(described) << described.error().message;
  // A request alone is not answered: the broker asks for the proof.
  const auto reply = ask(*broker_, kSocketName, DescribeRequest{});
  ASSERT_TRUE(std::holds_alternative<Prove>(reply));
}

TEST_F(Rights, AChildThatInheritedAConnectionCannotProveThatItIsThePeer) {
  auto options = test::small_broker(runtime_folder_.path(), "card1", 2, 8);
  options.peers_by_number = true;
  start(std::move(options));
  const UniqueFd card{::open(folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  auto socket = connect_in(card.get(), kSocketName, test_bounds::kConnection);
  ASSERT_TRUE(socket);
  const auto next_reply = [&] {
    pollfd event{socket->get(), POLLIN, 0};
    (void)::poll(&event, 1, test_bounds::in_milliseconds(test_bounds::kWork));
    return value_or_throw(parse_broker_reply(receive_message(socket->get(), kMaxBrokerMessage, 0).text));
  };
  const auto challenge = next_reply();
  ASSERT_TRUE(std::holds_alternative<Prove>(challenge));
  const std::string request = encode(BrokerRequest(DescribeRequest{}));
  const std::string proof = encode(BrokerRequest(ProofRequest{std::get<Prove>(challenge).nonce}));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(send_message(socket->get(), request) && send_message(socket->get(), proof) ? 0 : 1);
  const auto reply = next_reply();
  EXPECT_THAT(refusal_of(reply), HasSubstr("is not the process that connected"));
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);  // bounded: it sends two messages, without waiting, and leaves
}

class SharedCard : public Rights {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "another user's processes are started by root only";
    auto options = test::small_broker(runtime_folder_.path(), "card0", 2, 8);
    options.tenant_group = kGroup;
    start(std::move(options));
    // Another user may not be allowed to look into the build tree.
    std::filesystem::copy_file(SPYRE_TENANT, tenant_);
    ASSERT_EQ(::chmod(tenant_.c_str(), 0755), 0);
  }
  HelperProcess as(const char* user, gid_t group, const std::string& command) const {
    return {"/usr/bin/setpriv",
            {"--reuid", user, "--regid", std::to_string(group), "--clear-groups", tenant_.string(), folder(), "VF1",
             command}};
  }

  const std::filesystem::path tenant_ = runtime_folder_.path() / "tenant";
};

TEST_F(SharedCard, AnotherUserInTheGroupTakesAFunctionAndUsesIt) {
  auto tenant = as(kOtherUser, kGroup, "look");
  EXPECT_THAT(tenant.read_line(), StartsWith("attached VF1"));
  EXPECT_EQ(tenant.read_line(), "clean");
  EXPECT_EQ(tenant.wait_exit(), 0);
}

TEST_F(SharedCard, AnotherUserOutsideOfTheGroupGetsNothing) {
  auto other = as(kOtherUser, kGroup + 5, "attach");
  EXPECT_THAT(other.wait_exit(), testing::AnyOf(testing::Optional(3), testing::Optional(126), testing::Optional(127)));
  EXPECT_EQ(broker_->description().functions.at(1).use, FunctionUse::Free);
}

TEST_F(SharedCard, AnotherUserInTheGroupMayNotConnectToTheManagementSocket) {
  struct stat info{};
  ASSERT_EQ(::stat((broker_->folder() / kManagementSocketName).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(info.st_uid, ::geteuid());
  HelperProcess reader("/usr/bin/setpriv", {"--reuid", kOtherUser, "--regid", std::to_string(kGroup), "--clear-groups",
                                            "/bin/sh", "-c", "test -w " + folder() + "/" + kManagementSocketName});
  EXPECT_EQ(reader.wait_exit(), 1);
  HelperProcess writer("/usr/bin/setpriv", {"--reuid", kOtherUser, "--regid", std::to_string(kGroup), "--clear-groups",
                                            "/bin/sh", "-c", "test -w " + folder() + "/" + kSocketName});
  EXPECT_EQ(writer.wait_exit(), 0);
}

// As in a container without a user of its own on the machine.
TEST_F(Rights, ATenantInUserAndPidNamespacesOfItsOwnIsNoticedWhenItEnds) {
  HelperProcess probe("/usr/bin/unshare", {"--user", "--map-root-user", "--pid", "--fork", "/bin/true"});
  if (probe.wait_exit() != 0) GTEST_SKIP() << "this machine does not let this user make namespaces";
  HelperProcess tenant("/usr/bin/unshare", {"--user", "--map-root-user", "--pid", "--fork", "--kill-child",
                                            SPYRE_TENANT, folder(), "VF1", "attach"});
  EXPECT_THAT(tenant.read_line(), StartsWith("attached VF1"));
  const auto owned = broker_->description().functions.at(1);
  EXPECT_EQ(owned.use, FunctionUse::Owned);
  EXPECT_NE(owned.owner, 0) << "its number in the broker's namespace";
  tenant.kill();
  const auto limit = std::chrono::steady_clock::now() + test_bounds::kWork;
  while (broker_->description().functions.at(1).use != FunctionUse::Free && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_EQ(broker_->description().functions.at(1).use, FunctionUse::Free);
}

}  // namespace
}  // namespace svp
