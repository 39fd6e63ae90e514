// SPDX-License-Identifier: Apache-2.0
// Requests of the kind Blocks by a hart's page tables: what is transposed, what is missing, what is no request.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/qemu/array/card_with_array.hpp"

namespace {

using test::MemoryBuilder;
using wire::array::BlocksRequest;
using wire::array::Outcome;

enum Operand : std::uint32_t { kRow, kColumn = wire::array::kOutput };

// Rows of random bytes at kInputAt, one behind the other; the output lies at kOutputAt in the region.
class BlocksRequests : public test::CardWithArray {
 protected:
  static constexpr std::uint64_t kInputAt = 0x40000, kOutputAt = 0x80000, kBytesOfEach = 0x20000;

  BlocksRequests() {
    std::mt19937 random(1);
    for (std::uint64_t i = 0; i < kBytesOfEach; ++i) *card.at(first_ + kInputAt + i) = static_cast<std::byte>(random());
  }

  BlocksRequest& blocks() { return reinterpret_cast<BlocksRequest&>(request()); }

  void ask(std::uint32_t item, std::uint32_t rows, std::uint32_t columns, std::uint64_t count) {
    std::memset(card.at(first_ + kOutputAt), 0x11, kBytesOfEach);
    const std::uint64_t block = wire::kStickBytes / item * wire::kStickBytes;
    blocks() = {};
    blocks().kind = wire::array::Kind::Blocks;
    blocks().item = item;
    blocks().rows = rows;
    blocks().columns = columns;
    blocks().count = count;
    blocks().input = {kWindow + kInputAt, wire::kStickBytes};
    blocks().output = {kWindow + kOutputAt, wire::kStickBytes};
    blocks().input_step = blocks().output_step = block;
  }

  // Item by item: what the output holds after the request that stands there.
  std::vector<std::byte> expected() {
    const BlocksRequest& r = blocks();
    std::vector<std::byte> output(card.at(first_ + kOutputAt), card.at(first_ + kOutputAt + kBytesOfEach));
    for (std::uint64_t n = 0; n < r.count; ++n) {
      const std::byte* const from = card.at(first_ + (r.input.address - kWindow) + n * r.input_step);
      std::byte* const to = output.data() + (r.output.address - kWindow - kOutputAt) + n * r.output_step;
      for (std::uint64_t column = 0; column < r.columns; ++column) {
        std::memset(to + column * r.output.step, 0, wire::kStickBytes);
        for (std::uint64_t row = 0; row < r.rows; ++row) {
          std::memcpy(to + column * r.output.step + row * r.item, from + row * r.input.step + column * r.item, r.item);
        }
      }
    }
    return output;
  }
  void expect_transposed() {
    const std::vector<std::byte> output = expected();
    array.work(kHart);
    ASSERT_EQ(blocks().outcome, Outcome::Done);
    EXPECT_EQ(blocks().done, blocks().count);
    EXPECT_EQ(std::memcmp(output.data(), card.at(first_ + kOutputAt), kBytesOfEach), 0);
  }

