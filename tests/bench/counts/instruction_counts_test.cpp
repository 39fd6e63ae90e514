// SPDX-License-Identifier: Apache-2.0
// What a control block costs hart 0. The bounds are about a sixth above what was counted (docs/performance.md,
// "Counts"). No batch counts less than its blocks cost (CountingCard::in_batches): one batch below the bounds shows
// that the block is, and a block that costs more has no such batch.
#include <gtest/gtest.h>

#include "tests/bench/counts/counting_card.hpp"
#include "tests/support/blocks.hpp"

namespace counts {
namespace {

TEST(InstructionCounts, OfAnEmptyBlockStayBelowTheirBounds) {
  CountingCard card;
  constexpr Bounds kBounds{.instructions = 760, .lookups = 5};
  const Cost cost = card.below(svp::test::Blocks::nop(), kBounds);
  EXPECT_GT(cost.instructions, 100) << "nothing was counted";
  EXPECT_LT(cost.instructions, kBounds.instructions);
  EXPECT_LT(cost.lookups, kBounds.lookups);
}

TEST(InstructionCounts, OfASmallTransferStayBelowTheirBounds) {
  CountingCard card;
  const StickTransfer transfer(card.context());
  constexpr Bounds kBounds{.instructions = 1'560, .lookups = 28};
  const Cost cost = card.below(transfer.block(), kBounds);
  EXPECT_GT(cost.instructions, 500) << "nothing was counted";
  EXPECT_LT(cost.instructions, kBounds.instructions);
  EXPECT_LT(cost.lookups, kBounds.lookups);
}

TEST(InstructionCounts, OfAnEmptyKernelStayBelowTheirBounds) {
  CountingCard card;
  const auto job = bench::load_empty_kernel(card.context());
  const auto block = bench::compute_block(job, card.context().runtime().allocator());
  constexpr Bounds kBounds{.instructions = 1'680, .lookups = 30};
  const Cost cost = card.below(block, kBounds);
  EXPECT_GT(cost.instructions, 1'000) << "nothing was counted";
  EXPECT_LT(cost.instructions, kBounds.instructions);
  EXPECT_LT(cost.lookups, kBounds.lookups);
}

}  // namespace
}  // namespace counts
