// SPDX-License-Identifier: Apache-2.0
// What a strided DMA moves, held against a model that moves byte by byte; in steps that are bounded, with marks of what
// it wrote and nothing else, and what resets leave of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "firmware/core/charges.hpp"
#include "firmware/core/dispatcher.hpp"
#include "shared/crc32c.hpp"
#include "tests/support/random_nests.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::RawDriver;
using fwtest::RegionHandle;
using fwtest::StreamHandle;
using svp::test::Nest;
using wire::ControlBlock;
using wire::Outcome;
using wire::Status;
using wire::StridedLevel;

constexpr std::uint64_t kHost = wire::kHostMemoryOffset;
constexpr std::uint64_t kMemory = 64 * wire::kKiB;  // of each end of a random nest

class Strided : public testing::Test {
 protected:
  explicit Strided(fwtest::CardOptions options = {.window_bytes = 8 * wire::kMiB,
                                                  .region_bytes = 128 * wire::kMiB,
                                                  .boot_arguments = fwtest::kAllForTheFirst})
      : card_(std::move(options)) {
    EXPECT_TRUE(driver_.bring_up());
  }

  std::span<std::byte> host(std::uint64_t bytes) { return driver_.window().subspan(kHost, bytes); }
  std::span<std::byte> memory(const RegionHandle& region, std::uint64_t bytes) {
    const auto place = card_.function(2).regions.resolve(region.id, region.generation, 0, bytes);
    return {hal::pointer(place.value().address), bytes};
  }
  static void fill_randomly(std::mt19937_64& random, std::span<std::byte> memory) {
    for (std::size_t i = 0; i + 8 <= memory.size(); i += 8) {
      const std::uint64_t word = random();
      std::memcpy(&memory[i], &word, 8);
    }
  }
  wire::ControlBlock block_of(const Nest& nest, wire::Endpoint from, wire::Endpoint to) {
    from.offset += nest.source;
    to.offset += nest.destination;
    return driver_.strided(stream_, from, to, nest.element_bytes, nest.levels);
  }
  wire::ControlBlock summed(wire::ControlBlock block, std::uint32_t sum) {
    block.payload.dma.flags |= wire::kDmaChecksum;
    if (block.payload.dma.source.kind == wire::EndpointKind::HostMemory) block.payload.dma.checksum = sum;
    driver_.seal(block);
    return block;
  }

  fwtest::TestCard card_;
  RawDriver& driver_ = card_.driver(2);
  StreamHandle stream_;
};

TEST_F(Strided, RandomNestsMoveWhatAModelMovesAndNothingElse) {
  std::mt19937_64 random(10);
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  const auto other = driver_.acquire(2 * wire::kMiB).value();
  const wire::Endpoint places[] = {RawDriver::host(kHost), RawDriver::device(region, 0), RawDriver::device(other, 0)};
  const std::span<std::byte> memories[] = {host(kMemory), memory(region, kMemory), memory(other, kMemory)};
  for (const auto& memory : memories) fill_randomly(random, memory);
  for (int round = 0; round < 1500; ++round) {
    const Nest nest = svp::test::random_nest(random, {.elements = 2000, .memory_bytes = kMemory});
    const std::size_t from = random() % 3;
    const std::size_t to = from == 0 ? 1 + random() % 2 : (from + 1 + random() % 2) % 3;
    std::vector<std::byte> expected(memories[to].begin(), memories[to].end());
    svp::test::move(nest, memories[from], expected);
    const std::uint32_t sum = svp::test::sum(nest, memories[from]);
    const bool sums = random() % 2 == 0;
    wire::ControlBlock block = block_of(nest, places[from], places[to]);
    if (sums) block = summed(block, sum);
    const auto end = driver_.run(block);
    ASSERT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status) << ", " << wire::name(end.field) << round;
    ASSERT_EQ(end.bytes, nest.bytes());
    if (sums) ASSERT_EQ(end.checksum, sum) << round;
    ASSERT_TRUE(std::ranges::equal(expected, memories[to])) << "round " << round;
  }
}

// ---- steps ----------------------------------------------------------------------------------------------------------

