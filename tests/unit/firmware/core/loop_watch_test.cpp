// SPDX-License-Identifier: Apache-2.0
// The watch over hart 0's loop: it counts ticks that were delivered to it, and a loop that advances is never reported.
#include "firmware/core/loop_watch.hpp"

#include <gtest/gtest.h>

#include <string>

#include "firmware/hal/record.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fw::LoopWatch;

class LoopWatchTest : public ::testing::Test {
 protected:
  void boot(const std::string& words) {
    card_ = std::make_unique<fwtest::TestCard>(fwtest::CardOptions{.boot_arguments = words});
  }
  // Looks so often within each of `ticks` ticks; the tick that accused, or 0.
  unsigned look(unsigned ticks, unsigned looks_per_tick = 1) {
    for (unsigned tick = 1; tick <= ticks; ++tick) {
      for (unsigned i = 0; i < looks_per_tick; ++i) {
        if (watch_.stands_still(card_->card(), now_ + LoopWatch::kTicks * i / looks_per_tick)) return tick;
      }
      now_ += LoopWatch::kTicks;
    }
    return 0;
  }

  std::unique_ptr<fwtest::TestCard> card_;
  LoopWatch watch_;
  std::uint64_t now_ = 1;
};

TEST_F(LoopWatchTest, ALoopThatStandsStillIsAccusedAfterItsTime) {
  boot("loop_watchdog_ms=1000");
  card_->run_until_idle();
  EXPECT_EQ(look(100), 1 + 1000 / LoopWatch::kTickMs);
}

TEST_F(LoopWatchTest, LooksWithinATickDoNotCount) {
  boot("loop_watchdog_ms=1000");
  card_->run_until_idle();
  EXPECT_EQ(look(100, 50), 1 + 1000 / LoopWatch::kTickMs);
}

TEST_F(LoopWatchTest, ATickThatCameLateIsOneTick) {
  boot("loop_watchdog_ms=1000");
  card_->run_until_idle();
  ASSERT_EQ(look(10), 0u);
  now_ += 1000 * LoopWatch::kTicks;  // the machine had no time for the watching hart
  EXPECT_EQ(look(10), 0u);
}

TEST_F(LoopWatchTest, OneIterationInTimeIsEnough) {
  boot("loop_watchdog_ms=1000");
  for (unsigned i = 0; i < 20; ++i) {
    fw::run_iteration(card_->card());
    EXPECT_EQ(look(1000 / LoopWatch::kTickMs - 1), 0u);
  }
}

TEST_F(LoopWatchTest, ZeroMeansNever) {
  boot("loop_watchdog_ms=0");
  EXPECT_EQ(look(10'000), 0u);
}

TEST_F(LoopWatchTest, WithoutTimersASleepMayLast) {
  boot("loop_watchdog_ms=1000 timers=0");
  hal::mark(wire::Waypoint::Sleep);
  EXPECT_EQ(look(1'000), 0u);
  hal::mark(wire::Waypoint::Dma);
  EXPECT_NE(look(1'000), 0u);
}

TEST_F(LoopWatchTest, WithTimersItMayNot) {
  boot("loop_watchdog_ms=1000");
  hal::mark(wire::Waypoint::Sleep);
  EXPECT_NE(look(1'000), 0u);
}

}  // namespace
