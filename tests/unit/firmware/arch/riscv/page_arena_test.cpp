// SPDX-License-Identifier: Apache-2.0
#include "firmware/arch/riscv/page_arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace riscv {
namespace {

constexpr std::uint64_t kPage = PageArena::kPageBytes;
constexpr std::uint64_t kLarge = PageArena::kLargePageBytes;
constexpr std::uint64_t kBegin = 0xC000'0000;

// 64 KiB of bits: not for the stack.
std::unique_ptr<PageArena> make(std::uint64_t begin, std::uint64_t end) {
  auto arena = std::make_unique<PageArena>();
  arena->initialize(begin, end);
  return arena;
}

TEST(PageArena, AllocationsNeverOverlapAndStayInside) {
  auto arena = make(kBegin, kBegin + 64 * kLarge);
  struct Block {
    std::uint64_t address, bytes;
  };
  std::vector<Block> live;
  std::mt19937_64 random(42);
  for (int i = 0; i < 5000; ++i) {
    if (live.empty() || random() % 3 != 0) {
      const std::uint64_t bytes = random() % 8 == 0 ? kLarge * (1 + random() % 3) : 1 + random() % (40 * kPage);
      const std::uint64_t address = arena->allocate(bytes);
      if (address == 0) continue;
      ASSERT_GE(address, kBegin);
      ASSERT_LE(address + bytes, kBegin + 64 * kLarge);
      ASSERT_EQ(address % (bytes >= kLarge ? kLarge : kPage), 0u);
      for (const Block& other : live) {
        ASSERT_TRUE(address >= other.address + other.bytes || address + bytes <= other.address);
      }
      live.push_back({address, bytes});
    } else {
      const std::size_t index = random() % live.size();
      ASSERT_TRUE(arena->release(live[index].address, live[index].bytes));
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }
  for (const Block& block : live) ASSERT_TRUE(arena->release(block.address, block.bytes));
  EXPECT_EQ(arena->free_pages(), 64 * kLarge / kPage);
  EXPECT_EQ(arena->allocate(64 * kLarge), kBegin) << "everything has merged again";
}

TEST(PageArena, AnExhaustedArenaSaysSoAndRecovers) {
  auto arena = make(kBegin, kBegin + kLarge);
  for (std::uint64_t i = 0; i < kLarge / kPage; ++i) ASSERT_NE(arena->allocate(kPage), 0u);
  EXPECT_EQ(arena->allocate(1), 0u);
  EXPECT_EQ(arena->free_pages(), 0u);
  EXPECT_TRUE(arena->release(kBegin + 7 * kPage, kPage));
  EXPECT_EQ(arena->allocate(kPage), kBegin + 7 * kPage);
}

TEST(PageArena, WhatWasNotAllocatedIsNotReleased) {
  auto arena = make(kBegin, kBegin + 4 * kLarge);
  const std::uint64_t address = arena->allocate(3 * kPage);
  EXPECT_FALSE(arena->release(address, 4 * kPage)) << "one page too many";
  EXPECT_FALSE(arena->release(address + 1, kPage)) << "not a page";
  EXPECT_FALSE(arena->release(kBegin - kPage, kPage)) << "below";
  EXPECT_FALSE(arena->release(kBegin + 4 * kLarge, kPage)) << "behind";
  EXPECT_FALSE(arena->release(address, 0));
  EXPECT_FALSE(arena->release(address, ~std::uint64_t{0})) << "impossible size";
  EXPECT_TRUE(arena->release(address, 3 * kPage));
  EXPECT_FALSE(arena->release(address, 3 * kPage)) << "twice";
  EXPECT_EQ(arena->free_pages(), 4 * kLarge / kPage);
}

TEST(PageArena, ImpossibleSizesGetNothing) {
  auto arena = make(kBegin, kBegin + 4 * kLarge);
  for (const std::uint64_t bytes : {std::uint64_t{0}, 4 * kLarge + 1, ~std::uint64_t{0}, ~std::uint64_t{0} - kPage}) {
    EXPECT_EQ(arena->allocate(bytes), 0u);
  }
  EXPECT_EQ(make(kBegin, kBegin)->allocate(1), 0u);
  EXPECT_EQ(make(kBegin + kLarge, kBegin)->allocate(1), 0u) << "end before begin";
}

TEST(PageArena, BoundsAreRoundedInwards) {
  auto arena = make(kBegin + 1, kBegin + 3 * kLarge - 1);
  EXPECT_EQ(arena->free_pages(), kLarge / kPage);
  EXPECT_EQ(arena->allocate(kLarge), kBegin + kLarge);
}

}  // namespace
}  // namespace riscv