// Elements of a byte, in runs of one: what a step may cost bounds it, not its bytes.
TEST_F(Strided, AStepIsBoundedInElementsAsWellAsInBytes) {
  const auto region = driver_.acquire(4 * wire::kMiB).value();
  ASSERT_EQ(driver_.run(driver_.fill(stream_, region, 0, region.bytes, 0)).outcome, Outcome::Ok);
  struct Case {
    std::vector<StridedLevel> levels;
    std::uint32_t element_bytes;
    std::uint64_t bytes_of_a_step;
  };
  const Case cases[] = {
      {{{1 << 20, 1, 2}}, 1, fw::kDmaStepBytes / fw::kBytesOfAnElement},            // elements apart
      {{{1 << 16, 3, 3}}, 8, 8 * fw::kDmaStepBytes / fw::kBytesOfAnElement},        // larger ones
      {{{2, 1, 1}, {1 << 19, 3, 5}}, 1, 2 * fw::kDmaStepBytes / fw::kBytesOfARow},  // rows of two elements
      {{{128, 1, 1}, {1 << 12, 128, 256}}, 1, fw::kDmaStepBytes / 3},               // rows of a stick
      {{{1 << 20, 1, 1}}, 1, fw::kDmaStepBytes},                                    // dense
  };
  fw::Function& function = card_.function(2);
  for (const Case& c : cases) {
    const wire::Endpoint to = RawDriver::device(region, 0);
    driver_.submit(driver_.strided(stream_, RawDriver::host(kHost), to, c.element_bytes, c.levels));
    ASSERT_TRUE(fw::fetch_blocks(card_.card(), function, 1));
    const std::uint64_t began = function.charged();
    for (std::uint64_t moved = function.counters().bytes_to_device; function.streams.any_runnable();) {
      const std::uint64_t charged = function.charged();
      fw::run_streams(card_.card(), function, 1, charged);
      const std::uint64_t once = charged == began ? fw::kBytesOfATransfer : 0;
      constexpr std::uint64_t kBeyond = fw::kBytesOfRowsAtOnce + fw::kBytesOfARow + fw::kBytesOfAnElement;
      EXPECT_LE(function.charged() - charged, fw::kDmaStepBytes + kBeyond + fw::kBytesOfAStridedStep + once);
      EXPECT_LE(function.counters().bytes_to_device - moved, c.bytes_of_a_step + 128);
      moved = function.counters().bytes_to_device;
    }
    const auto ended = driver_.collect();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].completion.outcome, Outcome::Ok);
  }
}

TEST_F(Strided, LevelsThatFollowEachOtherMoveAsOneRun) {
  const auto region = driver_.acquire(4 * wire::kMiB).value();
  ASSERT_EQ(driver_.run(driver_.fill(stream_, region, 0, region.bytes, 0)).outcome, Outcome::Ok);
  const std::uint64_t before = card_.function(2).charged();
  const StridedLevel levels[] = {{16, 1, 1}, {1, 5, -9}, {16, 16, 16}, {4, 256, 256}, {256, 1024, 1024}};
  const auto end =
      driver_.run(driver_.strided(stream_, RawDriver::host(kHost), RawDriver::device(region, 0), 2, levels));
  ASSERT_EQ(end.outcome, Outcome::Ok);
  EXPECT_EQ(end.bytes, 512 * wire::kKiB);
  constexpr std::uint64_t kSteps = 512 * wire::kKiB / fw::kDmaStepBytes;
  constexpr std::uint64_t kOfAStep = fw::kBytesOfAStridedStep + fw::kBytesOfRowsAtOnce + 2 * fw::kBytesOfARow;
  ControlBlock strided{};
  strided.header.opcode = wire::Opcode::Dma;
  strided.payload.dma.flags = wire::kDmaStrided;
  EXPECT_LE(card_.function(2).charged() - before,
            512 * wire::kKiB + kSteps * kOfAStep + fw::kBytesOfATransfer + fw::charge_of_judging(strided));
}

// ---- marks ----------------------------------------------------------------------------------------------------------

TEST_F(Strided, MarksTheGranulesThatItWritesAndNoneBetween) {
  const auto region = driver_.acquire(64 * wire::kMiB).value();
  const std::uint64_t granule = wire::kGranuleBytes;
  // 8 elements, 4 granules apart, from the last bytes of a granule down.
  const StridedLevel levels[] = {{2, 1, 1}, {8, 2, -static_cast<std::int64_t>(4 * granule / 8)}};
  const auto end = driver_.run(
      driver_.strided(stream_, RawDriver::host(kHost), RawDriver::device(region, 30 * granule - 16), 8, levels));
  ASSERT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status);
  EXPECT_EQ(card_.card().pool.scan_dirty_granules(2), 8u);
  EXPECT_EQ(card_.card().pool.scan_populated_granules(), 8u);
  // An element on each side of a boundary, both marked.
  const StridedLevel across[] = {{2, 1, 1}};
  ASSERT_EQ(
      driver_
          .run(driver_.strided(stream_, RawDriver::host(kHost), RawDriver::device(region, 7 * granule - 8), 8, across))
          .outcome,
      Outcome::Ok);
  EXPECT_EQ(card_.card().pool.scan_populated_granules(), 10u);
  // What is read is not marked.
  ASSERT_EQ(
      driver_.run(driver_.strided(stream_, RawDriver::device(region, 20 * granule), RawDriver::host(kHost), 8, across))
          .outcome,
      Outcome::Ok);
  EXPECT_EQ(card_.card().pool.scan_populated_granules(), 10u);
}

