// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/state_machine.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/host_driver/base/state_table_checks.hpp"

namespace door {

enum class Door : std::uint8_t { Closed, Open, Removed };
constexpr std::array<std::string_view, 3> kNames{"closed", "open", "removed"};
constexpr std::array kEdges{
    svp::state_edge(Door::Closed, Door::Open, "opened"),
    svp::state_edge(Door::Open, Door::Closed, "closed"),
    svp::state_edge(Door::Open, Door::Removed, "taken away"),
};
constexpr svp::StateTable state_table(Door) { return {"door", kNames, kEdges}; }

}  // namespace door

namespace svp {
namespace {

using door::Door;

TEST(StateMachine, MakesTheChangesOfItsTableAndNoOther) { test::expect_lifecycle<Door>(); }

TEST(StateMachine, ARefusedChangeLeavesTheStateAndSaysWhatWasTried) {
  StateMachine<Door> machine;
  const auto refused = machine.change(Door::Removed);
  EXPECT_EQ(refused.kind, StateChange<Door>::Kind::Refused);
  EXPECT_EQ(refused.from, Door::Closed);
  EXPECT_EQ(refused.to, Door::Removed);
  EXPECT_EQ(machine.get(), Door::Closed);
}

TEST(StateMachine, ToStayIsAChangeLikeAnyOther) {
  StateMachine<Door> machine;
  EXPECT_EQ(machine.change(Door::Closed).kind, StateChange<Door>::Kind::Refused);
  AtomicStateMachine<Door> shared;
  EXPECT_EQ(shared.change_by([](Door) { return std::optional<Door>(); }).kind, StateChange<Door>::Kind::None);
}

TEST(StateMachine, NamesAreKnownForEveryStateAndUnknownBeyond) {
  static_assert(state_name(Door::Removed) == "removed");
  EXPECT_EQ(state_name(static_cast<Door>(3)), "unknown state");
}

TEST(StateMachine, OfSeveralThreadsEachChangeIsMadeOnce) {
  constexpr int kRounds = 2000;
  AtomicStateMachine<Door> shared;
  std::atomic<int> opened{0};
  std::atomic<int> closed{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < kRounds; ++round) {
          const auto change =
              shared.change_by([](Door now) { return std::optional(now == Door::Closed ? Door::Open : Door::Closed); });
          ASSERT_TRUE(change.made());
          ++(change.to == Door::Open ? opened : closed);
        }
      });
    }
  }
  EXPECT_EQ(opened.load(), closed.load());
  EXPECT_EQ(opened.load() + closed.load(), 4 * kRounds);
  EXPECT_EQ(shared.get(std::memory_order_relaxed), Door::Closed);
}

}  // namespace
}  // namespace svp
