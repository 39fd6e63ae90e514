// SPDX-License-Identifier: Apache-2.0
// Kernels through plans, tiles and tensors, on QEMU, held against the golden model.
#include <algorithm>
#include <atomic>
#include <thread>

#include "host_driver/tensor/golden/golden.hpp"
#include "tests/device/runtime/card_trace.hpp"
#include "tests/device/runtime/shared_context.hpp"
#include "tests/support/gate.hpp"

namespace svp {
namespace {

using svp::SpyreStream;
using svp::SpyreTensor;

std::vector<float> decoded(std::span<const std::uint16_t> values) {
  std::vector<float> floats(values.size());
  std::transform(values.begin(), values.end(), floats.begin(), [](std::uint16_t v) { return wire::fp32_from_dl16(v); });
  return floats;
}

struct Matrix {
  std::int64_t rows;
  std::int64_t columns;
  std::vector<std::uint16_t> values;  // DL16, row-major

  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
  Matrix(std::int64_t r, std::int64_t c, unsigned seed)
      : rows(r), columns(c), values(test::random_dl16(static_cast<std::size_t>(r * c), seed)) {}
  HostShape shape() const { return HostShape::contiguous(DataType::Float32, {rows, columns}); }
};

class Records final : public LaunchObserver {
 public:
  void on_block(const BlockRecord& record) noexcept override { blocks.push_back(record); }
  void on_launch_ended(std::uint64_t, wire::Outcome) noexcept override {}
  std::vector<BlockRecord> blocks;
};

class Compute : public test::OneCard {
 protected:
  static SpyreTensor on_card(const Matrix& matrix) {
    const auto floats = decoded(matrix.values);
    return context().to_device({matrix.shape(), std::as_bytes(std::span(floats))}, DeviceType::Dl16);
  }
  static SpyreTensor output(std::int64_t rows, std::int64_t columns) {
    return context().empty(DataType::Float32, {rows, columns}, DeviceType::Dl16);
  }
  static std::vector<std::uint16_t> back(const SpyreTensor& tensor, SpyreStream stream) {
    const HostShape shape = HostShape::contiguous(DataType::Float32, tensor.shape());
    std::vector<float> floats(static_cast<std::size_t>(shape.element_count()));
    context().to_host(tensor, {shape, std::as_writable_bytes(std::span(floats))}, stream);
    std::vector<std::uint16_t> values(floats.size());
    std::transform(floats.begin(), floats.end(), values.begin(), [](float v) { return wire::dl16_from_fp32(v); });
    return values;
  }
  static ExecutionPlan load(const char* kernel, const DimensionExtents& extents) {
    ExecutionPlan plan({Job(CompiledKernel(context().kernel(kernel), extents))});
    context().load(plan);
    return plan;
  }
  static void expect_product(const Matrix& a, const Matrix& b, const ExecutionPlan& plan,
                             const LaunchOptions& options = {}) {
    SpyreStream stream = context().default_stream();
    const SpyreTensor tensors[] = {on_card(a), on_card(b), output(a.rows, b.columns)};
    stream.Launch(plan.jobs()[0], tensors, options);
    const auto result = back(tensors[2], stream);
    std::vector<std::uint16_t> golden(result.size());
    golden::matmul_dl16(a.values, b.values, golden, static_cast<std::size_t>(a.rows),
                        static_cast<std::size_t>(b.columns), static_cast<std::size_t>(a.columns));
    EXPECT_EQ(result, golden);
  }
};

TEST_F(Compute, MatmulOfTheCompiledShapeIsExact) {
  const auto plan = load("matmul", {{"M", 128}, {"N", 128}, {"K", 192}});
  expect_product({128, 192, 1}, {192, 128, 2}, plan, {.allow_tiled_launch = false});
}

TEST_F(Compute, TiledAlongRowsIsTwoBlocksPerTileAndExact) {
  const auto plan = load("matmul", {{"M", 64}, {"N", 128}, {"K", 128}});
  Records records;
  expect_product({256, 128, 3}, {128, 128, 4}, plan, {.observer = &records});
  ASSERT_EQ(records.blocks.size(), 8u);
  for (std::size_t i = 0; i < records.blocks.size(); ++i) {
    EXPECT_EQ(records.blocks[i].opcode, i % 2 == 0 ? wire::Opcode::Dma : wire::Opcode::Compute);
    EXPECT_EQ(records.blocks[i].tile, i / 2);
    EXPECT_LE(records.blocks[i].start_time, records.blocks[i].end_time);
    if (i != 0)
      EXPECT_GE(records.blocks[i].start_time, records.blocks[i - 1].end_time) << "blocks of a stream do not overlap";
  }
}

TEST_F(Compute, TiledAlongSticksIsExact) {
  const auto plan = load("matmul", {{"M", 96}, {"N", 64}, {"K", 128}});
  expect_product({96, 128, 5}, {128, 320, 6}, plan);
}

TEST_F(Compute, TiledAlongEveryDimensionWithEdgesIsExact) {
  const auto plan = load("matmul", {{"M", 64}, {"N", 64}, {"K", 64}});
  Matrix a(150, 200, 14), b(200, 130, 15);
  a.values[7 * 200 + 130] = wire::kDl16Nan;
  Records records;
  expect_product(a, b, plan, {.observer = &records});
  EXPECT_EQ(records.blocks.size(), 2u * 3 * 3 * 4);
}

TEST_F(Compute, TilesOfTheReducedDimensionGiveTheBitsOfOne) {
  const auto plan = load("matmul", {{"M", 256}, {"N", 128}, {"K", 128}});
  expect_product({100, 1000, 16}, {1000, 100, 17}, plan);
}

TEST_F(Compute, SmallerThanTheTileIsExact) {
  const auto plan = load("matmul", {{"M", 64}, {"N", 64}, {"K", 128}});
  expect_product({3, 70, 18}, {70, 5, 19}, plan);
}

// Numbers that the compute array leaves to the core stand behind rows and columns that it has done: in some chunks of K
// a NaN or an infinity, in one exponents that lie far apart. Many rows, and few.
TEST_F(Compute, MatmulOfNumbersOfAllKindsIsExact) {
  const auto plan = load("matmul", {{"M", 512}, {"N", 256}, {"K", 320}});
  for (const std::int64_t rows : {std::int64_t{300}, std::int64_t{5}}) {
    Matrix a(rows, 320, 20);
    Matrix b(320, 200, 21);
    const auto at = [](Matrix& matrix, std::int64_t row, std::int64_t column) -> std::uint16_t& {
      return matrix.values[static_cast<std::size_t>(row * matrix.columns + column)];
    };
    at(a, rows - 2, 70) = wire::kDl16Nan;
    at(b, 130, 90) = wire::kDl16Infinity;
    for (std::int64_t k = 192; k < 256; ++k) {
      for (std::int64_t column = 64; column < 128; ++column)
        at(b, k, column) = static_cast<std::uint16_t>(k * 13 % 60 << 9 | 3);
      at(a, rows - 1, k) = static_cast<std::uint16_t>(k * 29 % 60 << 9 | 0x8005);
    }
    expect_product(a, b, plan);
  }
}

// The transfers that the card has moved beside a computation since trace(true), as it tells itself.
std::vector<wire::TraceEntry> moved_ahead() {
  const auto ring = test::trace_ring();
  std::vector<wire::TraceEntry> entries;
  for (std::uint64_t n = 1; n <= ring.size() && ring[n - 1].number == n; ++n) {
    if (ring[n - 1].kind == wire::TraceKind::Ahead) entries.push_back(ring[n - 1]);
  }
  return entries;
}

// Without any option: on a card with more than one core the correction of the next tile is moved while a tile computes,
// as the card itself tells: by what it wrote between the start of a tile's blocks, not by times.
TEST_F(Compute, ByDefaultTheNextTransferIsMovedWhileATileComputes) {
  if (context().device().config().cores < 2) GTEST_SKIP() << "one core";
  const auto plan = load("matmul", {{"M", 128}, {"N", 256}, {"K", 256}});
  test::trace(true);
  constexpr std::int64_t kTiles = 8;
  Records records;
  expect_product({128 * kTiles, 256, 21}, {256, 256, 22}, plan, {.observer = &records});
  const std::size_t ahead = moved_ahead().size();
  EXPECT_EQ(records.blocks.size(), 2u * kTiles);
  EXPECT_GT(ahead, 0u) << "no transfer was moved beside a computation";
  EXPECT_LT(ahead, static_cast<std::size_t>(kTiles)) << "the first tile has nothing in front of it";
  test::trace(false);
}

// The same of jobs of one tile each. They lie on the card behind a wait before the first of them begins, so that the
// clock has no part in what is there when a job computes.
TEST_F(Compute, ByDefaultTheTransferOfTheNextJobIsMovedWhileAJobComputes) {
  if (context().device().config().cores < 2) GTEST_SKIP() << "one core";
  constexpr unsigned kJobs = 8;
  const auto plan = load("matmul", {{"M", 128}, {"N", 256}, {"K", 256}});
  const Matrix a(128, 256, 25), b(256, 256, 26);
  expect_product(a, b, plan);  // memory that is touched for the first time is not moved ahead
  std::vector<SpyreTensor> tensors{on_card(a), on_card(b)};
  for (unsigned job = 0; job < kJobs; ++job) tensors.push_back(output(128, 256));
  SpyreStream stream = context().default_stream();
  stream.Synchronize(test::soon());
  test::trace(true);
  test::Gate gate;
  SpyreStream other = context().stream();
  other.flex_stream().LaunchHost(gate.passing());
  stream.flex_stream().Wait(other.flex_stream().Record());
  Records records;
  for (unsigned job = 0; job < kJobs; ++job) {
    const SpyreTensor arguments[] = {tensors[0], tensors[1], tensors[2 + job]};
    stream.Launch(plan.jobs()[0], arguments, {.observer = &records});
  }
  gate.open();
  stream.Synchronize(test::soon());
  std::vector<std::uint64_t> behind_the_first, ahead;
  for (const BlockRecord& block : records.blocks) {
    if (block.opcode == wire::Opcode::Dma && block.launch != records.blocks[0].launch)
      behind_the_first.push_back(block.sequence);
  }
  for (const wire::TraceEntry& entry : moved_ahead()) ahead.push_back(entry.sequence);
  EXPECT_EQ(behind_the_first.size(), kJobs - 1);
  EXPECT_EQ(ahead, behind_the_first) << "each but the first, in its order";
  test::trace(false);
  for (unsigned job = 1; job < kJobs; ++job) EXPECT_EQ(back(tensors[2 + job], stream), back(tensors[2], stream));
}

// Whether a core has run a kernel of a stream since trace(true), as the card itself tells.
bool has_run(std::uint16_t core, std::uint32_t stream) {
  return std::ranges::any_of(test::trace_ring(), [=](const wire::TraceEntry& entry) {
    return entry.number != 0 && entry.kind == wire::TraceKind::Slice && entry.core == core && entry.stream == stream;
  });
}

// A kernel that never ends has begun on core 1 before the transfers of another stream are launched, and has not ended
// when they have: the order of what ends, and no clock, tells that they overlap.
TEST_F(Compute, ATransferEndsWhileAKernelOfAnotherStreamComputes) {
  if (context().device().config().cores < 2) GTEST_SKIP() << "one core";
  constexpr std::uint64_t kEndlessSlices = 1'000'000;
  const auto spin = load("spin", {});
  const Matrix sent(128, 256, 27);
  SpyreStream computes = context().stream(), transfers = context().stream();
  ASSERT_NE(computes.flex_stream().id(), transfers.flex_stream().id());
  test::trace(true);
  computes.Launch(spin.jobs()[0], {}, {.core_mask = 2, .budget_slices = kEndlessSlices});
  const auto deadline = test::soon();
  const std::uint32_t stream = computes.flex_stream().stream_index();
  while (!has_run(1, stream)) {
    ASSERT_LT(FlexStream::Clock::now(), deadline) << "the kernel does not begin";
    std::this_thread::yield();
  }
  test::trace(false);
  const SpyreTensor tensor = output(128, 256);
  const auto floats = decoded(sent.values);
  context().copy(tensor, {sent.shape(), std::as_bytes(std::span(floats))}, transfers);
  transfers.Synchronize(test::soon());
  EXPECT_EQ(back(tensor, transfers), sent.values);
  EXPECT_FALSE(computes.Query()) << "the kernel ended before the transfers";
  EXPECT_FALSE(computes.flex_stream().error());
  computes.flex_stream().Reset();
}

// The correction of the next tile, and of the next job, is moved while a tile computes on the other core.
TEST_F(Compute, TilesOnAnotherCoreThanTheTransfersAreExact) {
  if (context().device().config().cores < 2) GTEST_SKIP() << "one core";
  const auto plan = load("matmul", {{"M", 32}, {"N", 64}, {"K", 64}});
  Records records;
  for (unsigned seed = 30; seed < 34; ++seed) {
    expect_product({150, 200, seed}, {200, 130, seed + 10}, plan, {.core_mask = 2, .observer = &records});
  }
  ASSERT_EQ(records.blocks.size(), 4u * 2 * 5 * 3 * 4);
  for (std::size_t i = 1; i < records.blocks.size(); ++i) {
    EXPECT_GE(records.blocks[i].start_time, records.blocks[i - 1].end_time) << "blocks end in order";
  }
}

// Launches of both kinds in one stream: slots of several, the first slot, and tiles whose operations run in the stream.
TEST_F(Compute, HostOperationsInTheStreamAndBarriersAreExact) {
  const auto plan = load("matmul", {{"M", 32}, {"N", 64}, {"K", 64}});
  const Job& job = plan.jobs()[0];
  std::atomic<unsigned> calls = 0;
  const auto build = [&](const HostOperationInput& input, std::span<std::byte> correction) {
    ++calls;
    return build_correction(input, correction);
  };
  ExecutionPlan in_stream(
      {Job(job.binary(), job.program_correction_metadata(),
           JobPlan({HostOperation{build, HostTime::InStream}, CorrectionDMA{}, *job.job_plan().compute()}))});
  context().load(in_stream);
  const std::uint64_t other = context().device().config().cores > 1 ? 2 : 1;
  for (unsigned round = 0; round < 4; ++round) {
    expect_product({70, 100, 50 + round}, {100, 70, 60 + round}, round % 2 == 0 ? in_stream : plan,
                   {.core_mask = round < 2 ? other : 1, .pipeline_barrier = round % 2 != 0});
  }
  EXPECT_EQ(calls, 2u * 3 * 2 * 2);
}

TEST_F(Compute, OneCoreAndAllCoresGiveTheSameBits) {
  const auto plan = load("matmul", {{"M", 128}, {"N", 128}, {"K", 128}});
  expect_product({128, 128, 7}, {128, 128, 8}, plan, {.core_mask = 1});
  expect_product({128, 128, 7}, {128, 128, 8}, plan, {.core_mask = (1u << context().device().config().cores) - 1});
}

TEST_F(Compute, AddIsExactAlsoTiled) {
  const auto plan = load("add", {{"M", 64}, {"N", 128}});
  const Matrix a(192, 128, 9);
  const Matrix b(192, 128, 10);
  SpyreStream stream = context().default_stream();
  const SpyreTensor tensors[] = {on_card(a), on_card(b), output(192, 128)};
  LaunchKernel(stream, plan, tensors);
  const auto result = back(tensors[2], stream);
  std::vector<std::uint16_t> golden(result.size());
  golden::add_dl16(a.values, b.values, golden);
  EXPECT_EQ(result, golden);
}

TEST_F(Compute, ARowIsAddedToEveryRow) {
  const Matrix a(37, 200, 20), row(1, 200, 21);
  SpyreStream stream = context().default_stream();
  const SpyreTensor repeated = on_card(row), whole = on_card(a);
  std::vector<std::uint16_t> rows;
  for (int i = 0; i < 37; ++i) rows.insert(rows.end(), row.values.begin(), row.values.end());
  std::vector<std::uint16_t> golden(rows.size());
  golden::add_dl16(a.values, rows, golden);
  for (const std::int64_t tile : {1, 16, 64}) {
    SCOPED_TRACE("tiles of " + std::to_string(tile));
    const auto plan = load("add", {{"M", tile}, {"N", 128}});
    for (const SpyreTensor& one : {repeated, repeated.expand({37, 200})}) {
      const SpyreTensor tensors[] = {whole, one, output(37, 200)};
      LaunchKernel(stream, plan, tensors);
      EXPECT_EQ(back(tensors[2], stream), golden);
    }
  }
}

// Parts of larger tensors, where they lie.
TEST_F(Compute, ViewsOfWholeSticksAreMultipliedInPlace) {
  const auto plan = load("matmul", {{"M", 64}, {"N", 64}, {"K", 64}});
  const Matrix a(150, 256, 24), b(200, 192, 25);
  SpyreStream stream = context().default_stream();
  const SpyreTensor tensors[] = {on_card(a).slice(0, 20, 120).slice(1, 64, 192),
                                 on_card(b).slice(0, 50, 178).slice(1, 64), output(100, 128)};
  LaunchKernel(stream, plan, tensors);
  Matrix part_a(100, 128), part_b(128, 128);
  for (std::int64_t row = 0; row < 128; ++row) {
    for (std::int64_t column = 0; column < 128; ++column) {
      const auto to = static_cast<std::size_t>(row * 128 + column);
      if (row < 100) part_a.values[to] = a.values[static_cast<std::size_t>((row + 20) * 256 + column + 64)];
      part_b.values[to] = b.values[static_cast<std::size_t>((row + 50) * 192 + column + 64)];
    }
  }
  std::vector<std::uint16_t> golden(100 * 128);
  golden::matmul_dl16(part_a.values, part_b.values, golden, 100, 128, 128);
  EXPECT_EQ(back(tensors[2], stream), golden);
}

namespace {

// Counts blocks that have ended, and how many of another launch had when this one did.
class BlocksEnded final : public svp::LaunchObserver {
 public:
  explicit BlocksEnded(const BlocksEnded* beside = nullptr) : beside_(beside) {}
  void on_block(const svp::BlockRecord&) noexcept override { ++count; }
  void on_launch_ended(std::uint64_t, wire::Outcome) noexcept override {
    if (beside_ != nullptr) beside_at_the_end = beside_->count.load();
  }
  std::atomic<std::uint64_t> count{0};
  std::atomic<std::uint64_t> beside_at_the_end{0};

