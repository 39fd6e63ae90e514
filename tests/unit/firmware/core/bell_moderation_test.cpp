// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/bell_moderation.hpp"

#include <gtest/gtest.h>

namespace fw {
namespace {

// Turn and slice as hart 0's loop has them, while somebody rings `rings` times in a row for nothing.
void ring_for_nothing(BellModeration& bells, unsigned rings) {
  for (unsigned i = 0; i < rings; ++i) {
    bells.slice_ended(true);
    bells.turn_ended(false);
  }
}

TEST(BellModeration, AFewHollowBellsAreHeard) {
  BellModeration bells;
  ring_for_nothing(bells, kHollowBells - 1);
  EXPECT_FALSE(bells.deaf());
  EXPECT_EQ(bells.slice(kSliceTicks), kSliceTicks);
}

TEST(BellModeration, AFloodIsHeardOnceInSoManySlices) {
  BellModeration bells;
  unsigned heard = 0;
  constexpr unsigned kSlices = 900;
  for (unsigned i = 0; i < kSlices; ++i) {
    if (!bells.deaf()) ++heard;
    bells.slice_ended(!bells.deaf());
    bells.turn_ended(false);
  }
  EXPECT_EQ(heard, kHollowBells - 1 + (kSlices - (kHollowBells - 1) + kDeafSlices) / (kDeafSlices + 1));
}

TEST(BellModeration, ADeafSliceIsShortAndEndsWithALookAtEverybody) {
  BellModeration bells;
  ring_for_nothing(bells, kHollowBells);
  ASSERT_TRUE(bells.deaf());
  EXPECT_EQ(bells.slice(kSliceTicks), kDeafSliceTicks);
  EXPECT_EQ(bells.slice(kShortestSharedTicks), kShortestSharedTicks) << "a shorter one stays as it is";
  EXPECT_TRUE(bells.slice_ended(false));
}

TEST(BellModeration, BellsThatFindSomethingAreAlwaysHeard) {
  BellModeration bells;
  for (unsigned i = 0; i < 1000; ++i) {
    bells.slice_ended(true);
    bells.turn_ended(true);
    ASSERT_FALSE(bells.deaf());
  }
}

TEST(BellModeration, WorkInBetweenHidesNoFlood) {
  BellModeration bells;
  for (unsigned i = 0; i < kHollowBells; ++i) {
    bells.slice_ended(true);
    bells.turn_ended(true);
    ring_for_nothing(bells, 1);
  }
  EXPECT_TRUE(bells.deaf());
}

TEST(BellModeration, ASliceThatNobodyRangEndsTheCount) {
  BellModeration bells;
  for (unsigned i = 0; i < 100; ++i) {
    ring_for_nothing(bells, kHollowBells - 1);
    bells.slice_ended(false);
    bells.turn_ended(false);
    ASSERT_FALSE(bells.deaf());
  }
}

TEST(BellModeration, ATurnWithoutASliceCountsNothing) {
  BellModeration bells;
  bells.slice_ended(true);
  for (unsigned i = 0; i < 100; ++i) bells.turn_ended(false);
  EXPECT_FALSE(bells.deaf());
}

}  // namespace
}  // namespace fw
