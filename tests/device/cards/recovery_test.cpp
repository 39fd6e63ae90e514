// SPDX-License-Identifier: Apache-2.0
// Reset escalation on a long-lived card: its broker finds out that the card began another boot, escalates when M gets
// no answer (F25, F26), and ends at "wedged"; owners in the meantime keep their functions and come back with one call.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/discovery/attached_source.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/device/cards/cards_support.hpp"

namespace svp {
namespace {

using test::ServedCard;
using testing::HasSubstr;

FlexStream::Clock::time_point in_time() { return FlexStream::Clock::now() + test_bounds::kCompute; }

// A tenant in this process with memory on the card.
class Owner {
 public:
  Owner(const std::string& folder, const FunctionChoice& choice) {
    auto attached = value_or_throw(attach(folder, choice));
    auto source = source_of(attached, folder, {});
    RuntimeOptions options;
    options.allocator.region_bytes = {256 * wire::kMiB};
    runtime_ = std::make_unique<Runtime>(std::move(attached.device), options, std::move(source));
  }
  Runtime& runtime() { return *runtime_; }
  void leave_pattern() {
    memory_ = runtime_->allocator().allocate(kBytes);
    run(Job::fill(memory_, kBytes, 0x1122334455667788));
  }
  void expect_pattern() {
    std::vector<std::uint64_t> back(kBytes / 8);
    run(Job::from_device(back.data(), memory_, kBytes));
    EXPECT_TRUE(std::ranges::all_of(back, [](std::uint64_t word) { return word == 0x1122334455667788; }));
  }
  void expect_works() {
    const auto memory = runtime_->allocator().allocate(kBytes);
    std::vector<std::byte> there(kBytes, std::byte{0x3c}), back(kBytes);
    run(Job::to_device(there.data(), memory, kBytes));
    run(Job::from_device(back.data(), memory, kBytes));
    EXPECT_TRUE(there == back);
    runtime_->allocator().deallocate(memory);
  }

 private:
  static constexpr std::uint64_t kBytes = 1 * wire::kMiB;
  void run(const Job& job) {
    runtime_->default_stream().Launch(job, {});
    runtime_->default_stream().Synchronize(in_time());
  }
  std::unique_ptr<Runtime> runtime_;
  AllocationIndex memory_ = AllocationIndex::Null;
};

// The emulator's own monitor behind the broker's back: what it does to the card nobody has ordered.
class Monitor {
  static constexpr int kTimeout = std::chrono::milliseconds(test_bounds::kConnection).count();

