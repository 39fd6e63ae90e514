// SPDX-License-Identifier: Apache-2.0
// Tiled launches over the real firmware core on a thread, with a kernel that is played: what every tile is given, and
// how launches end of which only some tiles have been written.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/runtime/played_sum.hpp"
#include "tests/unit/qemu/test_support.hpp"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SVP_OWN_NEW 0  // its runtime has an operator new of its own
#endif
#endif
#ifndef SVP_OWN_NEW
#define SVP_OWN_NEW 1
#endif

namespace svp {
namespace {

constexpr bool kCountsMemory = SVP_OWN_NEW != 0;

using Clock = FlexStream::Clock;
using wire::Outcome;
constexpr std::uint64_t kMiB = wire::kMiB;

// Heap of the whole process since restart(), and its peak, in bytes.
struct Live {
  std::atomic<std::int64_t> now{0};
  std::atomic<std::int64_t> peak{0};

  void restart() { now = peak = 0; }
  void add(std::int64_t bytes) {
    const std::int64_t sum = now.fetch_add(bytes) + bytes;
    std::int64_t most = peak;
    while (most < sum && !peak.compare_exchange_weak(most, sum)) {  // bounded: another thread has set a new peak
    }
  }
};
constinit Live live;

}  // namespace
}  // namespace svp

#if SVP_OWN_NEW
namespace {

void* counted_or_null(std::size_t bytes) noexcept {
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory != nullptr) svp::live.add(static_cast<std::int64_t>(::malloc_usable_size(memory)));
  return memory;
}
void* counted(std::size_t bytes) {
  void* const memory = counted_or_null(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void uncounted(void* memory) noexcept {
  if (memory != nullptr) svp::live.add(-static_cast<std::int64_t>(::malloc_usable_size(memory)));
  std::free(memory);
}

}  // namespace

// All forms without an alignment: AddressSanitizer has its own of those that are not replaced, and the two do not mix.
void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted_or_null(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted_or_null(bytes); }
// NOLINTBEGIN(clang-analyzer-cplusplus.NewDelete): to the analyser a deleter uses what is deleted
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, std::size_t) noexcept { uncounted(memory); }
void operator delete[](void* memory) noexcept { uncounted(memory); }
void operator delete[](void* memory, std::size_t) noexcept { uncounted(memory); }
// NOLINTEND(clang-analyzer-cplusplus.NewDelete)
#endif

namespace svp {
namespace {

class Records final : public LaunchObserver {
 public:
  void on_block(const BlockRecord& record) noexcept override {
    ++blocks;
    if (record.outcome != Outcome::Ok) ++failed;
    last = record;
  }
  void on_launch_ended(std::uint64_t, Outcome outcome) noexcept override {
    ++ended;
    launch_outcome = outcome;
  }
  std::atomic<std::uint64_t> blocks{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<unsigned> ended{0};
  BlockRecord last{};  // read after Synchronize only; likewise below
  Outcome launch_outcome = Outcome::Ok;
};

// A matrix of 16-bit integers in stick layout.
struct Sticks {
  std::int64_t rows, columns;
  std::vector<std::uint16_t> lanes;

  Sticks(std::int64_t r, std::int64_t c)
      : rows(r), columns(c), lanes(static_cast<std::size_t>(r * ((c + 63) / 64) * 64)) {}
  Sticks(std::int64_t r, std::int64_t c, unsigned seed) : Sticks(r, c) {
    std::mt19937 random(seed);
    for (auto& lane : lanes) lane = static_cast<std::uint16_t>(random());
  }
  std::uint16_t& at(std::int64_t row, std::int64_t column) {
    return lanes[static_cast<std::size_t>((column / 64 * rows + row) * 64 + column % 64)];
  }
  std::uint64_t bytes() const { return lanes.size() * 2; }
};

struct Rig {
  test::PlayedSum sum;
  test::NativeCard card{{.window_bytes = 32 * kMiB, .region_bytes = 1024 * kMiB, .kernel = sum.player()}};
  Runtime runtime;
  FlexStream& stream = runtime.default_stream();
  CompiledKernel compiled;
  ExecutionPlan plan{{Job(compiled)}};

