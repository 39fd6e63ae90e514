// SPDX-License-Identifier: Apache-2.0
// The longest requests of the compute array (docs/array.md), which the host executes while a hart waits: what a request
// is bounded by. Products and sums are slower on numbers whose exponents lie far apart, and on infinities.
//
//   array_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "qemu/array/blocks.hpp"
#include "qemu/array/chunk.hpp"
#include "qemu/array/convert.hpp"
#include "qemu/array/copies.hpp"
#include "qemu/array/lines.hpp"
#include "qemu/array/rows.hpp"
#include "qemu/array/top_k.hpp"
#include "shared/device_program.hpp"
#include "shared/dl16.hpp"

namespace {

using svp::array::BlocksPlan;
using svp::array::ChunkPlan;
using svp::array::ConvertPlan;
using svp::array::CopiesPlan;
using svp::array::LinesPlan;
using svp::array::RowsPlan;
using svp::array::TopKPlan;
using wire::program::Format;
using wire::program::Opcode;

constexpr unsigned kLanes = wire::kStickBytes / sizeof(wire::Dl16);

// Exponents in the middle, `binades` of them; 0: infinities.
std::vector<wire::Dl16> numbers(std::size_t sticks, unsigned binades) {
  std::mt19937 random(1);
  std::vector<wire::Dl16> codes(sticks * kLanes);
  for (wire::Dl16& code : codes) {
    const auto word = static_cast<std::uint32_t>(random());
    const unsigned exponent = binades == 0 ? 0 : 31 - binades / 2 + (word >> 16) % binades;
    code =
        static_cast<wire::Dl16>(binades == 0 ? wire::kDl16Infinity | (word & 0x8000) : (word & 0x81FF) | exponent << 9);
  }
  return codes;
}

// Of range(0) rows and range(1) k, numbers of the rows spread over range(2) binades. Beyond 17 each row of more than a
// few is split.
void product(benchmark::State& state) {
  const auto count = static_cast<std::uint32_t>(state.range(0));
  const auto depth = static_cast<std::uint32_t>(state.range(1));
  const auto rows = numbers(std::size_t{count} * depth / kLanes, static_cast<unsigned>(state.range(2)));
  const auto panel = numbers(depth, 10);
  std::vector<float> sums(std::size_t{count} * kLanes);
  const auto plan = std::make_unique<ChunkPlan>();
  plan->request = {};
  plan->request.rows = count;
  plan->request.depth = depth;
  plan->request.lanes = kLanes;
  for (std::size_t i = 0; i < count * depth / kLanes; ++i) {
    plan->row[i] = reinterpret_cast<const std::byte*>(&rows[i * kLanes]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t half = 0; half < 2; ++half) {
      plan->sums[i][half] = reinterpret_cast<std::byte*>(&sums[(half * count + i) * kLanes / 2]);
    }
  }
  for (std::size_t k = 0; k < depth; ++k) plan->panel[k] = reinterpret_cast<const std::byte*>(&panel[k * kLanes]);
  for ([[maybe_unused]] auto _ : state) {
    if (execute(*plan) != depth) return state.SkipWithError("not all of it was done");
  }
}
BENCHMARK(product)
    ->ArgNames({"rows", "k", "binades"})
    ->ArgsProduct({{wire::array::kMaxRows}, {wire::array::kMaxDepth}, {8, 34}})
    ->ArgsProduct({{1, 2, wire::array::kFewRows}, {wire::array::kMaxFewDepth}, {8}})
    ->Unit(benchmark::kMicrosecond);

// The codes of FP8 among them have no NaN.
void product_fp8(benchmark::State& state) {
  constexpr unsigned kRows = wire::array::kMaxRows;
  auto rows = numbers(kRows, 8), panel = numbers(wire::array::kMaxDepth / 2, 8);
  for (auto* const codes : {&rows, &panel}) {
    for (wire::Dl16& two : *codes) two &= 0xFEFE;
  }
  std::vector<float> sums(std::size_t{kRows} * kLanes);
  const auto plan = std::make_unique<ChunkPlan>();
  plan->request = {};
  plan->request.format = static_cast<std::uint32_t>(Format::Fp8E4m3);
  plan->request.rows = kRows;
  plan->request.depth = wire::array::kMaxDepth;
  plan->request.lanes = kLanes;
  for (std::size_t i = 0; i < kRows; ++i) {
    plan->row[i] = reinterpret_cast<const std::byte*>(&rows[i * kLanes]);
    for (std::size_t half = 0; half < 2; ++half) {
      plan->sums[i][half] = reinterpret_cast<std::byte*>(&sums[(half * kRows + i) * kLanes / 2]);
    }
  }
  for (std::size_t k = 0; k < wire::array::kMaxDepth / 2; ++k) {
    plan->panel[k] = reinterpret_cast<const std::byte*>(&panel[k * kLanes]);
  }
  for ([[maybe_unused]] auto _ : state) {
    if (!execute(*plan)) return state.SkipWithError("refused");
  }
}
BENCHMARK(product_fp8)->Unit(benchmark::kMicrosecond);

// Of range(0) lines whose numbers spread over range(1) binades.
void reduction(benchmark::State& state, Opcode opcode, Format format, bool along) {
  const auto lines = static_cast<std::uint32_t>(state.range(0));
  const std::uint64_t sticks = wire::array::most_line_sticks(opcode);
  const auto input = numbers(sticks, static_cast<unsigned>(state.range(1)));
  std::vector<std::byte> output(std::size_t{lines} * wire::kStickBytes);
  const auto plan = std::make_unique<LinesPlan>();
  plan->request = {};
  plan->request.opcode = static_cast<std::uint32_t>(opcode);
  plan->request.format = static_cast<std::uint32_t>(format);
  plan->request.along = along ? 1 : 0;
  plan->request.lines = lines;
  plan->request.sticks = static_cast<std::uint32_t>(sticks) / lines;
  plan->request.lanes = format == Format::Dl16 ? kLanes : kLanes / 2;
  for (std::size_t n = 0; n < sticks; ++n) {
    plan->stick[n] = reinterpret_cast<const std::byte*>(&input[n * kLanes]);
  }
  for (std::size_t i = 0; i < lines; ++i) plan->result[i] = &output[i * wire::kStickBytes];
  for ([[maybe_unused]] auto _ : state) execute(*plan);
}
void all_sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgsProduct({{1, wire::array::kMaxLines}, {8, 60, 0}})->Unit(benchmark::kMicrosecond);
}
BENCHMARK_CAPTURE(reduction, sum_across_dl16, Opcode::Sum, Format::Dl16, false)->Apply(all_sizes);
BENCHMARK_CAPTURE(reduction, sum_along_dl16, Opcode::Sum, Format::Dl16, true)->Apply(all_sizes);
BENCHMARK_CAPTURE(reduction, sum_along_fp32, Opcode::Sum, Format::Fp32, true)->Apply(all_sizes);
BENCHMARK_CAPTURE(reduction, max_across_dl16, Opcode::Max, Format::Dl16, false)->Apply(all_sizes);
BENCHMARK_CAPTURE(reduction, exx2_dl16, Opcode::Exx2, Format::Dl16, true)->Apply(all_sizes);
BENCHMARK_CAPTURE(reduction, exx2_fp32, Opcode::Exx2, Format::Fp32, true)->Apply(all_sizes);

