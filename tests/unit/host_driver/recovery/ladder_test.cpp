// SPDX-License-Identifier: Apache-2.0
#include "host_driver/recovery/ladder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace svp {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using Clock = DeathCount::Clock;

ErrorInfo failure_of(Rung rung) {
  return {.layer = Layer::Firmware,
          .culprit = "rung",
          .outcome = wire::Outcome::Indeterminate,
          .recoverable = false,
          .next_step = "start a new card",
          .message = "no luck with the " + std::string(name(rung))};
}

// Which rungs are tried when the first that helps is `helps`.
std::vector<Rung> tried(Rung from, Rung highest, Rung helps) {
  std::vector<Rung> order;
  const auto report = climb(from, highest, [&](Rung rung) -> Expected<void> {
    order.push_back(rung);
    if (rung == helps) return {};
    return std::unexpected(failure_of(rung));
  });
  EXPECT_EQ(report.has_value(), helps >= from && helps <= highest && helps != Rung::Wedged);
  if (report) {
    EXPECT_EQ(report->rung(), helps);
    EXPECT_EQ(report->attempts.size(), order.size());
    EXPECT_FALSE(report->attempts.back().error);
  }
  return order;
}

TEST(Ladder, ARungThatFailsGivesWayToTheNextAndTheFirstThatHelpsIsTheLast) {
  EXPECT_THAT(tried(Rung::Stream, Rung::PowerCycle, Rung::Stream), ElementsAre(Rung::Stream));
  EXPECT_THAT(tried(Rung::Stream, Rung::PowerCycle, Rung::Firmware),
              ElementsAre(Rung::Stream, Rung::Queue, Rung::Function, Rung::Firmware));
  EXPECT_THAT(tried(Rung::Function, Rung::Card, Rung::PowerCycle),
              ElementsAre(Rung::Function, Rung::Firmware, Rung::Card));
  EXPECT_THAT(tried(Rung::PowerCycle, Rung::Wedged, Rung::Wedged), ElementsAre(Rung::PowerCycle));
}

TEST(Ladder, AClimbThatFailsNamesEveryRungAndWhatIsLeftToDo) {
  const auto fails = [](Rung rung) -> Expected<void> { return std::unexpected(failure_of(rung)); };
  const auto low = climb(Rung::Queue, Rung::Function, fails);
  ASSERT_FALSE(low);
  EXPECT_THAT(low.error().message, HasSubstr("no luck with the queue reset"));
  EXPECT_THAT(low.error().message, HasSubstr("no luck with the function reset"));
  EXPECT_THAT(low.error().next_step, HasSubstr("firmware restart"));
  EXPECT_TRUE(low.error().recoverable);
  EXPECT_EQ(low.error().outcome, wire::Outcome::Indeterminate);
  const auto high = climb(Rung::PowerCycle, Rung::PowerCycle, fails);
  ASSERT_FALSE(high);
  EXPECT_FALSE(high.error().recoverable);
  EXPECT_EQ(high.error().next_step, "start a new card");
  const auto none = climb(Rung::Card, Rung::Function, fails);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().culprit, "recovery");
}

TEST(Ladder, ARefusalBesideAnotherCommandEndsTheClimb) {
  std::vector<Rung> order;
  const auto report = climb(Rung::Stream, Rung::PowerCycle, [&](Rung rung) -> Expected<void> {
    order.push_back(rung);
    ErrorInfo error = failure_of(rung);
    if (rung == Rung::Queue) {
      error.layer = Layer::Driver;
      error.status = wire::Status::Busy;
      error.recoverable = true;
      error.next_step = "wait for the other one";
    }
    return std::unexpected(std::move(error));
  });
  ASSERT_FALSE(report);
  EXPECT_THAT(order, ElementsAre(Rung::Stream, Rung::Queue));
  EXPECT_TRUE(report.error().recoverable);
  EXPECT_EQ(report.error().next_step, "wait for the other one");
  EXPECT_THAT(report.error().message, HasSubstr("no luck with the stream reset"));
}

TEST(Ladder, EveryRungHasANameThatLeadsBackToIt) {
  for (unsigned i = 0; i < kRungs; ++i) {
    const auto rung = static_cast<Rung>(i);
    EXPECT_EQ(rung_named(name(rung)), rung);
    EXPECT_GE(above(rung), rung);
  }
  EXPECT_EQ(above(Rung::Wedged), Rung::Wedged);
  EXPECT_FALSE(rung_named("hammer"));
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