  explicit Rig(std::int64_t m = 16, std::int64_t n = 64, RecoveryPolicy policy = RecoveryPolicy::Manual)
      : runtime(card.attach(), options(policy)), compiled(test::sum_kernel(), {{"M", m}, {"N", n}}) {
    sum.card = &card;
    plan.load(runtime, stream);
    synchronize();
  }
  static RuntimeOptions options(RecoveryPolicy policy) {
    RuntimeOptions options;
    options.allocator.region_bytes = {160 * kMiB};
    options.recovery.policy = policy;
    return options;
  }
  void synchronize(FlexStream& on) { on.Synchronize(Clock::now() + test_bounds::kWork); }
  void synchronize() { synchronize(stream); }
  AllocationIndex allocate(std::uint64_t bytes) { return runtime.allocator().allocate(bytes); }
  AllocationIndex on_card(const Sticks& sticks) {
    const AllocationIndex index = allocate(sticks.bytes());
    stream.Launch(Job::to_device(sticks.lanes.data(), index, sticks.bytes()), {});
    return index;
  }
  // [rows, columns] for all three, in memory of its own, nothing computed.
  std::vector<Argument> arguments(std::int64_t rows, std::int64_t columns) {
    const std::uint64_t bytes = Sticks(rows, columns).bytes();
    std::vector<Argument> arguments;
    arguments.reserve(3);
    for (int i = 0; i < 3; ++i) arguments.push_back({.allocation = allocate(bytes), .shape = {rows, columns}});
    return arguments;
  }
  std::uint64_t launch(std::span<const Argument> arguments, LaunchObserver* observer = nullptr) {
    return stream.Launch(plan.jobs()[0], arguments, {.observer = observer});
  }

  // C = A + B with B of `b_rows` rows; returns what each tile was given.
  std::vector<test::PlayedSum::Extents> expect_sum(std::int64_t rows, std::int64_t columns, std::int64_t b_rows) {
    Sticks a(rows, columns, 1), b(b_rows, columns, 2), c(rows, columns), before(rows, columns, 3);
    const Argument operands[] = {{.allocation = on_card(a), .shape = {rows, columns}},
                                 {.allocation = on_card(b), .shape = {b_rows, columns}},
                                 {.allocation = on_card(before), .shape = {rows, columns}}};
    launch(operands);
    stream.Launch(Job::from_device(c.lanes.data(), operands[2].allocation, c.bytes()), {});
    synchronize();
    Sticks expected = before;  // padding lanes are not written
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        const std::int64_t b_row = b_rows == rows ? row : row % b_rows;
        expected.at(row, column) = static_cast<std::uint16_t>(a.at(row, column) + b.at(b_row, column));
      }
    }
    EXPECT_EQ(c.lanes, expected.lanes);
    return sum.seen();
  }
};

using Extents = test::PlayedSum::Extents;

TEST(TiledLaunch, TwoDimensionsAreNestedAndTheirRemaindersExact) {
  Rig rig(16, 64);
  const auto tiles = rig.expect_sum(40, 150, 40);
  const std::vector<Extents> expected{{16, 64}, {16, 64}, {16, 22}, {16, 64}, {16, 64},
                                      {16, 22}, {8, 64},  {8, 64},  {8, 22}};
  EXPECT_EQ(tiles, expected);
}

TEST(TiledLaunch, ATensorSmallerThanTheTileIsOneTileOfItsOwnExtents) {
  Rig rig(16, 64);
  const auto tiles = rig.expect_sum(5, 40, 5);
  EXPECT_EQ(tiles, (std::vector<Extents>{{5, 40}}));
}

TEST(TiledLaunch, ARowIsRepeatedForEveryTile) {
  Rig rig(16, 64);
  EXPECT_EQ(rig.expect_sum(40, 100, 1).size(), 6u);
}

TEST(TiledLaunch, AnInputOfOneTileIsReused) {
  Rig rig(16, 64);
  EXPECT_EQ(rig.expect_sum(40, 64, 16).size(), 3u);
}

// Every other row of B, from the third on, and a part of the columns of A.
TEST(TiledLaunch, ViewsAreTiledWithTheirOwnStrides) {
  Rig rig(16, 64);
  constexpr std::int64_t kRows = 40, kColumns = 128, kColumnsOfA = 256, kRowsOfB = 90;
  Sticks a(kRows, kColumnsOfA, 1), b(kRowsOfB, kColumns, 2), c(kRows, kColumns);
  const Argument operands[] = {
      {.allocation = rig.on_card(a), .shape = {kRows, kColumns}, .offset = kRows * 128, .stride = {{128, kRows * 128}}},
      {.allocation = rig.on_card(b), .shape = {kRows, kColumns}, .offset = 3 * 128, .stride = {{256, kRowsOfB * 128}}},
      {.allocation = rig.on_card(c), .shape = {kRows, kColumns}}};
  rig.launch(operands);
  rig.stream.Launch(Job::from_device(c.lanes.data(), operands[2].allocation, c.bytes()), {});
  rig.synchronize();
  EXPECT_EQ(rig.sum.seen().size(), 6u);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t column = 0; column < kColumns; ++column) {
      const int sum = a.at(row, column + 64) + b.at(3 + 2 * row, column);
      ASSERT_EQ(c.at(row, column), static_cast<std::uint16_t>(sum)) << row << ", " << column;
    }
  }
}

