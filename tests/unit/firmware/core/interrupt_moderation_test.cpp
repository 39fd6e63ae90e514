// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/interrupt_moderation.hpp"

#include <gtest/gtest.h>

namespace fw {
namespace {

// Iteration and slice as hart 0's loop has them, while somebody rings `rings` times in a row for nothing.
void ring_for_nothing(InterruptModeration& doorbells, unsigned rings) {
  for (unsigned i = 0; i < rings; ++i) {
    doorbells.slice_ended(true);
    doorbells.iteration_ended(false);
  }
}

TEST(InterruptModeration, AFewSpuriousDoorbellsAreServed) {
  InterruptModeration doorbells;
  ring_for_nothing(doorbells, kSpuriousDoorbells - 1);
  EXPECT_FALSE(doorbells.masked());
  EXPECT_EQ(doorbells.slice(kSliceTicks), kSliceTicks);
}

TEST(InterruptModeration, AFloodIsServedOnceInSoManySlices) {
  InterruptModeration doorbells;
  unsigned served = 0;
  constexpr unsigned kSlices = 900;
  for (unsigned i = 0; i < kSlices; ++i) {
    if (!doorbells.masked()) ++served;
    doorbells.slice_ended(!doorbells.masked());
    doorbells.iteration_ended(false);
  }
  EXPECT_EQ(served,
            kSpuriousDoorbells - 1 + (kSlices - (kSpuriousDoorbells - 1) + kMaskedSlices) / (kMaskedSlices + 1));
}

TEST(InterruptModeration, AMaskedSliceIsShortAndEndsWithALookAtEverybody) {
  InterruptModeration doorbells;
  ring_for_nothing(doorbells, kSpuriousDoorbells);
  ASSERT_TRUE(doorbells.masked());
  EXPECT_EQ(doorbells.slice(kSliceTicks), kMaskedSliceTicks);
  EXPECT_EQ(doorbells.slice(kShortestSharedTicks), kShortestSharedTicks) << "a shorter one stays as it is";
  EXPECT_TRUE(doorbells.slice_ended(false));
}

TEST(InterruptModeration, DoorbellsThatFindSomethingAreAlwaysServed) {
  InterruptModeration doorbells;
  for (unsigned i = 0; i < 1000; ++i) {
    doorbells.slice_ended(true);
    doorbells.iteration_ended(true);
    ASSERT_FALSE(doorbells.masked());
  }
}

TEST(InterruptModeration, WorkInBetweenHidesNoFlood) {
  InterruptModeration doorbells;
  for (unsigned i = 0; i < kSpuriousDoorbells; ++i) {
    doorbells.slice_ended(true);
    doorbells.iteration_ended(true);
    ring_for_nothing(doorbells, 1);
  }
  EXPECT_TRUE(doorbells.masked());
}

TEST(InterruptModeration, ASliceThatNobodyRangEndsTheCount) {
  InterruptModeration doorbells;
  for (unsigned i = 0; i < 100; ++i) {
    ring_for_nothing(doorbells, kSpuriousDoorbells - 1);
    doorbells.slice_ended(false);
    doorbells.iteration_ended(false);
    ASSERT_FALSE(doorbells.masked());
  }
}

// The rings were looked at before the slice began: what the doorbell was for is found by the next iteration.
TEST(InterruptModeration, ADoorbellInsideOfAnIterationIsJudgedByTheNextOne) {
  InterruptModeration doorbells;
  for (unsigned i = 0; i < 100; ++i) {
    doorbells.slice_inside_ended(true);
    doorbells.iteration_ended(true);
    doorbells.slice_ended(false);
    doorbells.iteration_ended(true);
    ASSERT_FALSE(doorbells.masked());
  }
  for (unsigned i = 0; i < kSpuriousDoorbells; ++i) {
    doorbells.slice_inside_ended(true);
    doorbells.iteration_ended(true);
    doorbells.slice_ended(false);
    doorbells.iteration_ended(false);
  }
  EXPECT_TRUE(doorbells.masked());
}

TEST(InterruptModeration, AnIterationWithoutASliceCountsNothing) {
  InterruptModeration doorbells;
  doorbells.slice_ended(true);
  for (unsigned i = 0; i < 100; ++i) doorbells.iteration_ended(false);
  EXPECT_FALSE(doorbells.masked());
}

}  // namespace
}  // namespace fw
