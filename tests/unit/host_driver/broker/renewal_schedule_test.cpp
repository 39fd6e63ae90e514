// SPDX-License-Identifier: Apache-2.0
// When windows are renewed beside owners that attach. The times are the test's own.
#include "host_driver/broker/renewal_schedule.hpp"

#include <gtest/gtest.h>

namespace svp {
namespace {

using Clock = RenewalSchedule::Clock;
constexpr Clock::time_point kBegin{std::chrono::hours{1}};
constexpr Clock::duration kInstant{1};

TEST(RenewalSchedule, BeginsAtOnceWhileNobodyAttaches) {
  RenewalSchedule schedule;
  EXPECT_FALSE(schedule.put_off(kBegin, false));
}

TEST(RenewalSchedule, DoesNotBeginWhileAnOwnerAttaches) {
  RenewalSchedule schedule;
  schedule.attaching(kBegin);
  for (int asked = 0; asked < 100; ++asked) EXPECT_EQ(schedule.put_off(kBegin, false), kBegin + kBringUpTakes);
  EXPECT_EQ(schedule.put_off(kBegin + kBringUpTakes - kInstant, false), kBegin + kBringUpTakes);
  EXPECT_FALSE(schedule.put_off(kBegin + kBringUpTakes, false)) << "and is not asked to come a third time";
}

TEST(RenewalSchedule, BeginsAtOnceWhenSomebodyWaitsForIt) {
  RenewalSchedule schedule;
  schedule.attaching(kBegin);
  EXPECT_FALSE(schedule.put_off(kBegin, true));
}

TEST(RenewalSchedule, IsPutOffForSoManyOwnersInARowAndNoMore) {
  RenewalSchedule schedule;
  auto now = kBegin;
  for (int round = 0; round < 3; ++round) {
    for (unsigned owner = 0; owner < kMostPutOffs; ++owner) {
      schedule.attaching(now += kInstant);
      EXPECT_TRUE(schedule.put_off(now, false)) << owner;
      EXPECT_TRUE(schedule.put_off(now, false)) << "asking again does not count";
    }
    schedule.attaching(now += kInstant);
    EXPECT_FALSE(schedule.put_off(now, false)) << "owners that come without end do not starve it";
  }
}

}  // namespace
}  // namespace svp
