// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/stream_states.hpp"

#include <gtest/gtest.h>

#include "host_driver/runtime/recovery_phase.hpp"
#include "tests/unit/host_driver/base/state_table_checks.hpp"

namespace svp {
namespace {

TEST(StreamStates, ActivityTakesEveryEdgeAndNoOther) { test::expect_lifecycle<StreamActivity>(); }
TEST(StreamStates, ConditionTakesEveryEdgeAndNoOther) { test::expect_lifecycle<StreamCondition>(); }
TEST(StreamStates, StagedTransferTakesEveryEdgeAndNoOther) { test::expect_lifecycle<TransferStage>(); }
TEST(StreamStates, EventTakesEveryEdgeAndNoOther) { test::expect_lifecycle<EventStage>(); }

TEST(RecoveryPhases, TakeEveryEdgeAndNoOther) { test::expect_lifecycle<RecoveryPhase>(); }

// A level that did not help is followed by a higher one, never by a lower one.
TEST(RecoveryPhases, NoLevelIsFollowedByALowerOne) {
  for (const StateEdge& edge : kRecoveryPhaseEdges) {
    const auto to = static_cast<RecoveryPhase>(edge.to);
    if (!is_under_way(static_cast<RecoveryPhase>(edge.from)) || !is_under_way(to)) continue;
    EXPECT_TRUE(edge.from < edge.to || to == RecoveryPhase::Quiescing) << edge.when;
    EXPECT_NE(to, RecoveryPhase::ResettingStreams);
  }
}

template <typename State>
bool allowed(State from, std::optional<State> to) {
  return !to || state_table(from).allows(static_cast<unsigned>(from), static_cast<unsigned>(*to));
}

// What decides about a state names only changes that the table has.
TEST(StreamStates, EveryDecisionIsAnEdge) {
  for (unsigned i = 0; i < kStreamActivityNames.size(); ++i) {
    const auto activity = static_cast<StreamActivity>(i);
    SCOPED_TRACE(state_name(activity));
    if (is_reset_under_way(activity)) EXPECT_TRUE(allowed(activity, std::optional(after_reset(activity))));
    EXPECT_TRUE(allowed(activity, begin_quiescing(activity)));
    EXPECT_TRUE(allowed(activity, cancel_quiescing(activity)));
  }
  for (unsigned i = 0; i < kStreamConditionNames.size(); ++i) {
    const auto condition = static_cast<StreamCondition>(i);
    SCOPED_TRACE(state_name(condition));
    EXPECT_TRUE(allowed(condition, after_error(condition)));
    EXPECT_TRUE(allowed(condition, after_card_gone(condition)));
    EXPECT_TRUE(allowed(condition, recovery_due(condition)));
  }
}

TEST(StreamStates, ARecoveryThatGivesUpLeavesTheResetUnderWay) {
  for (const auto activity : {StreamActivity::Open, StreamActivity::Resetting, StreamActivity::Retrying}) {
    const auto quiescing = begin_quiescing(activity);
    ASSERT_TRUE(quiescing.has_value());
    EXPECT_TRUE(is_recovering(*quiescing));
    EXPECT_EQ(is_reset_under_way(*quiescing), is_reset_under_way(activity));
    EXPECT_EQ(cancel_quiescing(*quiescing), activity);
  }
}

TEST(StreamStates, ACardThatIsGoneStaysGoneWhateverErrorFollows) {
  EXPECT_EQ(after_error(StreamCondition::Gone), std::nullopt);
  EXPECT_EQ(after_card_gone(StreamCondition::NeedsReset), StreamCondition::NeedsDevice);
  EXPECT_TRUE(is_recovery_due(*recovery_due(StreamCondition::Gone)));
  EXPECT_TRUE(is_gone(*recovery_due(StreamCondition::Gone)));
}

}  // namespace
}  // namespace svp