 private:
  const BlocksEnded* beside_;
};

}  // namespace

// Many more than the card holds of a stream; another stream, whose launches begin at the same event, is served in
// between. Blocks of tiles are written when earlier ones have ended, so the clock has no part in how many that are.
TEST_F(Compute, AHundredThousandTilesAreExactAndOtherStreamsGoOn) {
  constexpr std::int64_t kTiles = 100'000;
  const auto plan = load("add", {{"M", 1}, {"N", 64}});
  const Matrix a(kTiles, 64, 22), b(kTiles, 64, 23);
  SpyreStream stream = context().default_stream();
  const SpyreTensor tensors[] = {on_card(a), on_card(b), output(kTiles, 64)};
  const AllocationIndex memory = allocate(128);
  stream.Synchronize(test::soon());
  SpyreStream other = context().stream();
  BlocksEnded walk, beside(&walk);
  test::Gate gate;
  stream.flex_stream().LaunchHost(gate.passing());
  const auto start = stream.flex_stream().Record();
  stream.Launch(plan.jobs()[0], tensors, {.observer = &walk});
  other.flex_stream().Wait(start);
  for (int i = 0; i < 100; ++i) other.Launch(Job::fill(memory, 128, 1), {}, {.observer = &beside});
  gate.open();
  other.Synchronize(test::soon());
  EXPECT_EQ(beside.count, 100u);
  EXPECT_LT(beside.beside_at_the_end, 20'000u) << "the launches of the other stream came after the walk";
  stream.Synchronize(test::soon());
  std::vector<std::uint16_t> golden(a.values.size());
  golden::add_dl16(a.values, b.values, golden);
  EXPECT_EQ(back(tensors[2], stream), golden);
  free(memory);
}

TEST_F(Compute, APlanOfSeveralJobsRunsThemInOrder) {
  ExecutionPlan plan({Job(CompiledKernel(context().kernel("matmul"), {{"M", 64}, {"N", 64}, {"K", 64}})),
                      Job(CompiledKernel(context().kernel("add"), {{"M", 64}, {"N", 64}}))});
  context().load(plan);
  const Matrix a(64, 64, 11);
  const Matrix b(64, 64, 12);
  SpyreStream stream = context().stream();
  const SpyreTensor product[] = {on_card(a), on_card(b), output(64, 64)};
  const SpyreTensor sum[] = {product[2], product[0], output(64, 64)};
  context().default_stream().Synchronize(test::soon());  // the operands came on another stream
  const std::span<const SpyreTensor> lists[] = {product, sum};
  svp::LaunchKernel(stream, plan, lists, {});
  const auto result = back(sum[2], stream);
  std::vector<std::uint16_t> middle(result.size());
  std::vector<std::uint16_t> golden(result.size());
  golden::matmul_dl16(a.values, b.values, middle, 64, 64, 64);
  golden::add_dl16(middle, a.values, golden);
  EXPECT_EQ(result, golden);
}

TEST_F(Compute, TensorsComeBackAsTheyWent) {
  const std::vector<float> values = decoded(test::random_dl16(300 * 200, 13));
  const auto shape = HostShape::contiguous(DataType::Float32, {300, 200});
  for (const DeviceType format : {DeviceType::Fp32, DeviceType::Dl16}) {
    const SpyreTensor tensor = context().to_device({shape, std::as_bytes(std::span(values))}, format);
    std::vector<float> result(values.size());
    context().to_host(tensor, {shape, std::as_writable_bytes(std::span(result))});
    EXPECT_EQ(result, values) << name(format);
  }
}

}  // namespace
}  // namespace svp
