// SPDX-License-Identifier: Apache-2.0
// Long-lived cards end: told to, power-cycled, by the emulator's death, by the broker's. Owners are told each time.
#include <csignal>

#include "tests/device/cards/cards_support.hpp"

namespace svp {
namespace {

using namespace std::chrono_literals;
using test::ServedCard;
using test::Tenant;
using testing::HasSubstr;

std::string failure_of(const AttachedFunction& function) {
  EXPECT_EQ(function.device->wait_until([] { return false; }, test::soon()), WaitStatus::Failed);
  const auto failure = function.device->failure();
  return failure ? describe(*failure) : "no failure";
}

TEST(CardEnd, StoppedByAClientLeavesNothing) {
  const test::NothingIsLeft nothing;
  ServedCard card;
  const std::string folder = card.folder();
  auto owner = value_or_throw(attach(folder, FunctionChoice::physical()));
  ASSERT_TRUE(stop_card(folder));
  EXPECT_EQ(card.broker().run_until(-1), Broker::Ended::ByClient);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EQ(card.description().emulator, 0);
  EXPECT_THAT(failure_of(owner), HasSubstr("as it was stopped"));
  const auto refused = attach(folder, FunctionChoice::physical());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().source, "card0");
  owner.device.reset();
}

TEST(CardEnd, EmulatorThatDiesIsReportedAndAPowerCycleHelps) {
  const test::NothingIsLeft nothing;
  ServedCard card;
  auto owner = value_or_throw(attach(card.folder(), FunctionChoice::virtual_function(1)));
  ASSERT_EQ(::kill(card.description().emulator, SIGKILL), 0);
  EXPECT_THAT(failure_of(owner), HasSubstr("signal 9 (Killed)"));
  ASSERT_TRUE(card.wait_until([](const auto& now) { return now.state == CardState::Dead; }));
  const auto refused = attach(card.folder(), FunctionChoice::physical());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("is dead: signal 9 (Killed)"));
  EXPECT_THAT(refused.error().next_step, HasSubstr("power-cycle"));

  ASSERT_TRUE(power_cycle_card(card.folder()));
  EXPECT_EQ(card.description().state, CardState::Running);
  EXPECT_EQ(card.description().power_cycles, 1u);
  auto next = value_or_throw(attach(card.folder(), FunctionChoice::virtual_function(1)));
  EXPECT_TRUE(next.device->card_statistics());
  owner.device.reset();
  next.device.reset();
}

TEST(CardEnd, OwnersLoseTheirFunctionsInAPowerCycleAndMayComeBack) {
  ServedCard card;
  auto owner = value_or_throw(attach(card.folder(), FunctionChoice::physical()));
  ASSERT_TRUE(power_cycle_card(card.folder()));
  EXPECT_THAT(failure_of(owner), HasSubstr("for a power cycle"));
  auto again = value_or_throw(attach(card.folder(), FunctionChoice::physical()));
  EXPECT_TRUE(again.device->card_statistics());
  // The end of an owner of the card's last boot is nobody's business in this one.
  owner.device.reset();
  EXPECT_EQ(value_or_throw(describe_card(card.folder())).retirements.count, 0u);
  EXPECT_TRUE(again.device->card_statistics());
}

TEST(CardEnd, PowerCycleThatFailsCanBeTriedAgain) {
  const qemu::test::TemporaryFolder folder;
  const auto firmware = folder.path() / "firmware.elf";
  std::filesystem::copy_file(value_or_throw(find_firmware()), firmware);
  auto options = test::small_broker(folder.path() / "run", "card0");
  options.card.firmware = firmware;
  const auto broker = value_or_throw(Broker::start(std::move(options)));
  const std::string card = broker->folder().string();
  std::filesystem::rename(firmware, folder.path() / "away");
  EXPECT_FALSE(power_cycle_card(card));
  EXPECT_EQ(broker->description().state, CardState::Dead);
  const auto refused = attach(card, FunctionChoice::physical());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("it did not boot again"));
  std::filesystem::rename(folder.path() / "away", firmware);
  EXPECT_TRUE(power_cycle_card(card));
  EXPECT_TRUE(attach(card, FunctionChoice::physical()));
}

TEST(CardEnd, CardThatSleptIsACardAllTheSame) {
  ServedCard card;
  auto owner = value_or_throw(attach(card.folder(), FunctionChoice::physical()));
  ASSERT_TRUE(test::stop_process(card.description().emulator));
  Timeouts timeouts;
  timeouts.attach = 200ms;         // reached: the emulator is stopped
  timeouts.post_progress = 200ms;  // reached: for the same reason
  EXPECT_FALSE(attach(card.folder(), FunctionChoice::virtual_function(1), {}, timeouts));
  ASSERT_EQ(::kill(card.description().emulator, SIGCONT), 0);
  EXPECT_TRUE(attach(card.folder(), FunctionChoice::virtual_function(1)));
  EXPECT_TRUE(owner.device->card_statistics());
}