// By a thread that launches on no stream: memory of work under way would only be given for later work of its stream.
AllocationIndex allocate_elsewhere(FlexAllocator& allocator, std::uint64_t bytes) {
  AllocationIndex memory = AllocationIndex::Null;
  std::thread([&] { memory = allocator.allocate(bytes); }).join();  // bounded: there is room
  return memory;
}

TEST(TiledLaunch, PartialResultsLieInMemoryThatIsTheLaunchsAlone) {
  Rig rig;
  rig.sum.counts_only = true;
  ExecutionPlan plan({Job(CompiledKernel(test::matmul_in_passes(), {{"M", 64}, {"K", 64}, {"N", 64}}))});
  plan.load(rig.runtime, rig.stream);
  const Argument operands[] = {{.allocation = rig.allocate(64 * 256 * 2), .shape = {64, 256}},
                               {.allocation = rig.allocate(256 * 64 * 2), .shape = {256, 64}},
                               {.allocation = rig.allocate(64 * 64 * 2), .shape = {64, 64}}};
  rig.synchronize();
  FlexAllocator& allocator = rig.runtime.allocator();
  constexpr std::uint64_t kPartials = 64 * 64 * 4;
  const AllocationIndex probe = allocator.allocate(kPartials);
  const VirtualAddress place = allocator.resolve(probe).address;  // where the next one of that size will lie
  allocator.deallocate(probe);
  rig.card.pause();
  rig.stream.Launch(plan.jobs()[0], operands);
  const AllocationIndex beside = allocate_elsewhere(allocator, kPartials);
  EXPECT_NE(allocator.resolve(beside).address.offset, place.offset) << "the launch has it";
  rig.card.resume();
  rig.synchronize();
  const AllocationIndex after = allocate_elsewhere(allocator, kPartials);
  EXPECT_EQ(allocator.resolve(after).address.offset, place.offset) << "the launch has ended";
  EXPECT_EQ(rig.sum.tiles, 4u);
}

TEST(TiledLaunch, MoreTilesThanBlocksThatExistAtOnce) {
  Rig rig(1, 64);
  EXPECT_EQ(rig.expect_sum(1000, 64, 1000).size(), 1000u);
}

TEST(TiledLaunch, BlocksAreRecordedInOrderAndTheLaunchEndsOnce) {
  Rig rig(1, 64);
  Records records;
  const auto number = rig.launch(rig.arguments(700, 64), &records);
  Records behind;
  rig.launch(rig.arguments(1, 64), &behind);
  rig.synchronize();
  EXPECT_EQ(records.blocks, 1400u);
  EXPECT_EQ(records.failed, 0u);
  EXPECT_EQ(records.last.tile, 699u);
  EXPECT_EQ(records.last.step, 2u);
  EXPECT_EQ(records.ended, 1u);
  EXPECT_EQ(behind.last.launch, number + 1);
  EXPECT_EQ(behind.last.sequence, records.last.sequence + 2) << "nothing comes between";
}

TEST(TiledLaunch, TheArgumentsAreTheCallersAgainWhenLaunchReturns) {
  Rig rig(1, 64);
  {
    auto arguments = rig.arguments(600, 64);
    rig.card.pause();
    ExecutionPlan copy = rig.plan;
    rig.stream.Launch(copy.jobs()[0], arguments);
    FlexAllocator& allocator = rig.runtime.allocator();
    for (Argument& argument : arguments) {
      const VirtualAddress place = allocator.resolve(argument.allocation).address;
      allocator.deallocate(argument.allocation);
      const AllocationIndex next = allocate_elsewhere(allocator, std::uint64_t{600} * 128);
      EXPECT_NE(allocator.resolve(next).address.offset, place.offset) << "it is still in use";
    }
  }
  rig.plan = ExecutionPlan();
  rig.compiled = CompiledKernel(test::sum_kernel(), {{"M", 1}, {"N", 64}});
  rig.card.resume();
  EXPECT_NO_THROW(rig.synchronize());
  EXPECT_EQ(rig.sum.seen().size(), 600u);
}

// ---- launches that do not come to their end -------------------------------------------------------------------------

