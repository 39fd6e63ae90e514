// SPDX-License-Identifier: Apache-2.0
// The walk of the page tables: what the array finds is what a hart in U-mode may read, and no more.
#include "qemu/array/card_memory.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/qemu/array/memory_builder.hpp"

namespace {

using svp::array::find_page;
using test::MemoryBuilder;

constexpr std::uint64_t kAddress = std::uint64_t{1} << 34;

class PageWalk : public testing::Test {
 protected:
  MemoryBuilder card{std::uint64_t{8} << 20};

  std::optional<svp::array::Page> find(std::uint64_t address) { return find_page(card.memory(), card.root(), address); }
};

TEST_F(PageWalk, FindsPagesOfBothSizes) {
  const std::uint64_t small = card.take_page();
  const std::uint64_t large = card.take_large_page();
  card.map(kAddress + MemoryBuilder::kPage, small, 0);
  card.map(kAddress + MemoryBuilder::kLargePage, large, 1, {.write = false});

  const auto first = find(kAddress + MemoryBuilder::kPage + 128);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->first, kAddress + MemoryBuilder::kPage);
  EXPECT_EQ(first->end, kAddress + 2 * MemoryBuilder::kPage);
  EXPECT_EQ(first->at(kAddress + MemoryBuilder::kPage + 128), card.at(small) + 128);
  EXPECT_TRUE(first->writable);

  const auto second = find(kAddress + 2 * MemoryBuilder::kLargePage - 1);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->end - second->first, MemoryBuilder::kLargePage);
  EXPECT_EQ(second->memory, card.at(large));
  EXPECT_FALSE(second->writable);
}

TEST_F(PageWalk, FindsNothingThatAHartInUModeMayNotRead) {
  const std::uint64_t page = card.take_page();
  EXPECT_FALSE(find(kAddress));
  card.map(kAddress, page, 0, {.user = false});
  EXPECT_FALSE(find(kAddress));
  card.map(kAddress, page, 0, {.write = false, .execute = true});
  EXPECT_FALSE(find(kAddress)) << "code is no operand";
  card.map(kAddress, page, 0);
  EXPECT_TRUE(find(kAddress));
  EXPECT_FALSE(find(kAddress + MemoryBuilder::kPage));
  EXPECT_FALSE(find(kAddress | std::uint64_t{1} << 38)) << "only the lower half is mapped";
  EXPECT_FALSE(find(kAddress | std::uint64_t{1} << 63));
  EXPECT_FALSE(find_page(card.memory(), 0, kAddress));
  EXPECT_FALSE(find_page(card.memory(), ~std::uint64_t{0}, kAddress));
}

TEST_F(PageWalk, FindsNothingInEntriesThatLackOneBit) {
  constexpr std::uint64_t kValid = 1, kRead = 2, kUser = 16;
  card.map(kAddress, card.take_page(), 0);
  std::uint64_t& entry = card.leaf_of(kAddress);
  const std::uint64_t complete = entry;
  for (const std::uint64_t bit : {kValid, kRead, kUser}) {
    entry = complete & ~bit;
    EXPECT_FALSE(find(kAddress)) << "without bit " << bit;
  }
  entry = complete;
  EXPECT_TRUE(find(kAddress));
}

// A table that lies 4 bytes behind a page's start has its entries across two words.
TEST_F(PageWalk, FindsNothingInATableThatIsNotAligned) {
  const std::uint64_t page = card.take_page();
  card.map(kAddress, page, 0);
  const std::uint64_t shifted = card.take_page();
  std::memcpy(card.at(shifted) + 4, card.at(card.root()), MemoryBuilder::kPage - 4);
  EXPECT_FALSE(find_page(card.memory(), shifted + 4, kAddress));
  std::memcpy(card.at(shifted), card.at(card.root()), MemoryBuilder::kPage);
  EXPECT_TRUE(find_page(card.memory(), shifted, kAddress));
}

TEST_F(PageWalk, FindsNothingOutsideOfTheCardsMemory) {
  card.map(kAddress, 0x1000, 0);
  EXPECT_FALSE(find(kAddress));
  card.map(kAddress, MemoryBuilder::kFirst + (std::uint64_t{8} << 20), 0);
  EXPECT_FALSE(find(kAddress));
  card.map(kAddress + MemoryBuilder::kLargePage, MemoryBuilder::kFirst + MemoryBuilder::kPage, 1);
  EXPECT_FALSE(find(kAddress + MemoryBuilder::kLargePage)) << "a large page has its own alignment";
}

// Whatever a table holds: an answer lies inside of the memory, or there is none.
TEST_F(PageWalk, OfTablesOfNoiseStaysInTheMemory) {
  std::mt19937_64 random(testing::UnitTest::GetInstance()->random_seed());
  const svp::array::CardMemory memory = card.memory();
  for (unsigned i = 0; i < 1024; ++i) {
    auto* const words = reinterpret_cast<std::uint64_t*>(card.at(MemoryBuilder::kFirst + i % 8 * MemoryBuilder::kPage));
    for (unsigned w = 0; w < 512; ++w) {
      words[w] =
          MemoryBuilder::frame(MemoryBuilder::kFirst + random() % 2100 * MemoryBuilder::kPage) | (random() & 0xFF);
    }
    const std::uint64_t address = random() >> 26;
    const auto page = find_page(memory, MemoryBuilder::kFirst, address);
    if (!page) continue;
    EXPECT_TRUE(page->holds(address));
    EXPECT_GE(page->memory, card.at(MemoryBuilder::kFirst));
    EXPECT_LE(page->memory + (page->end - page->first), card.at(MemoryBuilder::kFirst) + (std::uint64_t{8} << 20));
  }
}

}  // namespace
