// SPDX-License-Identifier: Apache-2.0
// A strided DMA is judged as a whole before its first byte moves: every bad nest is REJECTED with its own status and
// field, and no memory has changed (scenario F8).
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::RawDriver;
using fwtest::RegionHandle;
using fwtest::StreamHandle;
using wire::ControlBlock;
using wire::Field;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kHost = wire::kHostMemoryOffset;
constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

constexpr std::uint64_t operator""_e(unsigned long long exponent) { return std::uint64_t{1} << exponent; }

struct BadNest {
  const char* what;
  std::function<void(ControlBlock&)> spoil;
  Status status;
  Field field;
  std::uint64_t argument = 0;
};

class BadStridedBlock : public testing::Test {
 protected:
  BadStridedBlock() {
    EXPECT_TRUE(driver_.bring_up());
    region_ = driver_.acquire(2 * wire::kMiB).value();
    other_ = driver_.acquire(2 * wire::kMiB).value();
  }

  // 3 x 4 elements of 4 bytes, transposed on the way; the host's rows are reversed.
  ControlBlock good(bool on_device = false) {
    const wire::StridedLevel levels[] = {{4, 1, 3}, {3, -4, 1}};
    const auto from = on_device ? RawDriver::device(other_, 64) : RawDriver::host(kHost + 64);
    return driver_.strided(stream_, from, RawDriver::device(region_, 4), 4, levels);
  }
  // As `good`, with other loops; `bytes` follows from them, modulo 2^64.
  static auto nest(std::uint32_t element_bytes, std::vector<wire::StridedLevel> levels) {
    return [element_bytes, levels](ControlBlock& b) {
      wire::StridedDmaPayload& strided = b.payload.strided;
      strided.loops = {};
      strided.loops.depth = static_cast<std::uint32_t>(levels.size());
      strided.loops.element_bytes = element_bytes;
      strided.dma.bytes = element_bytes;
      strided.dma.destination.offset = 64;
      for (std::size_t i = 0; i < levels.size(); ++i) {
        strided.loops.levels[i] = levels[i];
        strided.dma.bytes *= levels[i].count;
      }
      if (strided.dma.bytes == 0) strided.dma.bytes = 1;
    };
  }

  void expect_rejected(const BadNest& bad) {
    SCOPED_TRACE(bad.what);
    ControlBlock block = good();
    bad.spoil(block);
    driver_.seal(block);
    const auto memory = card_.board().region_memory();
    const std::vector<std::byte> before(memory.begin(), memory.end());
    const std::uint64_t populated = card_.card().pool.populated_granules();
    const auto end = driver_.run(block);
    EXPECT_EQ(end.outcome, Outcome::Rejected);
    EXPECT_EQ(end.status, bad.status) << wire::name(end.status);
    EXPECT_EQ(end.field, bad.field) << wire::name(end.field);
    EXPECT_EQ(end.fault.argument, bad.argument);
    EXPECT_EQ(end.bytes, 0u);
    EXPECT_EQ(end.start_time, 0u);
    EXPECT_EQ(std::memcmp(before.data(), memory.data(), memory.size()), 0) << "memory changed";
    EXPECT_EQ(card_.card().pool.populated_granules(), populated);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }

  fwtest::TestCard card_{{.window_bytes = wire::kMinWindowBytes,
                          .region_bytes = 8 * wire::kMiB,
                          .boot_arguments = fwtest::kAllForTheFirst}};
  RawDriver& driver_ = card_.driver(2);
  RegionHandle region_{}, other_{};
  StreamHandle stream_;
};

TEST_F(BadStridedBlock, TheUnspoiltBlockIsGood) {
  EXPECT_EQ(driver_.run(good()).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.run(good(true)).outcome, Outcome::Ok);
  // The largest nest: eight levels, and a level of one step may stride as it likes.
  ControlBlock deep = good();
  nest(1,
       {{2, 1, 1}, {1, kLowest, kHighest}, {2, 2, -2}, {2, -4, 4}, {2, 0, 8}, {2, 8, 16}, {2, 1, 32}, {1, 1, 1}})(deep);
  driver_.seal(deep);
  EXPECT_EQ(driver_.run(deep).outcome, Outcome::Ok);
}

