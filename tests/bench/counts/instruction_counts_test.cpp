// SPDX-License-Identifier: Apache-2.0
// What a control block costs hart 0. The bounds are about a sixth above what was counted (docs/performance.md,
// "Counts"). No batch counts less than its blocks cost (CountingCard::in_batches): one batch below the bounds shows
// that the block is, and a block that costs more has no such batch.
#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <string>

#include "host_driver/ops/operations.hpp"
#include "tests/bench/counts/counting_card.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/expected_array.hpp"

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

TEST(InstructionCounts, OfAPreparedKernelAndOfACallStayBelowTheirBounds) {
  CountingCard card;
  const auto job = bench::load_empty_kernel(card.context());
  const auto kernel = bench::compute_block(job, card.context().runtime().allocator());
  constexpr Bounds kPrepared{.instructions = 1'720, .lookups = 33};
  const Cost prepared = card.below(bench::call_block(card.context(), kernel, 1), kPrepared);
  EXPECT_GT(prepared.instructions, 1'000) << "nothing was counted";
  EXPECT_LT(prepared.instructions, kPrepared.instructions);
  EXPECT_LT(prepared.lookups, kPrepared.lookups);
  // Of a kernel in a call: no block is fetched and no completion written for it.
  constexpr double kKernels = wire::kMaxBufferBlocks;
  constexpr Bounds kCall{.instructions = 1'030 * kKernels, .lookups = 30 * kKernels};
  const Cost call = card.below(bench::call_block(card.context(), kernel, wire::kMaxBufferBlocks), kCall);
  EXPECT_GT(call.instructions, 500 * kKernels) << "nothing was counted";
  EXPECT_LT(call.instructions, kCall.instructions);
  EXPECT_LT(call.lookups, kCall.lookups);
}

// With its correction's transfer. Checking the program at each launch takes it over the bound.
TEST(InstructionCounts, OfAProgramThatWasLaunchedBeforeStayBelowTheirBounds) {
  CountingCard card;
  svp::Operations operations(card.context());
  const svp::SpyreTensor x = card.context().empty(svp::DataType::Float16, {1, 64});
  const std::vector<svp::SpyreTensor> inputs{x, x};
  const svp::OperationOptions options{.stream = {}, .out = x};
  constexpr Bounds kBounds{.instructions = 7'100, .lookups = 170};
  const Cost cost = card.launched_below([&] { operations.run(svp::ops::Op::Add, inputs, {}, {}, options); }, kBounds);
  EXPECT_GT(cost.instructions, 3'000) << "nothing was counted";
  EXPECT_LT(cost.instructions, kBounds.instructions);
  EXPECT_LT(cost.lookups, kBounds.lookups);
}

// Two in turn, as the operations of a model, on the same tensors each time: the engine remembers both programs and the
// driver both correction tensors.
TEST(InstructionCounts, OfProgramsThatWereLaunchedInTurnStayBelowTheirBounds) {
  CountingCard card({.elides_corrections = true});
  svp::Operations operations(card.context());
  const svp::SpyreTensor x = card.context().empty(svp::DataType::Float16, {1, 64});
  const std::vector<svp::SpyreTensor> inputs{x, x};
  const svp::OperationOptions options{.stream = {}, .out = x};
  constexpr Bounds kBounds{.instructions = 5'600, .lookups = 155};
  bool adds = false;
  const auto launch = [&] {
    adds = !adds;
    operations.run(adds ? svp::ops::Op::Add : svp::ops::Op::Maximum, inputs, {}, {}, options);
  };
  const Cost cost = card.launched_below(launch, kBounds);
  EXPECT_GT(cost.instructions, 3'000) << "nothing was counted";
  EXPECT_LT(cost.instructions, kBounds.instructions);
  EXPECT_LT(cost.lookups, kBounds.lookups);
}

// What the engine gives to the compute array costs it less than the bound; a card without array, which executes it
// itself, more than twice as much.
TEST(InstructionCounts, OfWhatTheComputeArrayHasTellWhetherItIsAsked) {
  CountingCard card;
  const bool has_array = svp::test::cards_have_array();
  svp::Operations operations(card.context());
  const auto tensor = [&](std::vector<std::int64_t> shape) {
    return card.context().empty(svp::DataType::Float16, std::move(shape));
  };
  const svp::SpyreTensor x = tensor({64, 1024}), wide = tensor({64, 4096}), tall = tensor({1024, 64});
  const svp::SpyreTensor few = tensor({16, 1024}), short_lines = tensor({16, 64});
  const svp::SpyreTensor row = tensor({1, 512}), matrix = tensor({512, 512});
  const svp::SpyreTensor left = tensor({64, 256}), right = tensor({256, 64});
  const std::vector<std::int32_t> first_row(64);
  const svp::SpyreTensor index = card.context().to_device(
      {svp::HostShape::contiguous(svp::DataType::Int32, {64}), std::as_bytes(std::span(first_row))});
  struct Given {
    const char* name;
    svp::ops::Op op;
    std::vector<svp::SpyreTensor> inputs;
    std::vector<std::int64_t> integers;
    double most;  // instructions with the array
  };
  const std::vector<std::int64_t> rows{1, 0}, columns{0, 0};  // the dimension; it goes
  const Given given[] = {{"add", svp::ops::Op::Add, {x, x}, {}, 10'000},
                         {"matmul", svp::ops::Op::MatMul, {left, right}, {}, 33'000},
                         {"matmul of one row", svp::ops::Op::MatMul, {row, matrix}, {}, 14'500},
                         {"sum along the stick", svp::ops::Op::Sum, {x}, rows, 11'500},
                         {"sum across sticks", svp::ops::Op::Sum, {x}, columns, 11'500},
                         {"sum across 1024 sticks", svp::ops::Op::Sum, {tall}, columns, 10'000},
                         {"max along the stick", svp::ops::Op::Max, {wide}, rows, 16'000},
                         {"layer norm", svp::ops::Op::LayerNorm, {x}, {}, 27'500},
                         {"transposed copy", svp::ops::Op::Copy, {x.transpose(0, 1)}, {}, 12'000},
                         {"embedding", svp::ops::Op::Embedding, {x, index}, {}, 17'500},
                         {"top 8 along the stick", svp::ops::Op::TopK, {few}, {8, 1}, 45'000},
                         {"top 8 across sticks", svp::ops::Op::TopK, {short_lines}, {8, 0}, 78'000}};
  for (const Given& each : given) {
    SCOPED_TRACE(each.name);
    const svp::SpyreTensor out = operations.run(each.op, each.inputs, {}, each.integers).front();
    svp::OperationOptions options{.stream = {}, .out = out};
    if (each.op == svp::ops::Op::TopK) options.out.reset();  // it has two results
    const auto launch = [&] { operations.run(each.op, each.inputs, {}, each.integers, options); };
    if (has_array) {
      const Bounds bounds{.instructions = each.most, .lookups = std::numeric_limits<double>::infinity()};
      EXPECT_LT(card.launched_below(launch, bounds).instructions, each.most);
    } else {
      EXPECT_GT(card.launched(launch, 2).whole.instructions, 2 * each.most);
    }
  }
}

}  // namespace
}  // namespace counts