TEST_F(Strided, RandomNestsMarkExactlyTheGranulesOfTheirElements) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    const auto region = driver_.acquire(60 * wire::kMiB).value();
    const auto base = card_.function(2).regions.resolve(region.id, region.generation, 0, 1).value().address;
    Nest nest = svp::test::random_nest(random, {.elements = 300, .memory_bytes = 60 * 1024});
    // As far apart as the region is large.
    for (StridedLevel& level : nest.levels) {
      if (level.count != 1) level.destination_stride *= 1024;
    }
    nest.destination *= 1024;
    std::vector<bool> touched(30, false);
    svp::test::for_each_element(nest,
                                [&](std::uint64_t, std::uint64_t to) { touched[to / wire::kGranuleBytes] = true; });
    const auto end = driver_.run(block_of(nest, RawDriver::host(kHost), RawDriver::device(region, 0)));
    ASSERT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status) << " " << wire::name(end.field);
    EXPECT_EQ(card_.card().pool.scan_dirty_granules(2), static_cast<std::uint64_t>(std::ranges::count(touched, true)))
        << "round " << round << " base " << base;
    ASSERT_EQ(driver_.release(region).outcome, Outcome::Ok);
    card_.pump();
  }
}

TEST(StridedBudget, PopulatedMemoryBeyondTheBudgetIsATypedFault) {
  fwtest::TestCard card({.boot_arguments = std::string("budget_mib=4 ") + fwtest::kAllForTheFirst});
  auto& driver = card.driver(2);
  ASSERT_TRUE(driver.bring_up());
  const auto region = driver.acquire(16 * wire::kMiB).value();
  StreamHandle stream;
  const auto stride = static_cast<std::int64_t>(wire::kGranuleBytes / 2);
  const StridedLevel levels[] = {{8, 1, stride}};
  const auto end = driver.run(driver.strided(stream, RawDriver::host(kHost), RawDriver::device(region, 0), 2, levels));
  EXPECT_EQ(end.outcome, Outcome::Fault);
  EXPECT_EQ(end.status, Status::MemoryBudget);
  EXPECT_EQ(end.field, wire::Field::DmaDestination);
  EXPECT_EQ(end.bytes, 4u) << "an element in each of two granules";
  EXPECT_EQ(card.function(2).counters().bytes_to_device, 4u);
}

// ---- a transfer that does not get to its end ------------------------------------------------------------------------

class LongStrided : public Strided {
 protected:
  LongStrided() : region_(driver_.acquire(16 * wire::kMiB).value()) {
    EXPECT_EQ(driver_.run(driver_.fill(stream_, region_, 0, region_.bytes, 0)).outcome, Outcome::Ok);
  }
  // Under way, and not over.
  void begin() {
    const StridedLevel levels[] = {{1 << 21, 1, 2}};
    driver_.submit(driver_.strided(stream_, RawDriver::host(kHost), RawDriver::device(region_, 0), 2, levels));
    fw::run_iteration(card_.card());
    ASSERT_TRUE(driver_.collect().empty());
  }
  RegionHandle region_;
};

TEST_F(LongStrided, AStreamResetStopsIt) {
  begin();
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  const auto ended = driver_.collect();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Fault);
  EXPECT_EQ(ended[0].completion.status, Status::Stopped);
  EXPECT_GT(ended[0].completion.bytes, 0u);
  EXPECT_LT(ended[0].completion.bytes, std::uint64_t{2} << 21);
  EXPECT_EQ(driver_.run(driver_.nop(stream_)).outcome, Outcome::Ok);
}

// As of a transfer of one run (fw_dispatcher_test).
TEST_F(LongStrided, AProgressBeyondItsBytesIsFound) {
  begin();
  auto& streams = card_.function(2).streams;
  ASSERT_EQ(streams[stream_.id].phase, fw::Stream::Phase::Moving);
  streams.head(stream_.id).progress = (std::uint64_t{2} << 21) + 1;
  EXPECT_DEATH(card_.run_until_idle(), "more than its bytes");
}

TEST_F(LongStrided, AFunctionResetEndsIt) {
  begin();
  ASSERT_TRUE(driver_.bring_up());
  card_.pump();
  EXPECT_TRUE(driver_.collect().empty());
  EXPECT_EQ(card_.card().pool.scan_dirty_granules(2), 0u);
  stream_ = {};
  EXPECT_EQ(driver_.run(driver_.nop(stream_)).outcome, Outcome::Ok);
}

TEST_F(LongStrided, AReleasedRegionEndsItAtItsNextStep) {
  begin();
  card_.function(2).regions.remove(0);
  const auto ended = driver_.wait_for(1);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Fault);
  EXPECT_EQ(ended[0].completion.status, Status::UnknownRegion);
  EXPECT_EQ(ended[0].completion.field, wire::Field::DmaDestination);
}

TEST_F(LongStrided, ABudgetEndsItAsATimeout) {
  const StridedLevel levels[] = {{1 << 21, 1, 2}};
  auto block = driver_.strided(stream_, RawDriver::host(kHost), RawDriver::device(region_, 0), 2, levels);
  block.header.budget = 1;
  driver_.seal(block);
  const auto end = driver_.run(block);
  EXPECT_EQ(end.outcome, Outcome::Timeout);
  EXPECT_EQ(end.status, Status::BudgetExpired);
  EXPECT_LT(end.bytes, std::uint64_t{2} << 21);
}

}  // namespace