TEST(TiledLaunch, AFailingTileEndsTheOthersUnwritten) {
  Rig rig(1, 64);
  rig.sum.fails_at = 500;
  Records records, behind;
  const auto many = rig.arguments(100'000, 64), one = rig.arguments(1, 64);
  rig.card.pause();
  rig.launch(many, &records);
  rig.launch(one, &behind);
  rig.card.resume();
  try {
    rig.synchronize();
    FAIL();
  } catch (const StreamError& error) {
    EXPECT_EQ(error.failure().tile, 500u);
    EXPECT_EQ(error.failure().outcome, Outcome::Fault);
  }
  EXPECT_EQ(rig.sum.tiles, 501u);
  EXPECT_EQ(records.ended, 1u);
  EXPECT_EQ(records.launch_outcome, Outcome::Fault);
  EXPECT_LT(records.blocks, 2000u) << "those that were never written are one";
  EXPECT_EQ(records.last.outcome, Outcome::Aborted);
  EXPECT_EQ(records.last.sequence, 0u);
  EXPECT_EQ(behind.launch_outcome, Outcome::Aborted);
  rig.stream.Reset();
  rig.sum.fails_at = ~std::uint64_t{0};
  rig.launch(rig.arguments(300, 64));
  EXPECT_NO_THROW(rig.synchronize());
}

// The card stops in front of tile `tile`; what then happens is the test's.
struct HeldRig : Rig {
  explicit HeldRig(std::uint64_t tile, RecoveryPolicy policy = RecoveryPolicy::Manual) : Rig(1, 64, policy) {
    sum.holds_at = tile;
  }
  ~HeldRig() { sum.let_go(); }
};

TEST(TiledLaunch, AResetEndsAHalfWrittenWalk) {
  HeldRig rig(300);
  Records records;
  rig.launch(rig.arguments(100'000, 64), &records);
  rig.sum.await_held();
  std::thread resets([&] { rig.stream.Reset(); });
  rig.sum.let_go();
  resets.join();  // bounded: a reset is
  EXPECT_TRUE(rig.stream.Query());
  EXPECT_EQ(rig.stream.error(), std::nullopt);
  EXPECT_EQ(records.ended, 1u);
  EXPECT_LT(rig.sum.tiles, 100'000u);
  EXPECT_NE(records.launch_outcome, Outcome::Ok);
  EXPECT_EQ(records.last.outcome, Outcome::Aborted);
  const std::uint64_t before = rig.sum.tiles;
  rig.launch(rig.arguments(300, 64));
  EXPECT_NO_THROW(rig.synchronize());
  EXPECT_EQ(rig.sum.tiles, before + 300);
}

TEST(TiledLaunch, ADyingCardEndsAHalfWrittenWalkOnce) {
  HeldRig rig(300);
  Records records;
  rig.launch(rig.arguments(100'000, 64), &records);
  rig.sum.await_held();
  std::thread dies([&] { rig.card.die(); });
  rig.sum.let_go();
  dies.join();  // bounded: the card's thread ends its iteration
  EXPECT_THROW(rig.synchronize(), StreamError);
  EXPECT_EQ(records.ended, 1u);
  EXPECT_NE(records.launch_outcome, Outcome::Ok);
}

TEST(TiledLaunch, TheEndOfTheRuntimeEndsAHalfWrittenWalk) {
  Records records;
  {
    HeldRig rig(300);
    rig.launch(rig.arguments(100'000, 64), &records);
    rig.sum.await_held();
    rig.sum.let_go();
  }
  EXPECT_EQ(records.ended, 1u);
}

// By RecoveryPolicy::Recover a launch of which nothing had started is sent again, whole.
TEST(TiledLaunch, AWalkBehindAFailureIsSentAgainWhole) {
  HeldRig rig(0, RecoveryPolicy::Recover);
  rig.sum.fails_at = 0;
  rig.launch(rig.arguments(1, 64));
  rig.sum.await_held();
  Records records;
  rig.launch(rig.arguments(1000, 64), &records);
  rig.sum.let_go();
  EXPECT_THROW(rig.synchronize(), StreamError);
  rig.synchronize();
  EXPECT_EQ(rig.sum.tiles, 1001u);
  EXPECT_EQ(records.blocks, 2000u);
  EXPECT_EQ(records.launch_outcome, Outcome::Ok);
}

// And one that has begun is not.
TEST(TiledLaunch, AHalfWrittenWalkIsNotSentAgain) {
  Rig rig(1, 64, RecoveryPolicy::Recover);
  rig.sum.fails_at = 400;
  Records records;
  rig.launch(rig.arguments(10'000, 64), &records);
  EXPECT_THROW(rig.synchronize(), StreamError);
  rig.synchronize();
  EXPECT_EQ(rig.sum.tiles, 401u);
  EXPECT_EQ(records.launch_outcome, Outcome::Fault);
  EXPECT_EQ(records.ended, 1u);
}

namespace {

// How many tiles had begun when a launch ended.
class TilesAtEnd final : public LaunchObserver {
 public:
  explicit TilesAtEnd(const std::atomic<std::uint64_t>& tiles) : tiles_(tiles) {}
  void on_block(const BlockRecord&) noexcept override {}
  void on_launch_ended(std::uint64_t, Outcome) noexcept override {
    most = std::max<std::uint64_t>(most, tiles_);
    ++ended;
  }
  std::uint64_t most = 0;  // read after Synchronize only
  std::atomic<unsigned> ended{0};

 private:
  const std::atomic<std::uint64_t>& tiles_;
};

}  // namespace

// ---- many tiles -----------------------------------------------------------------------------------------------------

// Its HostOperation is the driver's own as well: more tiles than are written at once.
TEST(TiledLaunch, APlanOnDiskIsWrittenAsTheCardTakesIt) {
  constexpr std::int64_t kTiles = FlexStream::kMaxTilesAtOnce + 1'000;
  Rig rig(1, 64);
  const qemu::test::TemporaryFolder folder;
  rig.plan.write_directory(folder.path() / "plan", spyre::SymbolicArguments::On);
  ExecutionPlan plan = ExecutionPlan::from_directory(folder.path() / "plan");
  plan.load(rig.runtime, rig.stream);
  rig.synchronize();
  rig.sum.counts_only = true;
  Records records;
  rig.stream.Launch(plan.jobs()[0], rig.arguments(kTiles, 64), {.observer = &records});
  rig.stream.Synchronize(Clock::now() + test_bounds::kCompute);
  EXPECT_EQ(rig.sum.tiles, static_cast<std::uint64_t>(kTiles));
  EXPECT_EQ(records.blocks, 2 * static_cast<std::uint64_t>(kTiles));
  EXPECT_EQ(records.failed, 0u);
}

// Bounded by progress: a busy machine may take any time for a million tiles, but not long for the next one.
void synchronize_while_tiles_run(FlexStream& stream, const std::atomic<std::uint64_t>& tiles) {
  for (std::uint64_t before = tiles;; before = tiles) {
    try {
      return stream.Synchronize(Clock::now() + test_bounds::kCompute);
    } catch (const TimeoutError&) {
      if (tiles == before) throw;
    }
  }
}

TEST(TiledLaunch, AMillionTilesTakeConstantMemoryAndOtherStreamsGoOn) {
  constexpr std::int64_t kTiles = kCountsMemory ? 1'000'000 : 50'000;
  constexpr std::int64_t kMuch = wire::kMiB;  // one byte a tile would be as much
  Rig rig;
  rig.sum.counts_only = true;
  FlexStream& other = rig.runtime.stream(1);
  const CompiledKernel compiled(test::kernel_without_symbols(), {{"M", 1}, {"N", 64}});
  ExecutionPlan plan({Job(compiled)});
  plan.load(rig.runtime, rig.stream);
  rig.synchronize();
  const AllocationIndex memory = rig.allocate(kTiles * 128), row = rig.allocate(128);
  const Argument operands[] = {{.allocation = memory, .shape = {kTiles, 64}}};
  Records records;
  TilesAtEnd others(rig.sum.tiles);
  live.restart();
  // The card stands in the second tile until the other stream's launches are there: then it serves both in rotation.
  rig.sum.holds_at = 1;
  rig.stream.Launch(plan.jobs()[0], operands, {.observer = &records});
  rig.sum.await_held();
  for (int i = 0; i < 100; ++i) other.Launch(Job::fill(row, 128, 1), {}, {.observer = &others});
  rig.sum.let_go();
  synchronize_while_tiles_run(other, rig.sum.tiles);
  EXPECT_EQ(others.ended, 100u);
  // Tiles are written when others have ended: so no thread that is late makes this more than a few rings of blocks.
  EXPECT_LT(others.most, 10'000u) << "the launches of the other stream came after the walk";
  synchronize_while_tiles_run(rig.stream, rig.sum.tiles);
  EXPECT_EQ(rig.sum.tiles, static_cast<std::uint64_t>(kTiles));
  EXPECT_EQ(records.blocks, static_cast<std::uint64_t>(kTiles));
  RecordProperty("bytes", std::to_string(live.peak));
  if (kCountsMemory) EXPECT_GT(live.peak, 0) << "nothing was counted";
  EXPECT_LT(live.peak, kMuch);
}

}  // namespace
}  // namespace svp
