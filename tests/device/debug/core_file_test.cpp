// SPDX-License-Identifier: Apache-2.0
// Core files of the firmware: gdb-multiarch opens them, finds the harts, and its back trace names what broke.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "host_driver/debug/collect.hpp"
#include "tests/conformance/workbench.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/device/debug/debugger.hpp"

namespace svp {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

std::string opened(const test::DebuggedCard& card, const std::filesystem::path& core,
                   std::vector<std::string> commands) {
  commands.insert(commands.begin(), "core-file " + core.string());
  const auto finished = test::gdb(card.firmware(), commands);
  EXPECT_EQ(finished.code, 0) << finished.output;
  return finished.output;
}

TEST(CoreFile, OfARecordLeadsToTheFunctionThatBroke) {
  test::DebuggedCard card(test::small_card());
  card.break_function(test::kLoopFunction);
  ASSERT_EQ(card.wait_for_epoch(2), 2u) << card.card().machine().console();
  const auto image = svp::value_or_throw(ElfImage::open(card.firmware()));
  const auto record = svp::value_or_throw(collect_record(card.card()));
  const auto file = card.file("core");
  svp::value_or_throw(write_core(core_of(record, image), file));

  const std::string output = opened(card, file, {"info threads", "bt", "print/x $s1", "thread 2", "bt"});
  EXPECT_THAT(output, ContainsRegex("#0 +.*fw::loop_step"));
  EXPECT_THAT(output, ContainsRegex("#1 .*(loop_step|boot_main)"));
  EXPECT_THAT(output, ContainsRegex("#[0-9] .*core_main")) << "the other hart's";
  char s1[32];
  std::snprintf(s1, sizeof s1, "= 0x%llx\n", static_cast<unsigned long long>(record.harts[0].x[9]));
  EXPECT_THAT(output, HasSubstr(s1));

  const auto kept = svp::value_or_throw(read_record(file));
  EXPECT_EQ(std::memcmp(&kept, &record, sizeof record), 0);
}

TEST(CoreFile, OfACardThatHangsShowsWhereAndItsVariables) {
  CardOptions options = test::small_card();
  options.cores = 1;  // nobody is there to notice
  test::DebuggedCard card(options);
  card.send_hart(0, "&riscv_park");
  const auto image = svp::value_or_throw(ElfImage::open(card.firmware()));
  const CoreFile core = svp::value_or_throw(collect_snapshot(card.card(), image));
  EXPECT_FALSE(core.record);
  const auto file = card.file("core");
  svp::value_or_throw(write_core(core, file));
  const std::string output = opened(card, file, {"bt", "print 'riscv::(anonymous namespace)::known_harts'"});
  EXPECT_THAT(output, HasSubstr("riscv_park"));
  EXPECT_THAT(output, HasSubstr("$1 = 1"));
  EXPECT_FALSE(read_record(file));
}

TEST(CoreFile, ASnapshotDisturbsNothing) {
  test::DebuggedCard card(test::small_card());
  const auto image = svp::value_or_throw(ElfImage::open(card.firmware()));
  const auto device = svp::value_or_throw(card.card().open_physical());
  const test::Workbench bench(*device);
  EXPECT_EQ(svp::value_or_throw(collect_snapshot(card.card(), image)).harts.size(), 2u);
  EXPECT_EQ(bench.run(bench.fill(bench.tensor(0), 4096, 7)).outcome, wire::Outcome::Ok);
  test::expect_healthy(card.card(), *device);
  // One that was stopped stays so.
  ASSERT_TRUE(card.card().machine().stop());
  EXPECT_TRUE(collect_snapshot(card.card(), image));
  const auto status = card.card().machine().monitor("info status");
  ASSERT_TRUE(status);
  EXPECT_THAT(*status, HasSubstr("paused"));
}

TEST(CoreFile, WhatIsNoneIsRefused) {
  const auto missing = read_record("/no/such/file");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("can not be opened"));
  const auto other = read_record("/proc/self/exe");
  ASSERT_FALSE(other);
  EXPECT_FALSE(ElfImage::open("/proc/self/exe"));
}

}  // namespace
}  // namespace svp
