// SPDX-License-Identifier: Apache-2.0
// What every lifecycle is tested for: the machine makes each change of its table and no other one, each state has a
// name of its own and can be reached from the first one.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>

#include "host_driver/base/state_machine.hpp"

namespace svp::test {

template <typename State>
void expect_every_edge_and_no_other() {
  const StateTable table = state_table(State{});
  const auto states = static_cast<unsigned>(table.names.size());
  for (unsigned from = 0; from < states; ++from) {
    for (unsigned to = 0; to < states; ++to) {
      SCOPED_TRACE(std::string(table.name(from)) + " to " + std::string(table.name(to)));
      StateMachine machine{static_cast<State>(from)};
      AtomicStateMachine shared{static_cast<State>(from)};
      const bool allowed = table.allows(from, to);
      EXPECT_EQ(machine.change(static_cast<State>(to)).made(), allowed);
      EXPECT_EQ(shared.change(static_cast<State>(to)).made(), allowed);
      EXPECT_EQ(machine.get(), static_cast<State>(allowed ? to : from));
      EXPECT_EQ(shared.get(std::memory_order_relaxed), machine.get());
    }
  }
}

inline void expect_sound(const StateTable& table) {
  const std::set<std::string_view> names(table.names.begin(), table.names.end());
  EXPECT_EQ(names.size(), table.names.size()) << table.machine << ": two states have one name";
  EXPECT_FALSE(names.contains(std::string_view())) << table.machine << ": a state has no name";
  std::set<std::pair<unsigned, unsigned>> edges;
  for (const StateEdge& edge : table.edges) {
    EXPECT_LT(edge.from, table.names.size()) << table.machine;
    EXPECT_LT(edge.to, table.names.size()) << table.machine;
    EXPECT_FALSE(edge.when.empty()) << table.machine;
    EXPECT_TRUE(edges.emplace(edge.from, edge.to).second) << table.machine << ": an edge is there twice";
  }
  std::set<unsigned> reached{0};
  for (std::size_t round = 0; round < table.names.size(); ++round) {
    for (const StateEdge& edge : table.edges) {
      if (reached.contains(edge.from)) reached.insert(edge.to);
    }
  }
  EXPECT_EQ(reached.size(), table.names.size()) << table.machine << ": a state can not be reached";
}

template <typename State>
void expect_lifecycle() {
  expect_sound(state_table(State{}));
  expect_every_edge_and_no_other<State>();
}

}  // namespace svp::test
