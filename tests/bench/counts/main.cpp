// SPDX-License-Identifier: Apache-2.0
// spyre_counts: what hart 0 executes for a control block, counted in the emulator (scripts/count-instructions).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "host_driver/ops/operations.hpp"
#include "tests/bench/counts/counting_card.hpp"
#include "tests/support/blocks.hpp"

namespace {

using counts::Cost;
using counts::Counted;

constexpr std::size_t kBatches = 200;
constexpr std::size_t kRoundTrips = 10'000;

// An addition of two tensors of `rows` times `columns` elements.
Counted addition(counts::CountingCard& card, svp::Operations& operations, std::int64_t rows, std::int64_t columns) {
  const svp::SpyreTensor x = card.context().empty(svp::DataType::Float16, {rows, columns});
  const std::vector<svp::SpyreTensor> inputs{x, x};
  const svp::OperationOptions options{.stream = {}, .out = x};
  return card.launched([&] { operations.run(svp::ops::Op::Add, inputs, {}, {}, options); }, kBatches);
}

void print_row(std::string_view what, const Cost& cost) {
  fmt::print("| {:<58.58} | {:>12.1f} | {:>9.1f} | {:>7.2f} | {:>6.2f} |\n", what, cost.instructions, cost.blocks,
             cost.lookups, cost.misses);
}

void print_head(std::string_view what) {
  fmt::print(
      "| {:<58} | instructions | tr.blocks | lookups | misses "
      "|\n|{:-<60}|-------------:|----------:|--------:|-------:|\n",
      what, "");
}

void print_functions(std::string_view what, const Counted& counted, std::size_t most) {
  std::vector<std::pair<std::string, Cost>> rows(counted.functions.begin(), counted.functions.end());
  std::ranges::sort(rows, [](const auto& a, const auto& b) { return a.second.instructions > b.second.instructions; });
  if (rows.size() > most) rows.resize(most);
  fmt::print("\n");
  print_head(what);
  for (const auto& [name, cost] : rows) print_row(name, cost);
}

int run(int argc, char** argv) {
  CLI::App app{"spyre_counts: what hart 0 executes for a control block, counted in the emulator"};
  std::size_t functions = 0;
  app.add_option("--functions", functions, "also the N most expensive functions of the firmware, for each row");
  CLI11_PARSE(app, argc, argv);
  counts::CountingCard card, eliding({.elides_corrections = true});
  const auto job = bench::load_empty_kernel(card.context());
  const auto nop = svp::test::Blocks::nop();
  const auto kernel = bench::compute_block(job, card.context().runtime().allocator());
  const auto prepared = bench::call_block(card.context(), kernel, 1);
  const auto call = bench::call_block(card.context(), kernel, wire::kMaxBufferBlocks);
  const counts::StickTransfer transfer(card.context());
  svp::Operations operations(card.context()), again(eliding.context());
  const std::vector<std::pair<std::string, Counted>> rows{
      {"empty control block, in a batch", card.in_batches(nop, kBatches)},
      {"empty kernel, in a batch", card.in_batches(kernel, kBatches)},
      {"the same, PREPARED", card.in_batches(prepared, kBatches)},
      {"a CALL of 64 of them", card.in_batches(call, kBatches / 10)},
      {"transfer of a stick to the card, in a batch", card.in_batches(transfer.block(), kBatches)},
      {"program of one addition, one stick", addition(card, operations, 1, 64)},
      {"program of one addition, [64,128]", addition(card, operations, 64, 128)},
      {"one stick, its correction is on the card", addition(eliding, again, 1, 64)},
      {"[64,128], its correction is on the card", addition(eliding, again, 64, 128)},
      {"empty control block alone, with the polls of its wait", card.one_by_one(nop, kRoundTrips)},
  };
  print_head("of hart 0, per block");
  for (const auto& [what, counted] : rows) print_row(what, counted.whole);
  for (const auto& [what, counted] : rows) {
    if (functions != 0) print_functions(what, counted, functions);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "spyre_counts: {}\n", error.what());
    return 1;
  }
}