TEST_F(BadStridedBlock, AFormThatIsNoNestIsRejectedByItsField) {
  const auto loops = [](ControlBlock& b) -> wire::StridedPayload& { return b.payload.strided.loops; };
  for (const std::uint32_t depth : {0u, 9u, 0x80000000u, ~0u}) {
    expect_rejected({"depth", [=](auto& b) { loops(b).depth = depth; }, Status::BadCount, Field::StridedDepth});
  }
  for (const std::uint32_t element : {0u, 3u, 5u, 16u, 128u, ~0u}) {
    expect_rejected(
        {"element", [=](auto& b) { loops(b).element_bytes = element; }, Status::BadSize, Field::StridedElement});
  }
  for (unsigned word = 0; word < 7; ++word) {
    expect_rejected({"reserved", [=](auto& b) { loops(b).reserved[word] = 1; }, Status::ReservedBits, Field::Reserved});
  }
  for (const std::uint64_t level : {0u, 1u}) {
    expect_rejected(
        {"count 0", [=](auto& b) { loops(b).levels[level].count = 0; }, Status::BadCount, Field::StridedCount, level});
  }
  for (const std::uint64_t level : {2u, 7u}) {
    const auto unused = [&](const char* what, std::function<void(wire::StridedLevel&)> spoil) {
      expect_rejected({what, [=](auto& b) { spoil(loops(b).levels[level]); }, Status::ReservedBits,
                       Field::StridedLevelUnused, level});
    };
    unused("count of no level", [](auto& l) { l.count = 1; });
    unused("source stride of no level", [](auto& l) { l.source_stride = -1; });
    unused("destination stride of no level", [](auto& l) { l.destination_stride = kLowest; });
  }
  // One level less, or more, than were meant.
  expect_rejected(
      {"depth 1 of 2", [=](auto& b) { loops(b).depth = 1; }, Status::ReservedBits, Field::StridedLevelUnused, 1});
  expect_rejected({"depth 3 of 2", [=](auto& b) { loops(b).depth = 3; }, Status::BadCount, Field::StridedCount, 2});
}

TEST_F(BadStridedBlock, FlagsSticksAndBytesMustGoTogether) {
  expect_rejected({"0 bytes", [](auto& b) { b.payload.dma.bytes = 0; }, Status::BadSize, Field::DmaBytes});
  for (const std::uint64_t bytes : {std::uint64_t{47}, std::uint64_t{49}, std::uint64_t{12}, kMax}) {
    expect_rejected({"bytes", [=](auto& b) { b.payload.dma.bytes = bytes; }, Status::BadSize, Field::DmaBytes});
  }
  expect_rejected({"flag", [](auto& b) { b.payload.dma.flags |= 4; }, Status::BadFlags, Field::DmaFlags});
  expect_rejected({"sum", [](auto& b) { b.payload.dma.checksum = 1; }, Status::BadFlags, Field::DmaFlags});
  for (const unsigned sticks : {1u, 2u, 4u}) {
    ControlBlock block = good();
    block.header.sticks = static_cast<std::uint8_t>(sticks);
    driver_.submit_sticks(block, sticks);
    const auto ended = driver_.wait_for(1);
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].completion.status, Status::BadSize);
    EXPECT_EQ(ended[0].completion.field, Field::Sticks);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }
  // A linear one with loops behind it.
  ControlBlock linear = good();
  linear.payload.dma.flags = 0;
  const auto end = driver_.run(linear);
  EXPECT_EQ(end.status, Status::BadSize);
  EXPECT_EQ(end.field, Field::Sticks);
}

TEST_F(BadStridedBlock, CountsAndStridesThatOverflowAreRejected) {
  for (const std::uint64_t big : {31_e, 35_e, 63_e, kMax}) {
    const auto far = static_cast<std::int64_t>(big);
    // Together more than 2^64 elements, or bytes.
    expect_rejected({"count", nest(1, {{big, 0, 1}, {big, 0, 1}, {big, 0, 1}}), Status::Overflow, Field::StridedCount,
                     big <= 31_e ? 2u : 1u});
    if (big > 61_e) {
      expect_rejected({"bytes", nest(8, {{big, 0, 1}}), Status::Overflow, Field::StridedCount, 0});
    }
    // Few elements, far apart.
    const auto level_of = [&](std::int64_t from, std::int64_t to) { return nest(8, {{1_e << 33, from, to}}); };
    expect_rejected({"source stride", level_of(far == -1 ? kLowest : far, 1), Status::Overflow, Field::StridedSource});
    expect_rejected(
        {"destination stride", level_of(0, far == -1 ? kLowest : far), Status::Overflow, Field::StridedDestination});
  }
  for (const std::int64_t stride : {kLowest, kHighest, kLowest + 1, -1 - (std::int64_t{1} << 61)}) {
    expect_rejected({"source", nest(1, {{2, stride, 1}}), Status::Overflow, Field::StridedSource});
    expect_rejected({"destination", nest(1, {{2, 1, stride}}), Status::Overflow, Field::StridedDestination});
    // Two strides that would make up for each other if numbers wrapped.
    expect_rejected({"both ways", nest(1, {{2, stride, 1}, {2, stride, 2}}), Status::Overflow, Field::StridedSource});
  }
  expect_rejected({"offset that wraps", [](auto& b) { b.payload.dma.destination.offset = kMax - 3; }, Status::Overflow,
                   Field::StridedDestination});
  expect_rejected(
      {"before offset 0", [](auto& b) { b.payload.dma.source.offset = 28; }, Status::Overflow, Field::StridedSource});
}

