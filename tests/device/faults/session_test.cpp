// SPDX-License-Identifier: Apache-2.0
// Scripts on a real card: what was armed fires, the evidence says so, and afterwards nothing is broken that need not
// be.
#include "host_driver/faults/session.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "host_driver/faults/script_run.hpp"
#include "tests/bounds.hpp"

namespace svp::fault {
namespace {

constexpr wire::Target kVictim = wire::target_of_virtual(1);

class Sessions : public testing::Test {
 protected:
  void SetUp() override {
    CardOptions options;
    options.virtual_functions = 2;
    options.boot_arguments = "watchdog=100";
    auto booted = Card::boot(std::move(options));
    ASSERT_TRUE(booted.has_value()) << describe(booted.error());
    card_ = *std::move(booted);
  }
  // Runs the script under load until all has fired, or until the load itself ends because the card is gone; disarmed
  // afterwards.
  enum class Until { AllFired, TheCardIsGone };
  WorkloadReport run(const Script& script, Until until = Until::AllFired) {
    auto begun = Session::begin(script);
    if (!begun) {
      ADD_FAILURE() << svp::describe(begun.error());
      return {};
    }
    session_ = *std::move(begun);
    const auto armed = session_->arm(*card_);
    EXPECT_TRUE(armed.has_value()) << svp::describe(armed.error());
    WorkloadOptions work;
    work.hooks = session_->hooks();
    work.limit = std::chrono::seconds(20);
    work.ready = [&] { EXPECT_TRUE(session_->arm_memory().has_value()); };
    work.enough = [&](const auto&) { return until == Until::AllFired && all_fired(session_->evidence()); };
    WorkloadReport report = run_workload(card_, work);
    const auto disarmed = session_->disarm();
    if (card_->machine().alive()) EXPECT_TRUE(disarmed.has_value()) << svp::describe(disarmed.error());
    evidence_ = session_->evidence();
    for (const Evidence& e : evidence_) EXPECT_FALSE(e.still_armed);
    return report;
  }
  // A session that goes on, of a fault that has fired without any load.
  std::unique_ptr<Session> fired(const Fault& fault) {
    auto session = svp::value_or_throw(Session::begin(Script().add(fault)));
    svp::value_or_throw(session->arm(*card_));
    const auto limit = std::chrono::steady_clock::now() + test_bounds::kAnswer;
    while (!all_fired(session->evidence()) && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    return session;
  }
  std::string told(const WorkloadReport& report) const {
    std::string text;
    for (const Evidence& e : evidence_) text += describe(e) + "\n";
    for (const auto& [error, count] : report.errors) text += std::to_string(count) + " x " + error + "\n";
    for (const auto& untyped : report.untyped) text += "UNTYPED " + untyped + "\n";
    return text;
  }

  std::shared_ptr<Card> card_;
  std::unique_ptr<Session> session_;
  std::vector<Evidence> evidence_;
};

TEST_F(Sessions, FaultsOfEveryPlaceFireTogetherAndTheWorkHeals) {
  Script script(3);
  script
      .add({.point = Point::CardDmaStep,
            .action = Action::Abort,
            .trigger = {.first = Number::random(20, 40), .function = kVictim}})
      .add({.point = Point::CardKernel, .action = Action::Hang, .trigger = {.first = 5, .function = kVictim}})
      .add({.point = Point::CardMemory,
            .action = Action::Uncorrectable,
            .trigger = {.first = 9, .function = kVictim},
            .region = 0,
            .offset = 100})
      .add(
          {.point = Point::DoorbellToHost, .action = Action::Suppress, .trigger = {.first = 1, .every = 3, .shots = 0}})
      .add({.point = Point::FreezeHart, .action = Action::Stall, .trigger = {.first = 20}, .argument = 20, .hart = 0});
  const WorkloadReport report = run(script);
  EXPECT_TRUE(all_fired(evidence_)) << told(report);
  EXPECT_TRUE(report.contained()) << told(report);
  EXPECT_TRUE(report.healed) << told(report);
  EXPECT_EQ(report.outcomes.count("TIMEOUT: watchdog expired"), 1u) << told(report);
  EXPECT_EQ(report.outcomes.count("FAULT: transfer aborted by the DMA engine"), 1u) << told(report);
  EXPECT_EQ(evidence_[0].function, kVictim);
  EXPECT_TRUE(evidence_[0].stream.has_value());
  for (const Evidence& e : evidence_) EXPECT_LE(e.first_us, e.last_us) << describe(e);
}

TEST_F(Sessions, WhatNeverHappensIsCountedAndHasNotFired) {
  Script script;
  script.add({.point = Point::CardDmaStep, .action = Action::Abort, .trigger = {.first = 1'000'000'000}})
      .add({.point = Point::Completion, .action = Action::Corrupt, .trigger = {.first = 1'000'000'000}})
      .add({.point = Point::Kill, .action = Action::Kill, .trigger = {.first = 1'000'000'000}});
  auto session = Session::begin(script);
  ASSERT_TRUE(session.has_value());
  ASSERT_TRUE((*session)->arm(*card_).has_value());
  WorkloadOptions work;
  work.hooks = (*session)->hooks();
  const WorkloadReport report = run_workload(card_, work);
  evidence_ = (*session)->evidence();
  EXPECT_FALSE(all_fired(evidence_));
  for (const Evidence& e : evidence_) {
    EXPECT_TRUE(e.was_armed);
    EXPECT_TRUE(e.still_armed);
    EXPECT_EQ(e.fired, 0u);
    EXPECT_GT(e.counted, 0u) << describe(e);
  }
  EXPECT_TRUE(report.healed) << told(report);
  EXPECT_TRUE(report.errors.empty()) << told(report);
}

TEST_F(Sessions, AKilledEmulatorLeavesOutcomesAndNothingElse) {
  Script script;
  script.add({.point = Point::Kill, .action = Action::Kill, .trigger = {.first = 300}})
      .add({.point = Point::CardDmaStep, .action = Action::Slow, .trigger = {.first = 3}, .argument = 2});
  const WorkloadReport report = run(script, Until::TheCardIsGone);
  EXPECT_TRUE(all_fired(evidence_)) << "what the card had counted is known also after its end\n" << told(report);
  EXPECT_TRUE(report.contained()) << told(report);
  EXPECT_FALSE(report.healed);
  EXPECT_FALSE(card_->machine().alive());
}

TEST_F(Sessions, AStoppedEmulatorGoesOnWhenTheSessionEnds) {
  {
    const auto session = fired({.point = Point::Stop, .action = Action::Stall, .trigger = {.first = 1}});
    ASSERT_TRUE(all_fired(session->evidence()));
  }
  const WorkloadReport report = run_workload(card_, {});
  EXPECT_TRUE(report.healed) << told(report);
  EXPECT_TRUE(report.errors.empty()) << told(report);
}

TEST_F(Sessions, APowerCycleBringsBackACardWhoseHartIsFrozen) {
  const auto session = fired({.point = Point::FreezeHart, .action = Action::Stall, .trigger = {.first = 1}, .hart = 0});
  ASSERT_TRUE(all_fired(session->evidence()));
  const auto raised = card_->raise(ResetLevel::PowerCycle, card_->boots(), false);
  ASSERT_TRUE(raised.has_value()) << svp::describe(raised.error());
  const WorkloadReport report = run_workload(card_, {});
  EXPECT_TRUE(report.healed) << told(report);
  EXPECT_TRUE(report.errors.empty()) << told(report);
}

TEST_F(Sessions, AResetOfTheMachineEndsEveryJobTypedAndTheCardComesBack) {
  Script script;
  script.add({.point = Point::SystemReset, .action = Action::Reset, .trigger = {.first = Number::random(100, 300)}});
  const WorkloadReport report = run(script);
  EXPECT_TRUE(all_fired(evidence_)) << told(report);
  EXPECT_TRUE(report.contained()) << told(report);
  EXPECT_TRUE(report.healed) << told(report);
  EXPECT_GT(report.attachments, 1u) << told(report);
}

TEST_F(Sessions, WithoutItsControlConnectionTheCardWorksOnAndControlFailsTyped) {
  Script script;
  script.add({.point = Point::SocketCut, .action = Action::Cut});
  const WorkloadReport report = run(script);
  EXPECT_TRUE(all_fired(evidence_)) << told(report);
  EXPECT_TRUE(report.healed) << told(report);
  EXPECT_TRUE(report.errors.empty()) << told(report);
  const auto stopped = card_->machine().stop();
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().kind, qemu::MachineError::Kind::kQmpError);
}

TEST_F(Sessions, AHartThatDoesNotExistIsSaidInTheEvidence) {
  Script script;
  script.add({.point = Point::FreezeHart, .action = Action::Stall, .argument = 1, .hart = 63});
  auto session = Session::begin(script);
  ASSERT_TRUE(session.has_value());
  ASSERT_TRUE((*session)->arm(*card_).has_value());
  const auto limit = std::chrono::steady_clock::now() + test_bounds::kAnswer;
  while ((*session)->evidence()[0].note.empty() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_NE((*session)->evidence()[0].note.find("no hart 63"), std::string::npos);
  EXPECT_FALSE(all_fired((*session)->evidence()));
}

TEST_F(Sessions, WhatTheCardRefusesNamesTheFault) {
  Script script;
  script.add(
      {.point = Point::CardDoorbell, .action = Action::Suppress, .trigger = {.function = wire::target_of_virtual(9)}});
  auto session = Session::begin(script);
  ASSERT_TRUE(session.has_value());
  const auto armed = (*session)->arm(*card_);
  ASSERT_FALSE(armed.has_value());
  EXPECT_EQ(armed.error().source, "fault 0");
  EXPECT_EQ(armed.error().outcome, wire::Outcome::Rejected);
  EXPECT_TRUE(card_->open_management().has_value()) << "M was given back";
}

// ---- runs with a verdict --------------------------------------------------------------------------------------------

ScriptRun run_of(const Fault& fault) {
  ScriptRun run{.script = Script(3).add(fault), .limit = test_bounds::kProgram};
  run.card.virtual_functions = 2;
  return run;
}

TEST(ScriptRuns, AFaultThatFiredAndWasContainedIsOk) {
  const auto result =
      run_script(run_of({.point = Point::CardDmaStep, .action = Action::Abort, .trigger = {.first = 5}}));
  EXPECT_EQ(result.evidence.at(0).fired, 1u);
  EXPECT_EQ(name(result.verdict()), "OK");
}

TEST(ScriptRuns, AnInterruptEndsOneWhoseFaultHasNotFiredAndItIsInvalid) {
  ScriptRun run = run_of({.point = Point::CardDmaStep, .action = Action::Abort, .trigger = {.first = 1'000'000'000}});
  run.interrupted = [] { return true; };
  const auto result = run_script(run);
  EXPECT_GT(result.victim.rounds, 0u);
  EXPECT_EQ(result.evidence.at(0).fired, 0u);
  EXPECT_EQ(name(result.verdict()), "INVALID");
}

TEST(ScriptRuns, WhatTheCardDoesNotTakeIsRefused) {
  const auto result = run_script(run_of(
      {.point = Point::CardDoorbell, .action = Action::Suppress, .trigger = {.function = wire::target_of_virtual(9)}}));
  EXPECT_NE(result.refused, "");
  EXPECT_EQ(name(result.verdict()), "REFUSED");
}

}  // namespace
}  // namespace svp::fault
