// SPDX-License-Identifier: Apache-2.0
// Boot: options are understood or refused by name, windows say who they are, and a warm reset leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "firmware/core/boot_options.hpp"
#include "firmware/hal/board.hpp"
#include "shared/version.hpp"
#include "tests/support/bytes.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fw::parse_boot_options;

TEST(BootOptions, EmptyWordsGiveDefaults) {
  for (const auto* text : {"", " ", "   "}) {
    const auto options = parse_boot_options(text);
    ASSERT_TRUE(options);
    EXPECT_EQ(options->virtual_functions, 4u);
    EXPECT_EQ(options->quota_bytes, 0u);
    EXPECT_EQ(options->sole_function, 0u);
    EXPECT_TRUE(options->timers);
    EXPECT_EQ(options->populated_budget_bytes, 0u);
    EXPECT_TRUE(options->restart_on_panic);
    EXPECT_EQ(options->loop_watchdog_ms, 5'000u);
    EXPECT_EQ(options->stop_at, wire::PostCode::None);
  }
}

TEST(BootOptions, EveryWordIsUnderstood) {
  const auto options = parse_boot_options(
      "vfs=16 selftest=1  mapall=1 budget_mib=512 watchdog=5 timers=0 quota_mib=64 on_panic=0 loop_watchdog_ms=0 "
      "stop_at=8 strikes=3 mutant=17 mutant_status=101 sole=3");
  ASSERT_TRUE(options);
  EXPECT_EQ(options->virtual_functions, 16u);
  EXPECT_TRUE(options->self_test);
  EXPECT_TRUE(options->map_all);
  EXPECT_FALSE(options->timers);
  EXPECT_EQ(options->populated_budget_bytes, 512 * wire::kMiB);
  EXPECT_EQ(options->watchdog_slices, 5u);
  EXPECT_FALSE(options->restart_on_panic);
  EXPECT_EQ(options->loop_watchdog_ms, 0u);
  EXPECT_EQ(options->stop_at, wire::PostCode::Functions);
  EXPECT_EQ(options->quota_bytes, 64 * wire::kMiB);
  EXPECT_EQ(options->stream_timeouts, 3u);
  EXPECT_EQ(options->sole_function, 3u);
  EXPECT_EQ(options->mutant, 17u);
  EXPECT_EQ(options->mutant_status, 101u);
}

TEST(BootOptions, WhatIsNotUnderstoodIsNamed) {
  for (const std::string word : {"vfs=17",
                                 "vfs=",
                                 "vfs",
                                 "vfs=-1",
                                 "vfs=1x",
                                 "vfs=4294967297",
                                 "selftest=2",
                                 "mapall=2",
                                 "timers=3",
                                 "watchdog=0",
                                 "watchdog=1000000001",
                                 "budget_mib=1073741825",
                                 "quota_mib=3",
                                 "on_panic=2",
                                 "loop_watchdog_ms=1000001",
                                 "stop_at=0",
                                 "stop_at=1",
                                 "stop_at=224",
                                 "strikes=1000001",
                                 "checks=1",
                                 "sole=18",
                                 "=1",
                                 "=",
                                 "VFS=1",
                                 "vfs=99999999999999999999",
                                 "unknown=1"}) {
    const std::string text = "vfs=1 " + word + " timers=0";
    const auto options = parse_boot_options(text);
    ASSERT_FALSE(options) << word;
    EXPECT_EQ(options.error(), word);
  }
}

TEST(Boot, EveryBoundWindowSaysWhoItIs) {
  fwtest::TestCard card({.virtual_functions = 3});
  for (unsigned slot = 0; slot < 5; ++slot) {
    const auto& header = *reinterpret_cast<wire::WindowHeader*>(card.window(slot).data());
    EXPECT_EQ(header.magic, wire::kWindowMagic);
    EXPECT_EQ(header.abi_version, wire::kAbiVersion);
    EXPECT_EQ(header.slot, slot);
    EXPECT_EQ(header.kind, slot == 0   ? wire::FunctionKind::Management
                           : slot == 1 ? wire::FunctionKind::Physical
                                       : wire::FunctionKind::Virtual);
    EXPECT_EQ(header.function_index, slot < 2 ? 0 : slot - 1);
    EXPECT_EQ(header.boot_epoch, 1u);
    EXPECT_EQ(header.window_bytes, card.window(slot).size());
    EXPECT_EQ(header.post_code, static_cast<std::uint32_t>(wire::PostCode::Ready));
  }
}

TEST(Boot, AnUnknownWordFailsTheBoot) {
  EXPECT_THROW(fwtest::TestCard({.boot_arguments = "vsf=2"}), std::runtime_error);
}

TEST(Boot, AWarmResetBeginsANewEpochWithNothingOfTheOldOne) {
  fwtest::TestCard card({.boot_arguments = fwtest::kAllForTheFirst});
  auto& driver = card.driver(2);
  ASSERT_TRUE(driver.bring_up());
  fwtest::StreamHandle stream;
  const auto region = driver.acquire(64 * wire::kMiB).value();
  ASSERT_EQ(driver.run(driver.fill(stream, region, 0, region.bytes, ~0ull)).outcome, wire::Outcome::Ok);
  auto bad = driver.nop(stream);
  bad.header.flags = 1;
  driver.run(bad);
  ASSERT_NE(driver.header().events_lost, 0u);
  driver.send(driver.bare_request(wire::MessageOp::GetDeviceStatus));  // never read before the reset
  card.warm_reset();
  EXPECT_EQ(driver.header().boot_epoch, 2u);
  EXPECT_EQ(driver.header().device_status, 0u);
  EXPECT_EQ(driver.header().events_lost, 0u);
  EXPECT_EQ(driver.at<std::uint64_t>(wire::kStartedSequences.offset)[0], 0u);
  card.run_until_idle();
  EXPECT_FALSE(driver.receive()) << "a message of the epoch before";
  ASSERT_TRUE(driver.bring_up());
  EXPECT_EQ(driver.config().boot_epoch, 2u);
  // The memory of before is granted only clean.
  EXPECT_TRUE(driver.acquire(64 * wire::kMiB));
  ASSERT_TRUE(svp::test::all_bytes_are(card.board().region_memory(), std::byte{0}));
}

// What init_persistent() finds (card.cpp): magic, version, checksum, epoch.
template <typename Value>
void expect_refused(std::size_t offset, const char* reason) {
  fwtest::TestCard card;
  Value& word = *reinterpret_cast<Value*>(hal::persistent() + offset);
  ++word;
  try {
    card.warm_reset();
    ADD_FAILURE() << "booted with " << reason;
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(reason));
    EXPECT_THAT(error.what(), testing::HasSubstr("power-cycle the card"));
  }
  --word;
  card.warm_reset();
  EXPECT_EQ(card.card().boot_epoch(), 2u);
}

