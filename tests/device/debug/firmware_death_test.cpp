// SPDX-License-Identifier: Apache-2.0
// The real firmware breaks while it serves: it leaves a record, restarts by itself, and works again for whoever
// attaches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <regex>

#include "host_driver/debug/collect.hpp"
#include "host_driver/debug/fatal_report.hpp"
#include "host_driver/transport/window.hpp"
#include "tests/bounds.hpp"
#include "tests/conformance/workbench.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/device/debug/debugger.hpp"

namespace svp {
namespace {

using ::testing::HasSubstr;
using wire::FatalKind;
using wire::FatalRecord;
using wire::HartState;

// The card serves, and nothing of the boot before is left but its record.
void expect_works(test::DebuggedCard& card) {
  const auto device = svp::value_or_throw(card.card().open_physical());
  const test::Workbench bench(*device);
  EXPECT_EQ(bench.run(bench.fill(bench.tensor(0), 4096, 7)).outcome, wire::Outcome::Ok);
  EXPECT_EQ(device->health(), Health::Alive);
}

FatalRecord record_of(test::DebuggedCard& card) { return svp::value_or_throw(collect_record(card.card())); }

// The same bytes that M sees.
FatalRecord shown_record(test::DebuggedCard& card) {
  const auto slot = svp::value_or_throw(card.card().slot(0));
  const auto window = svp::value_or_throw(Window::map(slot.window_fd(), slot.window_bytes()));
  return svp::value_or_throw(
      parse_record(window->bytes().subspan(wire::kFatalRecord.offset, wire::kFatalRecord.bytes)));
}

TEST(FirmwareDeath, ACardThatNeverBrokeHasNoRecord) {
  test::DebuggedCard card(test::small_card());
  const auto record = collect_record(card.card());
  ASSERT_FALSE(record);
  EXPECT_THAT(record.error().message, HasSubstr("no fatal record"));
}

TEST(FirmwareDeath, ATrapIsRecordedAndTheCardComesBack) {
  test::DebuggedCard card(test::small_card());
  const auto device = svp::value_or_throw(card.card().open_physical());
  card.break_function(test::kLoopFunction);
  ASSERT_EQ(card.wait_for_epoch(2), 2u) << card.card().machine().console();

  const FatalRecord record = record_of(card);
  EXPECT_EQ(record.kind, FatalKind::Trap);
  EXPECT_EQ(record.boot_epoch, 1u);
  EXPECT_EQ(record.source, 0u);
  EXPECT_EQ(record.hart_count, 2u);
  EXPECT_EQ(record.waiting_for, 0u);
  EXPECT_EQ(record.harts[0].state, HartState::Source);
  EXPECT_EQ(record.harts[0].cause, 2u) << "an illegal instruction";
  EXPECT_EQ(record.harts[1].state, HartState::Asleep);
  EXPECT_EQ(record.harts[2].state, HartState::Absent);
  const FatalRecord shown = shown_record(card);
  EXPECT_EQ(std::memcmp(&record, &shown, sizeof record), 0);

  const auto image = svp::value_or_throw(ElfImage::open(card.firmware()));
  EXPECT_TRUE(same_build(record, image));
  ASSERT_FALSE(image.build_id().empty());
  ASSERT_NE(image.function_at(record.harts[0].pc), nullptr);
  EXPECT_EQ(image.function_at(record.harts[0].pc)->name, test::kLoopFunction);
  EXPECT_EQ(image.function_at(record.harts[0].pc)->address, record.harts[0].pc);
  const std::string text = to_text(record, &image);
  EXPECT_THAT(text, HasSubstr("illegal instruction"));
  EXPECT_THAT(text, HasSubstr(test::kLoopFunction + std::string("+0x0")));
  EXPECT_THAT(text, HasSubstr("POST: ready"));
  const auto json = to_json(record, &image);
  EXPECT_EQ(json.at("kind"), "trap");
  EXPECT_EQ(json.at("harts").at(0).at("function"), test::kLoopFunction + std::string("+0x0"));

  // A card that broke tests itself before it serves.
  EXPECT_THAT(card.card().machine().console(), HasSubstr("self-test"));
  EXPECT_FALSE(device->wait_until([] { return false; }, test::soon()) == WaitStatus::Done);
  EXPECT_EQ(device->health(), Health::NeedsReset);
}

TEST(FirmwareDeath, RegistersAreTheRealOnes) {
  test::DebuggedCard card(test::small_card());
  card.inject({"thread 1", "set $s5 = 0x5151515151515151", "set $t6 = 0x6161616161616161", "set $pc = 8"});
  ASSERT_EQ(card.wait_for_epoch(2), 2u) << card.card().machine().console();
  const FatalRecord record = record_of(card);
  EXPECT_EQ(record.harts[0].pc, 8u);
  EXPECT_EQ(record.harts[0].x[21], 0x5151515151515151u);
  EXPECT_EQ(record.harts[0].x[31], 0x6161616161616161u);
  EXPECT_EQ(record.harts[0].x[0], 0u);
}

TEST(FirmwareDeath, ItComesBackTwiceInARowAndWorks) {
  test::DebuggedCard card(test::small_card());
  for (std::uint64_t epoch = 2; epoch <= 3; ++epoch) {
    card.break_function(test::kLoopFunction);
    ASSERT_EQ(card.wait_for_epoch(epoch), epoch) << card.card().machine().console();
    EXPECT_EQ(record_of(card).boot_epoch, epoch - 1);
    expect_works(card);
  }
}

TEST(FirmwareDeath, TheRecordSurvivesAWarmResetAndTheEmulator) {
  test::DebuggedCard card(test::small_card());
  card.send_hart(1, "8");
  ASSERT_EQ(card.wait_for_epoch(2), 2u) << card.card().machine().console();
  const FatalRecord before = record_of(card);
  EXPECT_EQ(before.source, 1u);
  ASSERT_TRUE(card.card().machine().system_reset());
  ASSERT_EQ(card.wait_for_epoch(3), 3u);
  const FatalRecord after = record_of(card);
  EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0);
  ASSERT_TRUE(card.card().shutdown());
  const FatalRecord left = record_of(card);
  EXPECT_EQ(std::memcmp(&before, &left, sizeof before), 0);
}

TEST(FirmwareDeath, ARecordThatIsDamagedIsNotBelieved) {
  test::DebuggedCard card(test::small_card());
  card.send_hart(0, "8");
  ASSERT_EQ(card.wait_for_epoch(2), 2u) << card.card().machine().console();
  card.inject({"set {char}0x82000100 = {char}0x82000100 ^ 1"});
  const auto record = collect_record(card.card());
  ASSERT_FALSE(record);
  EXPECT_THAT(record.error().message, HasSubstr("damaged"));
}

TEST(FirmwareDeath, WithoutRestartTheEmulatorEndsWithItsCode) {
  test::DebuggedCard card(test::small_card("on_panic=0"));
  // The emulator may be gone before the debugger has let go of it: how that ends does not matter.
  (void)test::gdb(card.firmware(), {"target remote " + card.file("gdb").string(), "thread 1", "set $pc = 8", "detach"});
  const auto exit = card.card().machine().wait_exit(test_bounds::kWork);
  ASSERT_TRUE(exit) << qemu::to_string(exit.error());
  EXPECT_EQ(exit->value, 70);
}

// Parked with interrupts off, as a loop without end would be: nothing reaches it any more.
TEST(FirmwareDeath, AHartZeroThatStandsStillIsNoticedByAnotherOne) {
  test::DebuggedCard card(test::small_card());
  card.send_hart(0, "&riscv_park");
  ASSERT_EQ(card.wait_for_epoch(2), 2u) << card.card().machine().console();
  const FatalRecord record = record_of(card);
  EXPECT_EQ(record.kind, FatalKind::Watchdog);
  EXPECT_EQ(record.source, 0u);
  EXPECT_EQ(record.waiting_for, 1u);
  EXPECT_EQ(record.harts[0].state, HartState::Unknown);
  EXPECT_EQ(record.harts[1].state, HartState::Firmware);
  expect_works(card);
}

TEST(FirmwareDeath, AWatchdogThatIsOffNoticesNothing) {
  test::DebuggedCard card(test::small_card("loop_watchdog_ms=0"));
  const auto device = svp::value_or_throw(card.card().open_physical());
  card.send_hart(0, "&riscv_park");
  test::CompletionRecorder endings;
  const auto block = test::Blocks::nop();
  const ControlBlockRequest request{&block, &endings};
  ASSERT_EQ(svp::value_or_throw(device->submit(0, {&request, 1})), 1u);
  // Silent after a second is what the host sees of it; a watchdog of 300 ms would have bitten before.
  EXPECT_EQ(device->wait_until([&] { return device->health() == Health::Silent; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(card.wait_for_epoch(1), 1u);
}

// The boot after a restart begins with a clock at zero: how long it took stands on the console.
TEST(FirmwareDeath, HowLongItTookIsPrinted) {
  test::DebuggedCard card(test::small_card());
  for (std::uint64_t epoch = 2; epoch <= 4; ++epoch) {
    card.send_hart(0, "8");
    ASSERT_EQ(card.wait_for_epoch(epoch), epoch);
    expect_works(card);
  }
  const std::string console = card.card().machine().console();
  const std::regex ready("post 0x80 at ([0-9]+) us");
  std::vector<std::uint64_t> times;
  for (std::sregex_iterator at(console.begin(), console.end(), ready), end; at != end; ++at) {
    times.push_back(std::stoull((*at)[1]));
  }
  ASSERT_EQ(times.size(), 4u) << console;
  for (const auto time : times) std::cout << "from reset to ready: " << time << " us\n";
}

}  // namespace
}  // namespace svp
