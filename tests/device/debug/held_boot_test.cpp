// SPDX-License-Identifier: Apache-2.0
// A debugger holds a card for longer than the driver's bounds: while it boots, while requests wait, and in the middle
// of a restart.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "qemu/card.hpp"
#include "tests/bounds.hpp"
#include "tests/device/debug/gdb_client.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

using test::GdbClient;

void expect_held(GdbClient& debugger) {
  ASSERT_TRUE(debugger.connected());
  const std::string why = debugger.ask("?");
  EXPECT_TRUE(why.contains("$T05") || why.contains("$S05")) << why;
}

// Attaches as soon as the emulator listens, holds the card, and lets it go.
void hold_boot(GdbClient debugger) {
  expect_held(debugger);
  EXPECT_FALSE(debugger.says_something(test_bounds::kHeldBoot)) << "a card that is held says nothing";
  debugger.send("c");
  (void)debugger.says_something(test_bounds::kEmulator);  // what it says when it has taken the packet
}

void expect_boots(const std::string& endpoint) {
  CardOptions options;
  options.virtual_functions = 0;
  options.emulator.gdb_endpoint = endpoint;
  auto card = Card::boot(std::move(options));
  ASSERT_TRUE(card) << describe(card.error());
  const auto device = (*card)->open_physical({});
  EXPECT_TRUE(device) << describe(device.error());
}

TEST(HeldBoot, OverTcpIsNoFailure) {
  const unsigned short port = test::free_port();
  std::thread debugger([&] { hold_boot(GdbClient::over_tcp(port)); });
  expect_boots("tcp:127.0.0.1:" + std::to_string(port) + ",wait=on");
  debugger.join();  // bounded: every wait of it is
}

TEST(HeldBoot, OverAUnixSocketIsNoFailure) {
  const qemu::test::TemporaryFolder folder;
  const std::string path = (folder.path() / "gdb").string();
  std::thread debugger([&] { hold_boot(GdbClient::over_unix(path)); });
  expect_boots("unix:" + path + ",server=on,wait=on");
  debugger.join();  // bounded: every wait of it is
}

// What a program has that knows nothing of a debugger.
TEST(HeldBoot, WhereTheEnvironmentSaysIsNoFailure) {
  const unsigned short port = test::free_port();
  ASSERT_EQ(::setenv("SPYRE_GDB", ("tcp:127.0.0.1:" + std::to_string(port) + ",wait=on").c_str(), 1), 0);
  std::thread debugger([&] { hold_boot(GdbClient::over_tcp(port)); });
  expect_boots({});
  debugger.join();  // bounded: every wait of it is
  ::unsetenv("SPYRE_GDB");
}

// Offered to a debugger only after its boot, as a long-lived card is.
class HeldCard : public testing::Test {
 protected:
  void SetUp() override {
    CardOptions options;
    options.virtual_functions = 1;
    auto booted = Card::boot(std::move(options));
    ASSERT_TRUE(booted) << describe(booted.error());
    card_ = *std::move(booted);
  }
  GdbClient hold() {
    const std::string path = (folder_.path() / "gdb").string();
    EXPECT_TRUE(card_->machine().offer_debugger("unix:" + path + ",server=on,wait=off").has_value());
    GdbClient debugger = GdbClient::over_unix(path);
    expect_held(debugger);
    return debugger;
  }

  const qemu::test::TemporaryFolder folder_;
  std::shared_ptr<Card> card_;
};

TEST_F(HeldCard, RequestsWaitForAsLongAsItIsHeld) {
  const auto owner = card_->open_virtual(1, {});
  ASSERT_TRUE(owner) << describe(owner.error());
  GdbClient debugger = hold();
  Expected<wire::AdminReply> statistics;
  Expected<std::unique_ptr<Device>> attached;
  std::thread asks([&] { statistics = (*owner)->card_statistics(); });
  std::thread attaches([&] { attached = card_->open_physical({}); });
  EXPECT_FALSE(debugger.says_something(test_bounds::kHeldRequest));
  debugger.send("c");
  asks.join();      // bounded: by the driver's bounds, the card runs
  attaches.join();  // bounded: likewise, by the driver's bounds
  EXPECT_TRUE(statistics) << describe(statistics.error());
  EXPECT_TRUE(attached) << describe(attached.error());
}

TEST_F(HeldCard, ARestartWaitsWhileItsBootIsHeld) {
  constexpr std::string_view kFirstInstruction = "1,80000000,4";
  GdbClient debugger = hold();
  EXPECT_EQ(debugger.ask("Z" + std::string(kFirstInstruction)), "+$OK");
  debugger.send("c");
  Expected<void> restarted;
  std::thread restarts([&] { restarted = card_->restart_firmware(); });
  EXPECT_TRUE(debugger.answer().contains("$T05")) << "the next boot begins at its first instruction";
  EXPECT_FALSE(debugger.says_something(test_bounds::kHeldBoot));
  EXPECT_EQ(debugger.ask("z" + std::string(kFirstInstruction)), "+$OK");
  debugger.send("c");
  restarts.join();  // bounded: by the driver's bounds, the card runs
  EXPECT_TRUE(restarted) << describe(restarted.error());
  EXPECT_EQ(card_->boots(), 2U);
}

}  // namespace
}  // namespace svp