TEST_F(BadStridedBlock, ElementsLieInsideOfTheirMemoryAndAlignedInIt) {
  const std::uint64_t end = region_.bytes;
  const auto at = [](std::uint64_t from, std::uint64_t to) {
    return [=](ControlBlock& b) { b.payload.dma.source.offset = from, b.payload.dma.destination.offset = to; };
  };
  for (const std::uint64_t odd : {1u, 2u, 3u}) {
    expect_rejected({"source", at(kHost + 64 + odd, 4), Status::BadAlignment, Field::DmaSource});
    expect_rejected({"destination", at(kHost + 64, 4 + odd), Status::BadAlignment, Field::DmaDestination});
  }
  // 12 elements from the place on, and 8 before it at the source.
  expect_rejected({"an element over the end", at(kHost + 64, end - 44), Status::OutOfBounds, Field::DmaDestination});
  expect_rejected({"an element before host memory", at(kHost + 28, 4), Status::NotHostMemory, Field::DmaSource});
  expect_rejected(
      {"an element behind the window", at(driver_.window().size() - 12, 4), Status::NotHostMemory, Field::DmaSource});
  expect_rejected({"window header", at(64, 4), Status::NotHostMemory, Field::DmaSource});
  EXPECT_EQ(driver_
                .run([&] {
                  ControlBlock block = good();
                  at(kHost + 32, end - 48)(block);
                  driver_.seal(block);
                  return block;
                }())
                .outcome,
            Outcome::Ok)
      << "the last places that fit";
  expect_rejected({"box of several regions", nest(8, {{2, 1, 1 << 20}}), Status::OutOfBounds, Field::DmaDestination});
}

TEST_F(BadStridedBlock, NamesOfMemoryAreJudgedAsForLinearTransfers) {
  expect_rejected({"unknown region", [](auto& b) { b.payload.dma.destination.region_id = 6; }, Status::UnknownRegion,
                   Field::DmaDestination});
  expect_rejected({"stale region", [](auto& b) { ++b.payload.dma.destination.generation; }, Status::StaleRegion,
                   Field::DmaDestination});
  expect_rejected({"kind", [](auto& b) { b.payload.dma.source.kind = static_cast<wire::EndpointKind>(2); },
                   Status::BadEndpointKind, Field::DmaSource});
  expect_rejected(
      {"reserved", [](auto& b) { b.payload.dma.source.reserved[1] = 1; }, Status::ReservedBits, Field::DmaSource});
  expect_rejected({"host to host", [](auto& b) { b.payload.dma.destination = RawDriver::host(kHost + 4096); },
                   Status::BadEndpointKind, Field::DmaDestination});
}

TEST_F(BadStridedBlock, NoElementOfTheDestinationIsWrittenTwice) {
  const auto overlaps = [&](std::vector<wire::StridedLevel> levels) {
    expect_rejected({"overlap", nest(2, std::move(levels)), Status::Overlap, Field::StridedDestination});
  };
  overlaps({{2, 1, 0}});
  overlaps({{2, 1, 1}, {2, 2, 1}});
  overlaps({{2, 1, 1}, {2, 2, -1}});
  overlaps({{4, 1, 1}, {2, 4, 3}});
  overlaps({{4, 4, 2}, {2, 1, 1}, {2, 16, 7}});
  // Distinct in fact, but interleaved: refused as well (shared/strided.hpp says so).
  overlaps({{3, 1, 2}, {2, 3, 3}});
  ControlBlock apart = good();
  nest(2, {{4, 1, 2}, {2, 4, 1}, {2, 0, 8}})(apart);
  driver_.seal(apart);
  EXPECT_EQ(driver_.run(apart).outcome, Outcome::Ok);
}

TEST_F(BadStridedBlock, BoxesThatOverlapInTheCardAreRefused) {
  const wire::StridedLevel levels[] = {{4, 2, 2}};
  const auto run = [&](std::uint64_t from, std::uint64_t to) {
    const auto end = driver_.run(
        driver_.strided(stream_, RawDriver::device(region_, from), RawDriver::device(region_, to), 4, levels));
    if (end.outcome != Outcome::Ok) EXPECT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
    return end;
  };
  EXPECT_EQ(run(1024, 1024 + 28).outcome, Outcome::Ok);
  EXPECT_EQ(run(1024 + 28, 1024).outcome, Outcome::Ok);
  for (const std::uint64_t to : {1024u, 1024u + 4, 1024u - 24, 1024u + 24}) {
    const auto end = run(1024, to);
    EXPECT_EQ(end.outcome, Outcome::Rejected) << to;
    EXPECT_EQ(end.status, Status::Overflow);
    EXPECT_EQ(end.field, Field::DmaDestination);
  }
}

}  // namespace
