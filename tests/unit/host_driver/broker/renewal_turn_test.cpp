// SPDX-License-Identifier: Apache-2.0
// When windows are renewed beside owners that attach. The times are the test's own.
#include "host_driver/broker/renewal_turn.hpp"

#include <gtest/gtest.h>

namespace svp {
namespace {

using Clock = RenewalTurn::Clock;
constexpr Clock::time_point kBegin{std::chrono::hours{1}};
constexpr Clock::duration kInstant{1};

TEST(RenewalTurn, BeginsAtOnceWhileNobodyAttaches) {
  RenewalTurn turn;
  EXPECT_FALSE(turn.put_off(kBegin, false));
}

TEST(RenewalTurn, DoesNotBeginWhileAnOwnerAttaches) {
  RenewalTurn turn;
  turn.attaching(kBegin);
  for (int asked = 0; asked < 100; ++asked) EXPECT_EQ(turn.put_off(kBegin, false), kBegin + kBringUpTakes);
  EXPECT_EQ(turn.put_off(kBegin + kBringUpTakes - kInstant, false), kBegin + kBringUpTakes);
  EXPECT_FALSE(turn.put_off(kBegin + kBringUpTakes, false)) << "and is not asked to come a third time";
}

TEST(RenewalTurn, BeginsAtOnceWhenSomebodyWaitsForIt) {
  RenewalTurn turn;
  turn.attaching(kBegin);
  EXPECT_FALSE(turn.put_off(kBegin, true));
}

TEST(RenewalTurn, IsPutOffForSoManyOwnersInARowAndNoMore) {
  RenewalTurn turn;
  auto now = kBegin;
  for (int round = 0; round < 3; ++round) {
    for (unsigned owner = 0; owner < kMostPutOffs; ++owner) {
      turn.attaching(now += kInstant);
      EXPECT_TRUE(turn.put_off(now, false)) << owner;
      EXPECT_TRUE(turn.put_off(now, false)) << "asking again does not count";
    }
    turn.attaching(now += kInstant);
    EXPECT_FALSE(turn.put_off(now, false)) << "owners that come without end do not starve it";
  }
}

}  // namespace
}  // namespace svp
