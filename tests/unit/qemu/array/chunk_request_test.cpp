// SPDX-License-Identifier: Apache-2.0
// Requests of the kind Chunk by a hart's page tables: what is found, what is missing, what is no request.
#include <cstring>

#include "shared/device_program.hpp"
#include "tests/unit/qemu/array/card_with_array.hpp"

namespace {

using test::MemoryBuilder;
using wire::array::ChunkRequest;
using wire::array::Outcome;

enum Operand : std::uint32_t { kRowList, kPanelList, kRow, kSums = wire::array::kOutput, kPanel };

constexpr std::uint16_t kOne = 0x3E00;

// Two rows of ones times a panel of ones, whose depth is 64; the sums stand at the start of the region.
class ChunkRequests : public test::CardWithArray {
 protected:
  static constexpr std::uint64_t kRowListAt = 1024, kPanelListAt = 2048;
  static constexpr std::uint64_t kRowsAt = 0x10000, kPanelAt = 0x20000;
  static constexpr unsigned kRows = 2, kDepth = 64;

  ChunkRequest& chunk() { return reinterpret_cast<ChunkRequest&>(request()); }
  float sum(unsigned half, unsigned row, unsigned place) {
    float value = 0;
    std::memcpy(&value, card.at(first_ + half * 1024 + row * wire::kStickBytes + place * sizeof value), sizeof value);
    return value;
  }
  void set_row(unsigned i, std::uint64_t address) { set_word(scratchpad_ + kRowListAt + i * 8, address); }
  void set_panel(unsigned k, std::uint64_t address) { set_word(scratchpad_ + kPanelListAt + k * 8, address); }

  void ask() {
    std::memset(card.at(first_), 0, 4096);
    for (std::uint64_t at = kRowsAt; at < kPanelAt + kDepth * wire::kStickBytes; at += sizeof kOne) {
      std::memcpy(card.at(first_ + at), &kOne, sizeof kOne);
    }
    for (unsigned i = 0; i < kRows; ++i) set_row(i, kWindow + kRowsAt + i * wire::kStickBytes);
    for (unsigned k = 0; k < kDepth; ++k) set_panel(k, kWindow + kPanelAt + k * wire::kStickBytes);
    chunk() = {};
    chunk().kind = wire::array::Kind::Chunk;
    chunk().rows = kRows;
    chunk().depth = kDepth;
    chunk().lanes = 64;
    chunk().row_list = kScratchpad + kRowListAt;
    chunk().panel_list = kScratchpad + kPanelListAt;
    chunk().sums = kWindow;
    chunk().half_step = 1024;
  }

