// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/interrupt_moderation.hpp"

#include <gtest/gtest.h>

namespace fw {
namespace {

// Turn and slice as hart 0's loop has them, while somebody rings `rings` times in a row for nothing.
void ring_for_nothing(InterruptModeration& doorbells, unsigned rings) {
  for (unsigned i = 0; i < rings; ++i) {
    doorbells.slice_ended(true);
    doorbells.turn_ended(false);
  }
}

TEST(InterruptModeration, AFewSpuriousDoorbellsAreHeard) {
  InterruptModeration doorbells;
  ring_for_nothing(doorbells, kSpuriousDoorbells - 1);
  EXPECT_FALSE(doorbells.masked());
  EXPECT_EQ(doorbells.slice(kSliceTicks), kSliceTicks);
}

TEST(InterruptModeration, AFloodIsHeardOnceInSoManySlices) {
  InterruptModeration doorbells;
  unsigned heard = 0;
  constexpr unsigned kSlices = 900;
  for (unsigned i = 0; i < kSlices; ++i) {
    if (!doorbells.masked()) ++heard;
    doorbells.slice_ended(!doorbells.masked());
    doorbells.turn_ended(false);
  }
  EXPECT_EQ(heard, kSpuriousDoorbells - 1 + (kSlices - (kSpuriousDoorbells - 1) + kMaskedSlices) / (kMaskedSlices + 1));
}

TEST(InterruptModeration, AMaskedSliceIsShortAndEndsWithALookAtEverybody) {
  InterruptModeration doorbells;
  ring_for_nothing(doorbells, kSpuriousDoorbells);
  ASSERT_TRUE(doorbells.masked());
  EXPECT_EQ(doorbells.slice(kSliceTicks), kMaskedSliceTicks);
  EXPECT_EQ(doorbells.slice(kShortestSharedTicks), kShortestSharedTicks) << "a shorter one stays as it is";
  EXPECT_TRUE(doorbells.slice_ended(false));
}

TEST(InterruptModeration, DoorbellsThatFindSomethingAreAlwaysHeard) {
  InterruptModeration doorbells;
  for (unsigned i = 0; i < 1000; ++i) {
    doorbells.slice_ended(true);
    doorbells.turn_ended(true);
    ASSERT_FALSE(doorbells.masked());
  }
}

TEST(InterruptModeration, WorkInBetweenHidesNoFlood) {
  InterruptModeration doorbells;
  for (unsigned i = 0; i < kSpuriousDoorbells; ++i) {
    doorbells.slice_ended(true);
    doorbells.turn_ended(true);
    ring_for_nothing(doorbells, 1);
  }
  EXPECT_TRUE(doorbells.masked());
}

TEST(InterruptModeration, ASliceThatNobodyRangEndsTheCount) {
  InterruptModeration doorbells;
  for (unsigned i = 0; i < 100; ++i) {
    ring_for_nothing(doorbells, kSpuriousDoorbells - 1);
    doorbells.slice_ended(false);
    doorbells.turn_ended(false);
    ASSERT_FALSE(doorbells.masked());
  }
}

TEST(InterruptModeration, ATurnWithoutASliceCountsNothing) {
  InterruptModeration doorbells;
  doorbells.slice_ended(true);
  for (unsigned i = 0; i < 100; ++i) doorbells.turn_ended(false);
  EXPECT_FALSE(doorbells.masked());
}

}  // namespace
}  // namespace fw
