// SPDX-License-Identifier: Apache-2.0
// Timelines that are renewed while streams wait for them: by STREAM_CLOSE and STREAM_OPEN that nobody awaits, and by a
// reset of the function. A raw client does it; the card must not restart, whose restart would be everybody's.
#include <gtest/gtest.h>

#include <vector>

#include "tests/conformance/bare_slot.hpp"
#include "tests/conformance/provider.hpp"
#include "tests/validation/raw/raw_driver.hpp"

namespace svp::conformance {
namespace {

using raw::RawDriver;
using raw::StreamHandle;
using wire::AdminCommand;

class RenewedTimelines : public testing::Test {
 protected:
  RenewedTimelines() { EXPECT_TRUE(driver_.bring_up()); }
  ~RenewedTimelines() override { EXPECT_EQ(driver_.set_status(0), 0u); }

  // Every stream waits for `awaited`, and the card knows.
  void all_wait_for(const StreamHandle& awaited) {
    while (auto stream = driver_.open_stream()) driver_.submit(driver_.event_wait(*stream, awaited, 1));
    (void)driver_.admin(driver_.admin_request(AdminCommand::Stats));
  }
  void expect_same_boot() {
    EXPECT_EQ(driver_.header().boot_epoch, epoch_) << "the firmware restarted";
    provider().expect_alive();
    StreamHandle zero;
    EXPECT_EQ(driver_.run(driver_.nop(zero)).outcome, wire::Outcome::Ok);
  }

  BareSlot slot_{provider().slot()};
  RawDriver driver_{slot_.window(), [this] { slot_.pump(); }};
  const std::uint64_t epoch_ = driver_.header().boot_epoch;
};

TEST_F(RenewedTimelines, RestartNoCard) {
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(driver_.bring_up());
    const StreamHandle awaited = driver_.open_stream().value();
    all_wait_for(awaited);
    std::vector<std::uint16_t> slots{driver_.send_admin(driver_.stream_request(AdminCommand::StreamClose, awaited)),
                                     driver_.send_admin(driver_.admin_request(AdminCommand::StreamOpen))};
    for (const std::uint16_t slot : slots) ASSERT_TRUE(driver_.wait_admin(slot).has_value()) << "round " << round;
    (void)driver_.collect();
  }
  ASSERT_TRUE(driver_.bring_up());
  expect_same_boot();
}

TEST_F(RenewedTimelines, OfStreamZeroByAResetOfTheFunctionRestartNoCard) {
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(driver_.bring_up()) << "round " << round;
    all_wait_for(StreamHandle{});
    ASSERT_EQ(driver_.set_status(0), 0u) << "round " << round;
  }
  ASSERT_TRUE(driver_.bring_up());
  expect_same_boot();
}

}  // namespace
}  // namespace svp::conformance