 public:
  explicit Monitor(const std::filesystem::path& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.string().copy(address.sun_path, sizeof address.sun_path - 1);
    const auto* name = reinterpret_cast<const sockaddr*>(&address);
    connected_ = ::connect(socket_.get(), name, sizeof address) == 0;  // bounded: the emulator listens already
  }
  bool connected() const { return connected_; }
  // A packet of the debugger's protocol; true when it was answered OK. Answers are acknowledged with the next packet
  // only: a byte to a machine that runs would stop it.
  bool send(const std::string& packet) {
    unsigned sum = 0;
    for (const char c : packet) sum += static_cast<unsigned char>(c);
    char tail[4];
    std::snprintf(tail, sizeof tail, "#%02x", sum & 0xff);
    const std::string text = "+$" + packet + tail;
    if (::write(socket_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return false;
    std::string received;
    pollfd ready{socket_.get(), POLLIN, 0};
    while (received.find("$OK#") == std::string::npos && ::poll(&ready, 1, kTimeout) > 0) {
      char bytes[256];
      const ssize_t count = ::read(socket_.get(), bytes, sizeof bytes);  // bounded: poll() said that there is something
      if (count <= 0) return false;
      received.append(bytes, static_cast<std::size_t>(count));
    }
    return received.find("$OK#") != std::string::npos;
  }
  bool command(std::string_view line) {
    std::string packet = "qRcmd,";
    for (const char c : line) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
      packet += digits;
    }
    return send(packet);
  }

 private:
  UniqueFd socket_;
  bool connected_ = false;
};

std::unique_ptr<Broker> start_broker(const std::filesystem::path& folder, unsigned wedge_deaths = 100) {
  auto options = test::small_broker(folder, "card0");
  options.card.timeouts.wedge_deaths = wedge_deaths;
  return value_or_throw(Broker::start(std::move(options)));
}

TEST(CardRecovery, OwnersKeepTheirFunctionsThroughACardResetAndComeBackWithOneCall) {
  const test::NothingIsLeft nothing;
  ServedCard card;
  Owner first(card.folder(), FunctionChoice::virtual_function(1));
  Owner second(card.folder(), FunctionChoice::physical());
  ASSERT_TRUE(card.wait_until_at_rest());
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(value_or_throw(raise_card(card.folder(), ResetLevel::Card)), HasSubstr("card reset helped"));
    EXPECT_EQ(card.description().state, CardState::Running);
    for (Owner* owner : {&first, &second}) {
      EXPECT_EQ(owner->runtime().recover().level(), ResetLevel::Function);
      owner->expect_works();
    }
  }
  EXPECT_TRUE(card.wait_until_at_rest()) << "a plugged window was lost";
  EXPECT_EQ(card.function(wire::kTargetPhysical).serial, 0u) << "a window was changed";
  EXPECT_EQ(card.function(wire::kTargetPhysical).use, FunctionUse::Owned);
}

TEST(CardRecovery, ACardThatRestartsByItselfIsAttachedAgainByItsBroker) {
  ServedCard card;
  Owner owner(card.folder(), FunctionChoice::virtual_function(1));
  for (int restart = 0; restart < 3; ++restart) {
    {
      Monitor monitor(value_or_throw(offer_debugger(card.folder())));
      ASSERT_TRUE(monitor.connected());
      ASSERT_TRUE(monitor.command("system_reset"));
      ASSERT_TRUE(monitor.command("cont"));  // it stood still for the debugger
    }
    ASSERT_TRUE(withdraw_debugger(card.folder()));
    // The owner sees it in its own window, whoever is first.
    const auto end = std::chrono::steady_clock::now() + test_bounds::kWork;
    do {
      owner.runtime().device().check();
      std::this_thread::yield();
    } while (owner.runtime().device().health() != Health::NeedsReset && std::chrono::steady_clock::now() < end);
    EXPECT_EQ(owner.runtime().recover().level(), ResetLevel::Function);
    owner.expect_works();
    // M works again: a function is handed out, and taken back when its owner goes.
    {
      Owner other(card.folder(), FunctionChoice::physical());
      other.expect_works();
    }
    ASSERT_TRUE(card.wait_until([](const CardDescription& now) {
      return now.state == CardState::Running && now.functions.front().use == FunctionUse::Free;
    })) << to_json(card.description());
  }
  EXPECT_EQ(card.description().power_cycles, 0u);
  EXPECT_EQ(card.description().retirements.count, 3u) << "one for each owner of the PF that has gone, no more";
  EXPECT_TRUE(card.wait_until_at_rest()) << "a plugged window was lost";
}

TEST(CardRecovery, AFirmwareRestartIsAskedForThroughMAndFollowedByTheCardResetWhenItDoesNotHelp) {
  ServedCard card;
  Owner owner(card.folder(), FunctionChoice::virtual_function(1));
  const std::string how = value_or_throw(raise_card(card.folder(), ResetLevel::Firmware));
  EXPECT_THAT(how, testing::AnyOf(HasSubstr("firmware restart helped"), HasSubstr("card reset helped")));
  EXPECT_EQ(owner.runtime().recover().level(), ResetLevel::Function);
  owner.expect_works();
}

TEST(CardRecovery, AfterAPowerCycleARuntimeAsksTheBrokerForItsFunctionAgain) {
  const test::NothingIsLeft nothing;
  ServedCard card;
  Owner first(card.folder(), FunctionChoice::virtual_function(2));
  Owner second(card.folder(), FunctionChoice::physical());
  value_or_throw(power_cycle_card(card.folder()));
  for (Owner* owner : {&first, &second}) {
    EXPECT_EQ(owner->runtime().recover().level(), ResetLevel::Function);
    owner->expect_works();
  }
  EXPECT_EQ(card.function(wire::target_of_virtual(2)).use, FunctionUse::Owned);
}

TEST(CardRecovery, AResetOfOneFunctionLeavesTheOthersAlone) {
  ServedCard card;
  Owner source(card.folder(), FunctionChoice::virtual_function(1));
  Owner bystander(card.folder(), FunctionChoice::virtual_function(2));
  bystander.leave_pattern();
  for (int round = 0; round < 5; ++round) {
    EXPECT_THAT(value_or_throw(reset_function(card.folder(), wire::target_of_virtual(1))),
                HasSubstr("function reset helped"));
    EXPECT_EQ(source.runtime().recover().level(), ResetLevel::Function);
    source.expect_works();
    bystander.expect_pattern();
  }
}

// F25, F26: a command to M that is not answered, on a card that nothing but a new emulator repairs.
TEST(CardRecovery, ACommandThatIsNotAnsweredIsFollowedByTheLevelsAboveIt) {
  const qemu::test::TemporaryFolder folder;
  const auto broker = start_broker(folder.path());
  const std::string card = broker->folder().string();
  Owner owner(card, FunctionChoice::virtual_function(1));
  const pid_t before = broker->description().emulator;
  ASSERT_TRUE(test::stop_process(before));
  const std::string how = value_or_throw(reset_function(card, wire::target_of_virtual(1)));
  EXPECT_THAT(how, HasSubstr("function reset failed"));
  EXPECT_THAT(how, HasSubstr("firmware restart failed"));
  EXPECT_THAT(how, HasSubstr("card reset failed"));
  EXPECT_THAT(how, HasSubstr("power cycle helped"));
  EXPECT_NE(broker->description().emulator, before);
  EXPECT_EQ(broker->description().state, CardState::Running);
  EXPECT_EQ(owner.runtime().recover().level(), ResetLevel::Function);
  owner.expect_works();
}

TEST(CardRecovery, AnOwnerThatEndsWhileItsCardIsResetLeavesAFunctionThatCanBeTaken) {
  ServedCard card(2, 60);
  for (int round = 0; round < 10; ++round) {
    auto first = std::make_unique<Owner>(card.folder(), FunctionChoice::virtual_function(1));
    auto second = std::make_unique<Owner>(card.folder(), FunctionChoice::physical());
    std::thread resets([&] { EXPECT_TRUE(raise_card(card.folder(), ResetLevel::Card)); });
    std::thread ends([&] { first.reset(); });
    second.reset();
    resets.join();  // bounded: a command to the broker, bounded by Timeouts::card_command
    ends.join();    // bounded: the end of a device is bounded by Timeouts::detach
    ASSERT_TRUE(card.wait_until([](const CardDescription& now) {
      return now.state == CardState::Running &&
             std::ranges::all_of(now.functions, [](const auto& function) { return function.use == FunctionUse::Free; });
    })) << "round "
        << round;
  }
}

TEST(CardRecovery, ACardThatKeepsDyingIsWedgedSaysSoAndCanOnlyBeStopped) {
  const test::NothingIsLeft nothing;
  const qemu::test::TemporaryFolder folder;
  const auto broker = start_broker(folder.path(), 3);
  const std::string card = broker->folder().string();
  const auto dies_to = [&](CardState state) {
    EXPECT_EQ(::kill(broker->description().emulator, SIGKILL), 0);
    const auto end = std::chrono::steady_clock::now() + test_bounds::kWork;
    while (broker->description().state != state && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return broker->description().state == state;
  };
  for (int death = 0; death < 2; ++death) {
    ASSERT_TRUE(dies_to(CardState::Dead));
    value_or_throw(power_cycle_card(card));
  }
  ASSERT_TRUE(dies_to(CardState::Wedged));
  EXPECT_THAT(broker->description().state_reason, HasSubstr("it died 3 times"));
  const auto refused = attach(card, FunctionChoice::physical());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("is wedged"));
  EXPECT_FALSE(refused.error().recoverable);
  EXPECT_FALSE(power_cycle_card(card));
  EXPECT_FALSE(raise_card(card, ResetLevel::Card));
  EXPECT_TRUE(stop_card(card));
}

}  // namespace
}  // namespace svp
