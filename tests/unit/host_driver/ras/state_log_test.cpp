// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ras/state_log.hpp"

#include <gtest/gtest.h>

#include <string>

namespace svp::ras {
namespace {

TEST(StateLog, KeepsTheLastChangesInOrder) {
  StateLog log;
  EXPECT_TRUE(log.changes().empty());
  for (std::uint64_t i = 0; i < StateLog::kKept + 3; ++i) log.note("door", i, "closed", "open");
  const auto changes = log.changes();
  ASSERT_EQ(changes.size(), StateLog::kKept);
  EXPECT_EQ(changes.front().object, 3u);
  EXPECT_EQ(changes.back().object, StateLog::kKept + 2);
  EXPECT_EQ(changes.back().machine, "door");
  EXPECT_EQ(changes.back().from, "closed");
  EXPECT_EQ(changes.back().to, "open");
  EXPECT_EQ(log.noted(), StateLog::kKept + 3);
}

}  // namespace
}  // namespace svp::ras