// Sticks that follow each other. What stands for a pair of LayerNorm's are numbers as good as others.
void row(benchmark::State& state, Opcode opcode, Format format, unsigned inputs) {
  auto input = numbers(wire::array::kMaxSticks, 8);
  std::vector<std::byte> output(wire::array::kMaxSticks * wire::kStickBytes);
  const auto plan = std::make_unique<RowsPlan>();
  plan->request = {};
  plan->request.opcode = static_cast<std::uint32_t>(opcode);
  plan->request.format = static_cast<std::uint32_t>(format);
  plan->request.inputs = inputs;
  plan->request.count = wire::array::kMaxSticks;
  for (auto& operand : plan->request.row) operand.step = wire::kStickBytes;
  const auto table = numbers(wire::array::kTableBytes / wire::kStickBytes, 60);
  plan->table = reinterpret_cast<const std::byte*>(table.data());
  plan->stretches = 1;
  plan->stretch[0].count = wire::array::kMaxSticks;
  plan->stretch[0].at.fill(reinterpret_cast<std::byte*>(input.data()));
  plan->stretch[0].at[wire::array::kOutput] = output.data();
  for ([[maybe_unused]] auto _ : state) execute(*plan);
}
BENCHMARK_CAPTURE(row, add_dl16, Opcode::Add, Format::Dl16, 2)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(row, maximum_dl16, Opcode::Maximum, Format::Dl16, 2)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(row, clip_dl16, Opcode::Clip, Format::Dl16, 1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(row, floor_dl16, Opcode::Floor, Format::Dl16, 1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(row, less_dl16, Opcode::Less, Format::Dl16, 2)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(row, where_dl16, Opcode::Where, Format::Dl16, 3)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(row, exp_dl16, Opcode::Exp, Format::Dl16, 1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(row, add_fp32, Opcode::Add, Format::Fp32, 2)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(row, div_fp32, Opcode::Div, Format::Fp32, 2)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(row, div_dl16, Opcode::Div, Format::Dl16, 2)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(row, layer_norm_scale_dl16, Opcode::LayerNormScale, Format::Dl16, 1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(row, layer_norm_norm_dl16, Opcode::LayerNormNorm, Format::Dl16, 5)->Unit(benchmark::kMicrosecond);

// Units that follow each other, as do the sticks of each.
void conversion(benchmark::State& state, Opcode opcode, Format from, Format to) {
  const std::uint64_t lanes = std::max(wire::program::lanes_of(from), wire::program::lanes_of(to));
  const std::uint64_t units = wire::array::kMaxConverted / lanes;
  const auto plan = std::make_unique<ConvertPlan>();
  plan->request = {};
  plan->request.opcode = static_cast<std::uint32_t>(opcode);
  plan->request.from_format = static_cast<std::uint32_t>(from);
  plan->request.to_format = static_cast<std::uint32_t>(to);
  plan->request.from_sticks = wire::array::unit_sticks(from, to);
  plan->request.to_sticks = wire::array::unit_sticks(to, from);
  plan->request.from.step = plan->request.from_sticks * wire::kStickBytes;
  plan->request.to.step = plan->request.to_sticks * wire::kStickBytes;
  auto input = numbers(units * plan->request.from_sticks, 8);
  std::vector<std::byte> output(units * plan->request.to.step);
  plan->stretches = 1;
  plan->stretch[0].count = units;
  for (std::size_t i = 0; i < svp::array::kMaxUnitSticks; ++i) {
    plan->stretch[0].from[i] = reinterpret_cast<const std::byte*>(input.data()) + i * wire::kStickBytes;
    plan->stretch[0].to[i] = output.data() + i * wire::kStickBytes;
  }
  for ([[maybe_unused]] auto _ : state) execute(*plan);
}
#define CONVERSION(name, opcode, from, to) \
  BENCHMARK_CAPTURE(conversion, name, Opcode::opcode, Format::from, Format::to)->Unit(benchmark::kMicrosecond)
CONVERSION(dl16_to_fp32, Copy, Dl16, Fp32);
CONVERSION(fp32_to_dl16, Copy, Fp32, Dl16);
CONVERSION(dl16_to_fp8, Copy, Dl16, Fp8E4m3);
CONVERSION(fp8_to_dl16, Copy, Fp8E4m3, Dl16);
CONVERSION(fp32_to_fp8e5m2, Copy, Fp32, Fp8E5m2);
CONVERSION(int32_to_fp32, Copy, Int32, Fp32);
CONVERSION(fp32_to_uint32, Copy, Fp32, Uint32);
CONVERSION(uint32_to_fp8, Copy, Uint32, Fp8E4m3);
CONVERSION(fp8_to_int32, Copy, Fp8E4m3, Int32);
CONVERSION(int8_to_int16, Copy, Int8, Int16);
CONVERSION(dl16_to_fp32_staggered, Dl16ToFp32, Dl16, Fp32);
CONVERSION(fp32_to_dl16_staggered, Fp32ToDl16, Fp32, Dl16);
CONVERSION(dl16_to_fp8_staggered, Dl16ToFp8, Dl16, Fp8E4m3);
CONVERSION(fp8_to_dl16_staggered, Fp8ToDl16, Fp8E4m3, Dl16);
CONVERSION(dl16_to_fp8_weight, Dl16ToFp8Weight, Dl16, Fp8E4m3);

// Whole blocks of items of range(0) bytes, or blocks of one row.
void transposition(benchmark::State& state, bool whole) {
  const auto item = static_cast<std::uint32_t>(state.range(0));
  const auto input = numbers(wire::array::kMaxSticks, 8);
  std::vector<std::byte> output(wire::array::kMaxSticks * wire::kStickBytes);
  const auto plan = std::make_unique<BlocksPlan>();
  plan->request = {};
  plan->request.item = item;
  plan->request.columns = wire::kStickBytes / item;
  plan->request.rows = whole ? plan->request.columns : 1;
  plan->request.count = wire::array::most_blocks(item);
  for (std::size_t n = 0; n < wire::array::kMaxSticks; ++n) {
    plan->row[n] = reinterpret_cast<const std::byte*>(&input[n * kLanes]);
    plan->column[n] = &output[n * wire::kStickBytes];
  }
  for ([[maybe_unused]] auto _ : state) execute(*plan);
}
BENCHMARK_CAPTURE(transposition, whole, true)->Arg(1)->Arg(2)->Arg(4)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(transposition, one_row, false)->Arg(1)->Arg(2)->Arg(4)->Unit(benchmark::kMicrosecond);

// Sticks that lie range(0) sticks apart.
void copies(benchmark::State& state) {
  const auto apart = static_cast<std::size_t>(state.range(0));
  const auto input = numbers(wire::array::kMaxCopies * apart, 8);
  std::vector<std::byte> output(wire::array::kMaxCopies * apart * wire::kStickBytes);
  const auto plan = std::make_unique<CopiesPlan>();
  plan->request = {};
  plan->request.rows = wire::array::kMaxCopies;
  plan->request.sticks = 1;
  for (std::size_t n = 0; n < wire::array::kMaxCopies; ++n) {
    plan->from[n] = reinterpret_cast<const std::byte*>(&input[n * apart * kLanes]);
    plan->to[n] = &output[n * apart * wire::kStickBytes];
  }
  for ([[maybe_unused]] auto _ : state) execute(*plan);
}
BENCHMARK(copies)->Arg(1)->Arg(40)->Unit(benchmark::kMicrosecond);

enum class Elements { Equal, Rising, Random };

// One row of sticks, along them or across. Each rising number is larger than all before, so that a request ends by its
// work and not by its sticks: the counter says where.
void top_k(benchmark::State& state, Format format, bool across, Elements elements) {
  std::mt19937 random(1);
  const std::size_t lanes = format == Format::Dl16 ? kLanes : kLanes / 2;
  std::vector<std::byte> input(wire::array::kMaxLineSticks * wire::kStickBytes);
  for (std::size_t n = 0; n < wire::array::kMaxLineSticks * lanes; ++n) {
    const std::size_t element = across ? n / lanes : n;
    const std::size_t above = elements == Elements::Equal ? 0 : elements == Elements::Rising ? element : random() >> 18;
    const auto code = static_cast<std::uint32_t>(0x3E00 + above);
    std::memcpy(&input[n * wire::kStickBytes / lanes], &code, wire::kStickBytes / lanes);
  }
  std::vector<std::byte> lists(wire::array::kMaxMerits * sizeof(std::uint64_t));
  const auto plan = std::make_unique<TopKPlan>();
  plan->request = {};
  plan->request.format = static_cast<std::uint32_t>(format);
  plan->request.across = across ? 1 : 0;
  plan->request.rows = 1;
  plan->request.sticks = wire::array::kMaxLineSticks;
  plan->request.lanes = static_cast<std::uint32_t>(lanes);
  plan->request.ranks = static_cast<std::uint32_t>(state.range(0));
  for (std::size_t n = 0; n < wire::array::kMaxLineSticks; ++n) plan->stick[n] = &input[n * wire::kStickBytes];
  for (std::size_t n = 0; n < plan->list.size(); ++n) plan->list[n] = &lists[n * wire::kStickBytes];
  std::uint64_t done = 0;
  for ([[maybe_unused]] auto _ : state) done = execute(*plan);
  state.counters["sticks"] = static_cast<double>(done);
}
#define TOP_K(name, ...) BENCHMARK_CAPTURE(top_k, name, __VA_ARGS__)->Unit(benchmark::kMicrosecond)
TOP_K(along, Format::Dl16, false, Elements::Equal)->Arg(1)->Arg(128)->Arg(1024);
TOP_K(along_rising, Format::Fp32, false, Elements::Rising)->Arg(1)->Arg(128)->Arg(1024);
TOP_K(along_random, Format::Fp32, false, Elements::Random)->Arg(1)->Arg(128)->Arg(1024);
TOP_K(across, Format::Dl16, true, Elements::Equal)->Arg(1)->Arg(128);
TOP_K(across_rising, Format::Dl16, true, Elements::Rising)->Arg(1)->Arg(128);
TOP_K(across_random, Format::Dl16, true, Elements::Random)->Arg(1)->Arg(128);

}  // namespace

BENCHMARK_MAIN();