TEST(Boot, PersistentMemoryThatIsNotWholeIsNotBelieved) {
  expect_refused<std::uint64_t>(0, "wrong magic");
  expect_refused<std::uint32_t>(8, "another version");
  expect_refused<std::uint32_t>(12, "wrong checksum");
  expect_refused<std::uint64_t>(16, "wrong checksum");
}

TEST(Boot, ACardThatLostTheMagicWordAloneIsNotTakenForOneThatWasOff) {
  fwtest::TestCard card;
  *reinterpret_cast<std::uint64_t*>(hal::persistent()) = 0;
  EXPECT_THROW(card.warm_reset(), std::runtime_error);
}

TEST(Boot, TheRecordOfTheBootBeforeIsShownToMAloneAndTheCardTestsItself) {
  fwtest::TestCard card;
  EXPECT_EQ(card.driver(0).header().record_bytes, 0u);
  wire::FatalRecord record{};
  record.magic = wire::kFatalRecordMagic;
  record.boot_epoch = 1;
  std::strcpy(record.reason, "on purpose");
  card.board().leave_record(record);
  card.warm_reset();
  ASSERT_EQ(card.driver(0).header().record_bytes, sizeof record);
  EXPECT_EQ(std::memcmp(card.window(0).data() + wire::kFatalRecord.offset, &record, sizeof record), 0);
  EXPECT_EQ(card.driver(1).header().record_bytes, 0u);
  const auto* others = card.window(1).data() + wire::kFatalRecord.offset;
  EXPECT_TRUE(std::all_of(others, others + sizeof record, [](std::byte byte) { return byte == std::byte{0}; }));
}

}  // namespace
