// SPDX-License-Identifier: Apache-2.0
#include "host_driver/broker/broker_states.hpp"

#include <gtest/gtest.h>

#include "tests/unit/host_driver/base/state_table_checks.hpp"

namespace svp {
namespace {

TEST(BrokerStates, CardTakesEveryEdgeAndNoOther) { test::expect_lifecycle<CardPhase>(); }
TEST(BrokerStates, FunctionTakesEveryEdgeAndNoOther) { test::expect_lifecycle<FunctionPhase>(); }
TEST(BrokerStates, ClientTakesEveryEdgeAndNoOther) { test::expect_lifecycle<ClientPhase>(); }

bool has_edge(CardPhase from, CardPhase to) {
  return state_table(from).allows(static_cast<unsigned>(from), static_cast<unsigned>(to));
}

TEST(BrokerStates, OnlyStoppingLeavesAWedgedCard) {
  for (unsigned to = 0; to < kCardPhaseNames.size(); ++to) {
    const auto phase = static_cast<CardPhase>(to);
    EXPECT_EQ(has_edge(CardPhase::Wedged, phase), phase == CardPhase::Wedged || phase == CardPhase::Stopping);
  }
}

TEST(BrokerStates, ABootEndsBeforeTheCardIsStopped) {
  EXPECT_FALSE(has_edge(CardPhase::Cycling, CardPhase::Stopping));
  EXPECT_TRUE(has_edge(CardPhase::StoppingBoot, CardPhase::Stopping));
}

TEST(BrokerStates, OthersAreToldOfFewerStates) {
  EXPECT_EQ(told(FunctionPhase::Unbound), FunctionUse::Retiring);
  EXPECT_EQ(told(FunctionPhase::Binding), FunctionUse::Retiring);
  EXPECT_EQ(told(FunctionPhase::Stuck), FunctionUse::Stuck);
  EXPECT_EQ(told(CardPhase::StoppingBoot), CardState::Stopping);
  EXPECT_EQ(told(CardPhase::Stopped), CardState::Stopping);
  EXPECT_EQ(told(CardPhase::Wedged), CardState::Wedged);
  EXPECT_FALSE(is_stopping(CardPhase::Cycling));
}

}  // namespace
}  // namespace svp