TEST(CardEnd, TwoCardsDoNotKnowOfEachOther) {
  const qemu::test::TemporaryFolder runtime_folder;
  const auto left = value_or_throw(Broker::start(test::small_broker(runtime_folder.path(), "left", 1, 2)));
  const auto right = value_or_throw(Broker::start(test::small_broker(runtime_folder.path(), "right", 1, 2)));
  EXPECT_EQ(value_or_throw(value_or_throw(RuntimeFolder::open(runtime_folder.path())).cards()).size(), 2u);
  Tenant on_left(left->folder().string(), "PF", "compute");
  Tenant on_right(right->folder().string(), "PF", "compute");
  EXPECT_EQ(on_right.wait_for("working"), "working");
  right->stop();
  EXPECT_EQ(on_left.wait_for("computed"), "computed 50 rounds");
  EXPECT_EQ(value_or_throw(value_or_throw(RuntimeFolder::open(runtime_folder.path())).cards()).size(), 1u);
}

// ---- the broker is a process of its own -----------------------------------------------------------------------------

class BrokerProcess : public testing::Test {
 protected:
  void SetUp() override {
    const std::string line = broker_.wait_for("emulator");
    ASSERT_FALSE(line.empty());
    emulator_ = std::stoi(line.substr(9));
  }
  std::string folder() const { return (runtime_folder_.path() / "card0").string(); }

  qemu::test::TemporaryFolder runtime_folder_;
  test::HelperProcess broker_{SPYRE_CARD_PROCESS, {runtime_folder_.path().string(), "card0"}};
  pid_t emulator_ = 0;
};

TEST_F(BrokerProcess, KilledBrokerTakesTheEmulatorAlongAndOwnersAreTold) {
  Tenant owner(folder(), "PF", "until-card-ends");
  Tenant other(folder(), "VF", "until-card-ends");
  ASSERT_EQ(owner.wait_for("working"), "working");
  ASSERT_EQ(other.wait_for("working"), "working");
  const std::string broker = std::to_string(broker_.pid());
  broker_.kill();
  for (Tenant* tenant : {&owner, &other}) {
    const std::string failure = tenant->wait_for("failed");
    EXPECT_THAT(failure, HasSubstr("its broker (pid " + broker + ") ended"));
    EXPECT_THAT(failure, HasSubstr("LOST"));
    EXPECT_EQ(tenant->wait_exit(), 0);
  }
  EXPECT_TRUE(qemu::test::wait_for_end(emulator_, test::kBound));

  const auto refused = attach(folder(), FunctionChoice::physical());
  ASSERT_FALSE(refused);
  // The kernel may let go of a dead process's listener a moment after the process.
  EXPECT_THAT(refused.error().message, testing::AnyOf(HasSubstr("nobody serves the card card0 any more"),
                                                      HasSubstr("ended before it answered")));
  const auto runtime = value_or_throw(RuntimeFolder::open(runtime_folder_.path()));
  EXPECT_TRUE(value_or_throw(runtime.cards()).empty());
  EXPECT_FALSE(std::filesystem::exists(folder())) << "stale folders are removed by whoever lists";
}

TEST_F(BrokerProcess, EndsWithoutATraceOnSigterm) {
  Tenant owner(folder(), "PF", "until-card-ends");
  ASSERT_EQ(owner.wait_for("working"), "working");
  broker_.signal(SIGTERM);
  EXPECT_EQ(broker_.wait_exit(), 0);
  EXPECT_THAT(owner.wait_for("failed"), HasSubstr("as it was stopped"));
  EXPECT_FALSE(qemu::test::is_alive(emulator_));
  EXPECT_FALSE(std::filesystem::exists(folder()));
}

TEST_F(BrokerProcess, BrokerThatDoesNotAnswerIsATypedErrorInTime) {
  ASSERT_TRUE(test::stop_process(broker_.pid()));
  Timeouts timeouts;
  timeouts.attach = 200ms;  // reached: the broker is stopped
  const auto refused = attach(folder(), FunctionChoice::physical(), {}, timeouts);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("did not answer in time"));
  EXPECT_EQ(refused.error().outcome, wire::Outcome::Indeterminate);
  broker_.signal(SIGCONT);
}

}  // namespace
}  // namespace svp
