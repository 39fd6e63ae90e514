// SPDX-License-Identifier: Apache-2.0
// What a control block costs hart 0. The bounds are about a sixth above what was counted (docs/performance.md,
// "Counts"). No batch counts less than its blocks cost (CountingCard::in_batches), so a dearer block fails whichever
// batch is taken.
#include <gtest/gtest.h>

#include "tests/bench/counts/counting_card.hpp"
#include "tests/support/blocks.hpp"

namespace counts {
namespace {

constexpr std::size_t kBatches = 100;

TEST(InstructionCounts, OfAnEmptyBlockStayBelowTheirBounds) {
  CountingCard card;
  const Cost cost = card.in_batches(svp::test::Blocks::nop(), kBatches).whole;
  EXPECT_GT(cost.instructions, 100) << "nothing was counted";
  EXPECT_LT(cost.instructions, 760);
  EXPECT_LT(cost.lookups, 5);
}

TEST(InstructionCounts, OfASmallTransferStayBelowTheirBounds) {
  CountingCard card;
  const StickTransfer transfer(card.context());
  const Cost cost = card.in_batches(transfer.block(), kBatches).whole;
  EXPECT_GT(cost.instructions, 500) << "nothing was counted";
  EXPECT_LT(cost.instructions, 1'560);
  EXPECT_LT(cost.lookups, 28);
}

TEST(InstructionCounts, OfAnEmptyKernelStayBelowTheirBounds) {
  CountingCard card;
  const auto job = bench::load_empty_kernel(card.context());
  const auto block = bench::compute_block(job, card.context().runtime().allocator());
  const Cost cost = card.in_batches(block, kBatches).whole;
  EXPECT_GT(cost.instructions, 1'000) << "nothing was counted";
  EXPECT_LT(cost.instructions, 4'400);
  EXPECT_LT(cost.lookups, 90);
}

}  // namespace
}  // namespace counts
