// SPDX-License-Identifier: Apache-2.0
// A scenario's fault fires by what a program has done: how many slices, beats and iterations there are, and what the
// clock says, is the machine's.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/validation/campaign/scenario_context.hpp"

namespace svp::campaign {
namespace {

using wire::FaultAction;
using wire::FaultPoint;

// Of points that occur as often as a program makes them.
constexpr std::pair<FaultPoint, FaultAction> kOfPrograms[] = {
    {FaultPoint::DmaStep, FaultAction::Abort},        {FaultPoint::RegionEntry, FaultAction::Corrupt},
    {FaultPoint::Completion, FaultAction::Suppress},  {FaultPoint::AdminReply, FaultAction::Suppress},
    {FaultPoint::Doorbell, FaultAction::Suppress},    {FaultPoint::FunctionReset, FaultAction::Stall},
    {FaultPoint::KernelResult, FaultAction::Corrupt}, {FaultPoint::Array, FaultAction::Refuse},
    {FaultPoint::Memory, FaultAction::Corrected},
};
// Of points that occur as often as the machine lets the card.
constexpr std::pair<FaultPoint, FaultAction> kOfTheMachine[] = {
    {FaultPoint::Dispatcher, FaultAction::Stall},  {FaultPoint::Firmware, FaultAction::Trap},
    {FaultPoint::FirmwareHart, FaultAction::Trap}, {FaultPoint::Heartbeat, FaultAction::Suppress},
    {FaultPoint::Kernel, FaultAction::Hang},
};

class Triggers : public testing::Test {
 protected:
  // Why the fault was not armed. There is no card: one whose trigger is good is refused for that.
  std::string refusal(const wire::FaultSpec& spec) {
    try {
      (void)context_.arm(spec);
    } catch (const Error& error) {
      return error.info().message;
    }
    return "armed";
  }
  void expect_counts_the_clock(const wire::FaultSpec& spec) {
    EXPECT_EQ(refusal(spec), "a trigger of a scenario counts slices, beats, iterations or time")
        << wire::name(spec.point);
  }
  void expect_counts_what_was_done(const wire::FaultSpec& spec) {
    EXPECT_EQ(refusal(spec), "a scenario with cards of its own asked for the shared one") << wire::name(spec.point);
  }

  Scenario scenario_ = [] {
    Scenario scenario{};
    scenario.id = "F0";
    return scenario;
  }();
  ScenarioContext context_{scenario_, nullptr, 1, {}};
};

TEST_F(Triggers, ThatCountSlicesBeatsOrIterationsAreRefused) {
  for (const auto& [point, action] : kOfTheMachine) {
    auto spec = ScenarioContext::any_fault(point, action);
    expect_counts_what_was_done(spec);  // the first one is certain to come
    spec.trigger.first = 2;
    expect_counts_the_clock(spec);
  }
}

TEST_F(Triggers, OfKernelsCountWhatTheKernelIsAt) {
  auto spec = ScenarioContext::any_fault(FaultPoint::Kernel, FaultAction::Hang);
  spec.trigger.first = 2;
  spec.trigger.progress = wire::kSomeProgress;
  expect_counts_the_clock(spec);
  spec.trigger.progress = 7;
  expect_counts_what_was_done(spec);
}

TEST_F(Triggers, ThatWaitForATimeAreRefusedAtEachPoint) {
  const auto refused = [&](const auto& faults) {
    for (const auto& [point, action] : faults) {
      auto spec = ScenarioContext::any_fault(point, action);
      spec.trigger.not_before = 1;
      expect_counts_the_clock(spec);
    }
  };
  refused(kOfPrograms);
  refused(kOfTheMachine);
}

// A scenario that boots its own card arms without arm().
TEST_F(Triggers, OfACardOfTheScenariosOwnAreCheckedAlike) {
  auto spec = ScenarioContext::any_fault(FaultPoint::Dispatcher, FaultAction::Stall);
  EXPECT_EQ(&ScenarioContext::checked(spec), &spec);
  spec.trigger.first = 2;
  EXPECT_THROW((void)ScenarioContext::checked(spec), Error);
}

TEST_F(Triggers, ThatCountWhatAProgramDoesAreTaken) {
  for (const auto& [point, action] : kOfPrograms) {
    auto spec = ScenarioContext::any_fault(point, action);
    spec.trigger.first = 5;
    expect_counts_what_was_done(spec);
  }
}

}  // namespace
}  // namespace svp::campaign
