// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ras/state_log.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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

// The process's own log, whose file is named before the first record of this program.
TEST(StateLog, AtLevelDebugEachChangeIsALineAndABurstIsCounted) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "state_log_test.jsonl";
  std::filesystem::remove(file);
  ASSERT_EQ(::setenv("SPYRE_RAS_LOG", file.c_str(), 1), 0);
  ASSERT_EQ(::setenv("SPYRE_RAS_LEVEL", "debug", 1), 0);
  for (unsigned i = 0; i < 3 * StateLog::kLinesPerPeriod; ++i) {
    StateLog::process().note("door", i, "closed", "open");
  }
  std::ifstream in(file);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  std::filesystem::remove(file);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.front()["level"], "debug");
  EXPECT_EQ(lines.front()["machine"], "door");
  EXPECT_EQ(lines.front()["object"], 0);
  EXPECT_EQ(lines.front()["from"], "closed");
  EXPECT_EQ(lines.front()["to"], "open");
  EXPECT_EQ(lines.front()["pid"], ::getpid());
  // On a slow machine a second period may have begun; every change is a line or counted all the same.
  std::uint64_t counted = 0;
  for (const auto& line : lines) counted += 1 + line["suppressed"].get<std::uint64_t>();
  EXPECT_LE(counted, 3 * StateLog::kLinesPerPeriod);
  EXPECT_GE(lines.size(), StateLog::kLinesPerPeriod);
}

}  // namespace
}  // namespace svp::ras
