// SPDX-License-Identifier: Apache-2.0
// Whose part a core runs next: functions in turn, by their weights; inside of one by priority, then first in, first
// out.
#include "firmware/core/run_queues.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "firmware/platform/host/native_board.hpp"

namespace {

using fw::Ticket;

constexpr unsigned kCore = 0;
constexpr fw::Owner kA = 1, kB = 2, kC = 3;

class RunQueues : public testing::Test {
 protected:
  RunQueues() { queues_.init(); }

  void push(fw::Owner function, unsigned launch, bool high = false, bool fresh = false) {
    const auto place = static_cast<std::uint8_t>(function * fw::kLaunchesPerFunction + launch);
    queues_.push(kCore, function, high, {place, 0}, fresh);
  }
  // The next part runs a slice and wants the core again. Its launch's place in the table.
  unsigned slice(bool high = false) {
    Ticket ticket{};
    if (!queues_.pop(kCore, ticket)) return ~0u;
    queues_.push(kCore, ticket.launch / fw::kLaunchesPerFunction, high, ticket, false);
    return ticket.launch;
  }
  fw::Owner function_of_slice() { return slice() / fw::kLaunchesPerFunction; }

  native::Board board_{{.harts = 2}};
  fw::RunQueues queues_;
};

TEST_F(RunQueues, FunctionsHaveTheCoreInTurnHoweverManyPartsTheyHave) {
  for (unsigned launch = 0; launch < fw::kLaunchesPerFunction; ++launch) push(kA, launch);
  push(kB, 0);
  push(kC, 0);
  std::array<unsigned, 4> slices{};
  for (int i = 0; i < 300; ++i) ++slices[function_of_slice()];
  EXPECT_EQ(slices, (std::array<unsigned, 4>{0, 100, 100, 100}));
}

TEST_F(RunQueues, PartsOfAFunctionGoFirstInFirstOut) {
  for (unsigned launch = 0; launch < fw::kLaunchesPerFunction; ++launch) push(kA, launch);
  for (int lap = 0; lap < 3; ++lap) {
    for (unsigned launch = 0; launch < fw::kLaunchesPerFunction; ++launch) {
      EXPECT_EQ(slice(), kA * fw::kLaunchesPerFunction + launch);
    }
  }
}

TEST_F(RunQueues, HighPriorityGoesFirstAndStarvesNobody) {
  push(kA, 0, false);
  push(kA, 1, true);
  std::vector<unsigned> order;
  for (unsigned i = 0; i < 2 * (fw::kHighInARow + 1); ++i) {
    Ticket ticket{};
    ASSERT_TRUE(queues_.pop(kCore, ticket));
    const unsigned launch = ticket.launch % fw::kLaunchesPerFunction;
    order.push_back(launch);
    push(kA, launch, launch == 1);
  }
  for (unsigned i = 0; i < order.size(); ++i) {
    EXPECT_EQ(order[i], i % (fw::kHighInARow + 1) == fw::kHighInARow ? 0u : 1u) << "slice " << i;
  }
}

TEST_F(RunQueues, AWeightIsSlicesInARow) {
  queues_.set_weight(kB, 3);
  push(kA, 0);
  push(kB, 0);
  std::vector<fw::Owner> order;
  for (int i = 0; i < 8; ++i) order.push_back(function_of_slice());
  EXPECT_EQ(order, (std::vector<fw::Owner>{kA, kB, kB, kB, kA, kB, kB, kB}));
}

TEST_F(RunQueues, NobodyWaitsForMoreSlicesThanTheOthersWeights) {
  queues_.set_weight(kA, 4);
  queues_.set_weight(kB, 2);
  push(kA, 0);
  push(kB, 0);
  for (int i = 0; i < 5; ++i) slice();
  push(kC, 0);
  for (int i = 0; i < 100; ++i) slice();
  EXPECT_LE(queues_.most_waited_slices(kC), 6u);
  EXPECT_EQ(queues_.most_waited_slices(kA), 3u);
  queues_.forget(kA);
  EXPECT_EQ(queues_.most_waited_slices(kA), 0u);
  EXPECT_NE(queues_.most_waited_slices(kB), 0u) << "forgets one function only";
}

TEST_F(RunQueues, WhatIsPolledTellsWhatIsQueued) {
  EXPECT_FALSE(queues_.has_work(kCore));
  EXPECT_EQ(queues_.functions_on(kCore), 0u);
  push(kA, 0, false, true);
  EXPECT_TRUE(queues_.front_is_fresh(kCore));
  push(kB, 0);
  EXPECT_FALSE(queues_.front_is_fresh(kCore));
  EXPECT_EQ(queues_.functions_on(kCore), 1u << kA | 1u << kB);
  EXPECT_FALSE(queues_.has_work(kCore + 1)) << "each core has its own";
  Ticket ticket{};
  ASSERT_TRUE(queues_.pop(kCore, ticket));
  EXPECT_EQ(queues_.functions_on(kCore), 1u << kB);
  ASSERT_TRUE(queues_.pop(kCore, ticket));
  EXPECT_FALSE(queues_.has_work(kCore));
  EXPECT_FALSE(queues_.pop(kCore, ticket));
}

}  // namespace
