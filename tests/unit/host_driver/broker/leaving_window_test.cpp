// SPDX-License-Identifier: Apache-2.0
// What becomes of a window that is not unplugged.
#include "host_driver/broker/leaving_window.hpp"

#include <gtest/gtest.h>

namespace svp {
namespace {

using Next = LeavingWindow::Next;

LeavingWindow after_looks(bool bound, unsigned looks) {
  LeavingWindow window(bound);
  for (unsigned i = 0; i < looks; ++i) window.look();
  return window;
}

TEST(LeavingWindow, IsLookedAtSoonFirst) {
  for (const bool bound : {false, true}) {
    EXPECT_FALSE(LeavingWindow(bound).looked_at());
    EXPECT_EQ(LeavingWindow(bound).next(), Next::LookSoon);
    EXPECT_TRUE(after_looks(bound, 1).looked_at());
    EXPECT_EQ(after_looks(bound, kUnplugLooks - 1).next(), Next::LookSoon);
  }
}

TEST(LeavingWindow, ThatWasPerhapsNeverBoundServesTheNextOwner) {
  EXPECT_EQ(after_looks(false, kUnplugLooks).next(), Next::TakeBack);
}

// The card refuses its serial: the function that got it would be stuck.
TEST(LeavingWindow, ThatWasBoundIsNeverTakenBack) {
  EXPECT_EQ(after_looks(true, kUnplugLooks).next(), Next::LookLater);
  EXPECT_EQ(after_looks(true, 100 * kUnplugLooks).next(), Next::LookLater);
}

}  // namespace
}  // namespace svp
