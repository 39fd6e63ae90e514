// SPDX-License-Identifier: Apache-2.0
// A reset level that fails gives way to the next, within its budget; the escalation ends at "wedged", which fails at
// once.
#include <csignal>

#include "host_driver/base/timeouts.hpp"
#include "tests/bounds.hpp"
#include "tests/device/recovery/recovery_support.hpp"

namespace svp {
namespace {

using namespace std::chrono_literals;
using test::Owner;
using testing::HasSubstr;

std::shared_ptr<Card> boot_with(Timeouts timeouts, unsigned wedge_deaths = 100) {
  auto options = test::small_card();
  options.timeouts = timeouts;
  options.timeouts.wedge_deaths = wedge_deaths;
  return svp::value_or_throw(Card::boot(std::move(options)));
}

// Budgets that end after the test: what waits for one of them hangs until the test's own time-out ends it.
std::shared_ptr<Card> boot_patient(unsigned wedge_deaths = 100) {
  Timeouts timeouts;
  timeouts.admin = timeouts.queue_reset = timeouts.function_reset = timeouts.restart_silence = std::chrono::hours{24};
  return boot_with(timeouts, wedge_deaths);
}

// What an error of a call says, or nothing when there was none.
template <typename Call>
std::string refusal_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.info().message;
  }
  return {};
}

std::vector<ResetLevel> levels_of(const RecoveryReport& report) {
  std::vector<ResetLevel> levels;
  levels.reserve(report.attempts.size());
  for (const auto& attempt : report.attempts) levels.push_back(attempt.level);
  return levels;
}

// Everything stands still, and only a new emulator helps (F25, and F16 as seen from outside).
TEST(Escalation, ACardThatStandsStillIsEscalatedToThePowerCycle) {
  const auto card = boot_with({});
  Owner owner(card, 1);
  const Job empty = owner.kernel("empty");
  const Job spin = owner.kernel("spin");
  owner.stream().Launch(spin, {}, {.budget_slices = 5});
  EXPECT_THROW(owner.stream().Synchronize(test::in_time()), StreamError);
  ASSERT_TRUE(card->machine().stop());
  const RecoveryReport report = owner.context().recover();
  EXPECT_THAT(levels_of(report), testing::ElementsAre(ResetLevel::Stream, ResetLevel::Queue, ResetLevel::Function,
                                                      ResetLevel::Firmware, ResetLevel::Card, ResetLevel::PowerCycle));
  for (std::size_t i = 0; i + 1 < report.attempts.size(); ++i) {
    ASSERT_TRUE(report.attempts[i].error);
    EXPECT_FALSE(report.attempts[i].error->next_step.empty());
  }
  EXPECT_EQ(card->boots(), 2u);
  owner.expect_works();
}

// Nothing has failed yet: what is under way just does not end, on a card that does not beat.
TEST(Escalation, ASilentCardIsBroughtBackThoughNoStreamHasFailed) {
  const auto card = boot_with({});
  Owner owner(card, 1);
  owner.start_endless_work();
  ASSERT_TRUE(card->machine().stop());
  Device& device = owner.context().device();
  const auto silent = [&] { return device.health() == Health::Silent; };
  ASSERT_EQ(device.wait_until(silent, test::in_time()), WaitStatus::Done);
  const RecoveryReport report = owner.context().recover();
  EXPECT_EQ(report.attempts.front().level, ResetLevel::Queue) << "no stream is to blame";
  EXPECT_EQ(report.level(), ResetLevel::PowerCycle);
  EXPECT_GE(report.aborted + report.lost, 1u);
  owner.expect_works();
}

TEST(Escalation, AKilledEmulatorIsReplacedWithoutWaitingForBudgets) {
  const auto card = boot_patient();
  Owner owner(card, 0), other(card, 1);
  owner.start_endless_work();
  ASSERT_EQ(::kill(card->machine().pid(), SIGKILL), 0);
  try {
    owner.stream().Synchronize(test::in_time());
    ADD_FAILURE();
  } catch (const StreamError& error) {
    EXPECT_THAT(error.info().outcome, testing::AnyOf(wire::Outcome::Lost, wire::Outcome::Indeterminate));
  }
  const RecoveryReport report = owner.context().recover();
  EXPECT_EQ(report.attempts.front().level, ResetLevel::Function);
  EXPECT_EQ(report.level(), ResetLevel::PowerCycle);
  EXPECT_EQ(other.context().recover().level(), ResetLevel::Function) << "the card was brought back already";
  EXPECT_EQ(card->boots(), 2u);
  owner.expect_works();
  other.expect_works();
}

TEST(Escalation, ALimitIsKeptAndTheErrorSaysWhatIsLeft) {
  const auto card = boot_with({});
  Owner owner(card, 1, {.highest = ResetLevel::Function});
  const Job empty = owner.kernel("empty");
  ASSERT_TRUE(card->machine().stop());
  std::optional<ErrorInfo> told;
  try {
    owner.context().recover(ResetLevel::Queue);
  } catch (const Error& error) {
    told = error.info();
  }
  ASSERT_TRUE(told);
  EXPECT_THAT(told->message, HasSubstr("queue reset failed"));
  EXPECT_THAT(told->message, HasSubstr("function reset failed"));
  EXPECT_THAT(told->next_step, HasSubstr("firmware restart"));
  EXPECT_TRUE(told->recoverable);
  // At once from now on, until somebody recovers.
  // The card stands still: whoever asked it would be told that it does not answer.
  EXPECT_THAT(refusal_of([&] { owner.stream().Launch(empty, {}); }), HasSubstr(told->message));
  EXPECT_THAT(refusal_of([&] { owner.runtime().allocator().allocate(1); }), HasSubstr("its recovery failed"));
  ASSERT_TRUE(card->machine().cont());
  EXPECT_EQ(owner.context().recover().level(), ResetLevel::Function);
  owner.expect_works();
}

TEST(Escalation, ACardThatKeepsDyingIsWedgedAndEveryCallFailsAtOnce) {
  const auto card = boot_patient(3);
  Owner owner(card, 0), other(card, 1);
  for (int death = 0; death < 2; ++death) {
    ASSERT_EQ(::kill(card->machine().pid(), SIGKILL), 0);
    ASSERT_TRUE(card->machine().wait_exit(test_bounds::kPlayedEmulator));
    EXPECT_EQ(owner.context().recover().level(), ResetLevel::PowerCycle);
    owner.expect_works();
  }
  ASSERT_EQ(::kill(card->machine().pid(), SIGKILL), 0);
  ASSERT_TRUE(card->machine().wait_exit(test_bounds::kPlayedEmulator));
  for (Owner* each : {&owner, &other}) {
    try {
      each->context().recover();
      ADD_FAILURE() << "a wedged card was brought back";
    } catch (const Error& error) {
      EXPECT_THAT(error.info().message, HasSubstr("is wedged: it died 3 times"));
      EXPECT_FALSE(error.info().recoverable);
      EXPECT_THAT(error.info().next_step, HasSubstr("start a new card"));
    }
    EXPECT_THROW(each->stream().Launch(Job::fill(AllocationIndex::Null, 128, 0), {}), Error);
  }
  const auto refused = card->open_virtual(2);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("wedged"));
  EXPECT_FALSE(card->power_cycle());
}

}  // namespace
}  // namespace svp