  template <typename Change>
  void expect_missing(Change change, std::uint32_t operand, std::uint64_t address) {
    ask();
    change(chunk());
    array.work(kHart);
    EXPECT_EQ(chunk().outcome, Outcome::Missing);
    EXPECT_EQ(chunk().operand, operand);
    EXPECT_EQ(chunk().address, address);
    for (unsigned place = 0; place < 32; ++place) EXPECT_EQ(sum(0, 0, place), 0);
  }
  template <typename Change>
  Outcome outcome_of(Change change) {
    ask();
    change(chunk());
    array.work(kHart);
    return chunk().outcome;
  }
};

TEST_F(ChunkRequests, AddTheProductsOfTheirRowsAndNoOthers) {
  ask();
  array.work(kHart);
  ASSERT_EQ(chunk().outcome, Outcome::Done);
  EXPECT_EQ(chunk().done, kDepth);
  for (unsigned half = 0; half < 2; ++half) {
    for (unsigned place = 0; place < 32; ++place) {
      EXPECT_EQ(sum(half, 0, place), 64);
      EXPECT_EQ(sum(half, 1, place), 64);
      EXPECT_EQ(sum(half, 2, place), 0);
    }
  }
  array.work(kHart);
  EXPECT_EQ(sum(1, 1, 31), 128) << "sums are added to";
}

TEST_F(ChunkRequests, SayWhichByteIsMissingBeforeTheyTouchAnything) {
  constexpr std::uint64_t kBeyond = kWindow + 2 * MemoryBuilder::kLargePage;
  expect_missing([](ChunkRequest& r) { r.row_list = kBeyond; }, kRowList, kBeyond);
  expect_missing([](ChunkRequest& r) { r.row_list = kBeyond - 8; }, kRow, 0);  // of its words the first is 0
  expect_missing([](ChunkRequest& r) { r.panel_list = kScratchpad + 4096; }, kPanelList, kScratchpad + 4096);
  expect_missing([&](ChunkRequest&) { set_row(1, kBeyond); }, kRow, kBeyond);
  expect_missing([&](ChunkRequest&) { set_panel(63, kBeyond + 128); }, kPanel, kBeyond + 128);
  // The second row of the second half may only be read.
  expect_missing([](ChunkRequest& r) { r.half_step = MemoryBuilder::kLargePage - 128; }, kSums, kSecondPage);
}

TEST_F(ChunkRequests, ReadWhatMayOnlyBeRead) {
  EXPECT_EQ(outcome_of([&](ChunkRequest&) { set_row(0, kSecondPage), set_panel(3, kSecondPage + 128); }),
            Outcome::Done);
}

// Three chunks of few rows; rows and panel are found by their steps.
TEST_F(ChunkRequests, OfFewRowsHaveSeveralChunks) {
  const auto by_step = [](ChunkRequest& r) {
    r.depth = 150;
    r.row_step = 0x1000;  // the sticks behind the rows
    r.panel_step = wire::kStickBytes;
    r.panel_list = kWindow + kRowsAt;
  };
  ASSERT_EQ(outcome_of(by_step), Outcome::Done);
  EXPECT_EQ(chunk().done, 150u);
  EXPECT_EQ(sum(0, 0, 0), 150);
  EXPECT_EQ(sum(1, 1, 31), 150);
  constexpr std::uint64_t kEnd = kWindow + 2 * MemoryBuilder::kLargePage;
  expect_missing(
      [&](ChunkRequest& r) {
        by_step(r);
        r.panel_list = kEnd - 149 * wire::kStickBytes;
      },
      kPanel, kEnd);
  expect_missing(
      [&](ChunkRequest& r) {
        by_step(r);
        set_row(1, kEnd - wire::kStickBytes - 0x1000);
      },
      kRow, kEnd - wire::kStickBytes + 0x1000);
}

// A stick of the panel has two positions of k.
TEST_F(ChunkRequests, OfFp8ReadHalfAsManySticksOfThePanel) {
  const auto of_fp8 = [&](ChunkRequest& r) {
    r.format = static_cast<std::uint32_t>(wire::program::Format::Fp8E4m3);
    r.half = 1;
    for (unsigned k = kDepth / 2; k < kDepth; ++k) set_panel(k, ~std::uint64_t{0});
  };
  EXPECT_EQ(outcome_of(of_fp8), Outcome::Done);
  EXPECT_EQ(outcome_of([&](ChunkRequest& r) {
              of_fp8(r);
              r.depth = kDepth - 1;
            }),
            Outcome::Done);
  expect_missing(
      [&](ChunkRequest& r) {
        of_fp8(r);
        set_panel(31, kWindow + 2 * MemoryBuilder::kLargePage);
      },
      kPanel, kWindow + 2 * MemoryBuilder::kLargePage);
}

TEST_F(ChunkRequests, AreRefusedWhenTheyAreNone) {
  const auto refused = [&](auto change) { return outcome_of(change) == Outcome::Refused; };
  EXPECT_FALSE(refused([](ChunkRequest&) {}));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.rows = 0; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.rows = wire::array::kMaxRows + 1; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.depth = 0; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) {
    r.rows = wire::array::kFewRows + 1;
    r.depth = wire::array::kMaxDepth + 1;
  }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.depth = wire::array::kMaxFewDepth + 1; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) {
    r.format = 6;
    r.depth = wire::array::kMaxDepth + 1;
  }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.row_step = 64; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.panel_step = 64; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.panel_step = std::uint64_t{1} << 38; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) {
    r.panel_step = wire::kStickBytes;
    r.panel_list = kWindow + 8;
  })) << "a list in the place of a stick";
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.lanes = 0; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.lanes = 65; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.row_list += 4; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.row_list = std::uint64_t{1} << 38; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.panel_list = ~std::uint64_t{7}; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.sums += 64; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.half_step = std::uint64_t{1} << 38; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.format = 1; })) << "FP32";
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.format = 7; })) << "the other FP8";
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.format = 0x10000; }));
  EXPECT_TRUE(refused([](ChunkRequest& r) { r.half = 1; })) << "of DL16";
  EXPECT_TRUE(refused([](ChunkRequest& r) {
    r.format = 6;
    r.half = 2;
  }));
  EXPECT_TRUE(refused([&](ChunkRequest&) { set_row(1, kWindow + 2); }));
  EXPECT_TRUE(refused([&](ChunkRequest&) { set_panel(9, std::uint64_t{1} << 63); }));
}

}  // namespace