  template <typename Change>
  Outcome outcome_of(Change change) {
    ask(2, 64, 64, 2);
    change(blocks());
    array.work(kHart);
    return blocks().outcome;
  }
  template <typename Change>
  void expect_missing(Change change, std::uint32_t operand, std::uint64_t address) {
    EXPECT_EQ(outcome_of(change), Outcome::Missing);
    EXPECT_EQ(blocks().operand, operand);
    EXPECT_EQ(blocks().address, address);
    EXPECT_EQ(*card.at(first_ + kOutputAt), std::byte{0x11}) << "nothing was written";
  }
};

TEST_F(BlocksRequests, TransposeWholeBlocksAndPartsOfThem) {
  for (const std::uint32_t item : {1u, 2u, 4u}) {
    const std::uint32_t lanes = wire::kStickBytes / item;
    for (const std::uint32_t rows : {1u, 3u, 8u, 9u, lanes - 1, lanes}) {
      for (const std::uint32_t columns : {1u, 2u, 7u, 16u, 17u, lanes - 3, lanes}) {
        SCOPED_TRACE(std::to_string(item) + " bytes, " + std::to_string(rows) + " x " + std::to_string(columns));
        ask(item, rows, columns, wire::array::most_blocks(item));
        expect_transposed();
      }
    }
  }
}

TEST_F(BlocksRequests, GoByTheStepsOfTheirSticksAndBlocks) {
  ask(2, 64, 64, 3);
  blocks().input.step = 3 * wire::kStickBytes;
  blocks().input_step = wire::kStickBytes;
  blocks().output.step = 5 * wire::kStickBytes;
  blocks().output_step = 2 * wire::kStickBytes;
  expect_transposed();
  ask(4, 32, 32, 2);
  blocks().input.step = 0;  // one row for all
  blocks().output_step = 0;
  expect_transposed();
}

TEST_F(BlocksRequests, SayWhichByteIsMissingBeforeTheyTouchAnything) {
  constexpr std::uint64_t kBeyond = kWindow + 2 * MemoryBuilder::kLargePage;
  expect_missing([](BlocksRequest& r) { r.input.address = kBeyond - 128; }, kRow, kBeyond);
  expect_missing([](BlocksRequest& r) { r.input_step = kBeyond; }, kRow, kWindow + kInputAt + kBeyond);
  expect_missing([](BlocksRequest& r) { r.output.address = kSecondPage - 63 * wire::kStickBytes; }, kColumn,
                 kSecondPage);
  expect_missing([](BlocksRequest& r) { r.output_step = kBeyond; }, kColumn, kWindow + kOutputAt + kBeyond);
  // The engine reads four rows of 2-byte items, and then writes.
  const auto both = [](std::uint64_t rows) {
    return [rows](BlocksRequest& r) {
      r.input.address = kBeyond - rows * wire::kStickBytes;
      r.output.address = kSecondPage;
    };
  };
  expect_missing(both(3), kRow, kBeyond);
  expect_missing(both(4), kColumn, kSecondPage);
}

TEST_F(BlocksRequests, ReadWhatMayOnlyBeRead) {
  EXPECT_EQ(outcome_of([](BlocksRequest& r) { r.input.address = kSecondPage; }), Outcome::Done);
}

// What the engine leaves there depends on its order.
TEST_F(BlocksRequests, AreRefusedWhenABlockReadsWhatItWrites) {
  const auto refused = [&](std::uint64_t output) {
    ask(2, 64, 64, 2);
    blocks().output.address = kWindow + kInputAt + output;
    array.work(kHart);
    return blocks().outcome == Outcome::Refused;
  };
  EXPECT_TRUE(refused(0));
  EXPECT_TRUE(refused(63 * wire::kStickBytes));
  EXPECT_FALSE(refused(64 * wire::kStickBytes)) << "the block behind is another one";
}

TEST_F(BlocksRequests, AreRefusedWhenTheyAreNone) {
  const auto refused = [&](auto change) { return outcome_of(change) == Outcome::Refused; };
  EXPECT_FALSE(refused([](BlocksRequest&) {}));
  for (const std::uint32_t item : {0u, 3u, 8u, 128u, ~0u}) {
    EXPECT_TRUE(refused([&](BlocksRequest& r) { r.item = item; })) << item;
  }
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.rows = 0; }));
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.rows = 65; }));
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.columns = 0; }));
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.columns = 65; }));
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.item = 4; })) << "64 rows are more than 32 lanes";
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.count = 0; }));
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.count = wire::array::most_blocks(2) + 1; }));
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.input.address += 64; }));
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.input.step = 64; }));
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.input_step = std::uint64_t{1} << 38; }));
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.output.address = std::uint64_t{1} << 63; }));
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.output.step = ~std::uint64_t{127}; }));
  EXPECT_TRUE(refused([](BlocksRequest& r) { r.output_step = 2; }));
}

}  // namespace
