// SPDX-License-Identifier: Apache-2.0
#include "host_driver/recovery/escalation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace svp {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using Clock = DeathCount::Clock;

ErrorInfo failure_of(ResetLevel level) {
  return {.layer = Layer::Firmware,
          .source = "reset level",
          .outcome = wire::Outcome::Indeterminate,
          .recoverable = false,
          .next_step = "start a new card",
          .message = "no luck with the " + std::string(name(level))};
}

// Which reset levels are tried when the first that helps is `helps`.
std::vector<ResetLevel> tried(ResetLevel from, ResetLevel highest, ResetLevel helps) {
  std::vector<ResetLevel> order;
  const auto report = escalate(from, highest, [&](ResetLevel level) -> Expected<void> {
    order.push_back(level);
    if (level == helps) return {};
    return std::unexpected(failure_of(level));
  });
  EXPECT_EQ(report.has_value(), helps >= from && helps <= highest && helps != ResetLevel::Wedged);
  if (report) {
    EXPECT_EQ(report->level(), helps);
    EXPECT_EQ(report->attempts.size(), order.size());
    EXPECT_FALSE(report->attempts.back().error);
  }
  return order;
}

TEST(Escalation, ALevelThatFailsGivesWayToTheNextAndTheFirstThatHelpsIsTheLast) {
  EXPECT_THAT(tried(ResetLevel::Stream, ResetLevel::PowerCycle, ResetLevel::Stream), ElementsAre(ResetLevel::Stream));
  EXPECT_THAT(tried(ResetLevel::Stream, ResetLevel::PowerCycle, ResetLevel::Firmware),
              ElementsAre(ResetLevel::Stream, ResetLevel::Queue, ResetLevel::Function, ResetLevel::Firmware));
  EXPECT_THAT(tried(ResetLevel::Function, ResetLevel::Card, ResetLevel::PowerCycle),
              ElementsAre(ResetLevel::Function, ResetLevel::Firmware, ResetLevel::Card));
  EXPECT_THAT(tried(ResetLevel::PowerCycle, ResetLevel::Wedged, ResetLevel::Wedged),
              ElementsAre(ResetLevel::PowerCycle));
}

TEST(Escalation, AEscalateThatFailsNamesEveryLevelAndWhatIsLeftToDo) {
  const auto fails = [](ResetLevel level) -> Expected<void> { return std::unexpected(failure_of(level)); };
  const auto low = escalate(ResetLevel::Queue, ResetLevel::Function, fails);
  ASSERT_FALSE(low);
  EXPECT_THAT(low.error().message, HasSubstr("no luck with the queue reset"));
  EXPECT_THAT(low.error().message, HasSubstr("no luck with the function reset"));
  EXPECT_THAT(low.error().next_step, HasSubstr("firmware restart"));
  EXPECT_TRUE(low.error().recoverable);
  EXPECT_EQ(low.error().outcome, wire::Outcome::Indeterminate);
  const auto high = escalate(ResetLevel::PowerCycle, ResetLevel::PowerCycle, fails);
  ASSERT_FALSE(high);
  EXPECT_FALSE(high.error().recoverable);
  EXPECT_EQ(high.error().next_step, "start a new card");
  const auto none = escalate(ResetLevel::Card, ResetLevel::Function, fails);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().source, "recovery");
}

TEST(Escalation, ARefusalBesideAnotherCommandEndsTheEscalate) {
  std::vector<ResetLevel> order;
  const auto report = escalate(ResetLevel::Stream, ResetLevel::PowerCycle, [&](ResetLevel level) -> Expected<void> {
    order.push_back(level);
    ErrorInfo error = failure_of(level);
    if (level == ResetLevel::Queue) {
      error.layer = Layer::Driver;
      error.status = wire::Status::Busy;
      error.recoverable = true;
      error.next_step = "wait for the other one";
    }
    return std::unexpected(std::move(error));
  });
  ASSERT_FALSE(report);
  EXPECT_THAT(order, ElementsAre(ResetLevel::Stream, ResetLevel::Queue));
  EXPECT_TRUE(report.error().recoverable);
  EXPECT_EQ(report.error().next_step, "wait for the other one");
  EXPECT_THAT(report.error().message, HasSubstr("no luck with the stream reset"));
}

TEST(Escalation, EveryLevelHasANameThatLeadsBackToIt) {
  for (unsigned i = 0; i < kLevels; ++i) {
    const auto level = static_cast<ResetLevel>(i);
    EXPECT_EQ(level_named(name(level)), level);
    EXPECT_GE(above(level), level);
  }
  EXPECT_EQ(above(ResetLevel::Wedged), ResetLevel::Wedged);
  EXPECT_FALSE(level_named("hammer"));
}

TEST(DeathCount, OnlyDeathsCloseTogetherWedgeACardAndThenForGood) {
  const auto start = Clock::now();
  DeathCount deaths(3, 10s);
  EXPECT_FALSE(deaths.note(start));
  EXPECT_FALSE(deaths.note(start + 6s));
  EXPECT_FALSE(deaths.note(start + 12s)) << "the first is forgotten";
  EXPECT_TRUE(deaths.note(start + 13s));
  EXPECT_TRUE(deaths.note(start + 1h));
  EXPECT_TRUE(deaths.wedged());
  const ErrorInfo error = wedged_error("card0", deaths);
  EXPECT_EQ(error.message, "card0 is wedged: it died 3 times in 10 s");
  EXPECT_FALSE(error.recoverable);
}

TEST(ProgressBudget, IsSpentByHeartbeatsAndBySilenceButNotByTimeAlone) {
  const auto start = Clock::now();
  ProgressBudget slow(3, 1s, start);
  // A machine that is a hundred times too slow: each beat comes just in time.
  EXPECT_TRUE(slow.look(0, 0, start));
  EXPECT_TRUE(slow.look(1, 0, start + 900ms));
  EXPECT_TRUE(slow.look(2, 0, start + 1800ms));
  EXPECT_FALSE(slow.look(3, 0, start + 2700ms)) << "three beats have passed";
  ProgressBudget silent(1000, 1s, start);
  EXPECT_TRUE(silent.look(7, 0, start));
  EXPECT_TRUE(silent.look(7, 0, start + 900ms));
  EXPECT_TRUE(silent.look(7, 1, start + 950ms)) << "a new POST code is progress";
  EXPECT_TRUE(silent.look(7, 1, start + 1900ms));
  EXPECT_FALSE(silent.look(7, 1, start + 1950ms));
}

}  // namespace
}  // namespace svp
