// SPDX-License-Identifier: Apache-2.0
#include "host_driver/memory/host_memory.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace svp {
namespace {

constexpr std::uint64_t kWindowOffset = 0x40000;

struct Pages {
  explicit Pages(std::size_t bytes)
      : owner(std::aligned_alloc(4096, bytes), std::free), span(static_cast<std::byte*>(owner.get()), bytes) {}
  std::shared_ptr<void> owner;
  std::span<std::byte> span;
};

TEST(HostMemory, SmallBuffersStartOnSticksAndLargeOnesOnPages) {
  Pages pages(1 << 20);
  HostMemory memory(pages.span, kWindowOffset);
  std::vector<PinnedBuffer> buffers;
  for (const std::size_t bytes : {1U, 127U, 129U, 4095U, 4096U, 5000U, 100U, 65536U}) {
    buffers.push_back(memory.allocate(bytes));
    const std::uint64_t alignment = bytes < 4096 ? 128 : 4096;
    EXPECT_EQ(buffers.back().size(), bytes);
    EXPECT_EQ(buffers.back().window_offset() % alignment, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffers.back().data()) % alignment, 0U);
    EXPECT_EQ(buffers.back().data() - pages.span.data(),
              static_cast<std::ptrdiff_t>(buffers.back().window_offset() - kWindowOffset));
  }
}

TEST(HostMemory, LargeBuffersOfTransfersLieAtTheEndOfTheWindow) {
  constexpr std::uint64_t kTotal = std::uint64_t{8} << 20;
  Pages pages(kTotal);
  HostMemory memory(pages.span, kWindowOffset);
  const auto staging = memory.allocate(2 << 20, BufferUse::Staging);
  const auto small = memory.allocate(8192);
  const auto first = memory.allocate(2 << 20);
  const auto second = memory.allocate((1 << 20) + 1);
  EXPECT_EQ(staging.window_offset() - kWindowOffset, 0U);
  EXPECT_EQ(small.window_offset() - kWindowOffset, std::uint64_t{2} << 20);
  EXPECT_EQ(first.window_offset() - kWindowOffset, kTotal - (2 << 20));
  EXPECT_EQ(second.window_offset() - kWindowOffset, kTotal - (3 << 20) - 4096) << "on a page";
}

TEST(HostMemory, ABufferGoesBackWhenItsOwnerIsGone) {
  Pages pages(8192);
  HostMemory memory(pages.span, kWindowOffset);
  {
    PinnedBuffer buffer = memory.allocate(8192);
    PinnedBuffer moved = std::move(buffer);
    EXPECT_TRUE(buffer.empty());  // NOLINT(bugprone-use-after-move): moved-from is specified as empty
    EXPECT_EQ(memory.statistics().buffers, 1U);
    EXPECT_EQ(memory.statistics().largest_free, 0U);
  }
  EXPECT_EQ(memory.statistics().used_bytes, 0U);
  EXPECT_EQ(memory.statistics().peak_bytes, 8192U);
  EXPECT_EQ(memory.statistics().largest_free, 8192U);
}

TEST(HostMemory, AssignmentReleasesWhatWasHeld) {
  Pages pages(8192);
  HostMemory memory(pages.span, 0);
  PinnedBuffer buffer = memory.allocate(128);
  buffer = memory.allocate(256);
  EXPECT_EQ(memory.statistics().used_bytes, 256U);
  buffer = PinnedBuffer();
  EXPECT_EQ(memory.statistics().used_bytes, 0U);
}

TEST(HostMemory, ExhaustionIsTypedAndCountsEveryByte) {
  Pages pages(8192);
  HostMemory memory(pages.span, 0);
  const PinnedBuffer held = memory.allocate(4096);
  try {
    memory.allocate(5000);
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage(),
              (MemoryShortage{.requested = 5000, .free_bytes = 4096, .largest_block = 4096, .total_bytes = 8192}));
  }
  EXPECT_FALSE(memory.try_allocate(5000));
  EXPECT_TRUE(memory.allocate(0).empty());
}

TEST(HostMemory, ABufferKeepsTheMappingAlive) {
  Pages pages(8192);
  const std::weak_ptr<void> watch = pages.owner;
  std::optional<HostMemory> memory(std::in_place, pages.span, 0U, std::move(pages.owner));
  PinnedBuffer buffer = memory->allocate(100);
  memory.reset();
  EXPECT_FALSE(watch.expired());
  buffer.bytes()[99] = std::byte{1};
  buffer = PinnedBuffer();
  EXPECT_TRUE(watch.expired());
}

TEST(HostMemory, OnlySpansFullyInsideAreTranslated) {
  Pages pages(8192);
  HostMemory memory(pages.span, kWindowOffset);
  std::byte outside{};
  EXPECT_EQ(memory.window_offset_of(pages.span.subspan(100, 8)), kWindowOffset + 100);
  EXPECT_EQ(memory.window_offset_of(pages.span), kWindowOffset);
  EXPECT_EQ(memory.window_offset_of({pages.span.data() + 8000, 193}), std::nullopt);
  EXPECT_EQ(memory.window_offset_of({&outside, 1}), std::nullopt);
}

TEST(HostMemory, MisplacedBlocksAreRefused) {
  Pages pages(8192);
  EXPECT_THROW(HostMemory(pages.span.subspan(128), 0), InvalidArgument);
  EXPECT_THROW(HostMemory(pages.span, 100), InvalidArgument);
  EXPECT_THROW(HostMemory(pages.span.first(100), 0), InvalidArgument);
}

TEST(HostMemory, ThreadsNeverShareAByte) {
  Pages pages(1 << 20);
  HostMemory memory(pages.span, 0);
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&memory, seed] {
      std::mt19937 random(seed);
      std::vector<PinnedBuffer> mine;
      for (int i = 0; i < 500; ++i) {
        auto buffer = memory.try_allocate(1 + random() % 9000);
        if (!buffer || mine.size() > 16) mine.erase(mine.begin(), mine.begin() + static_cast<long>(mine.size() / 2));
        if (!buffer) continue;
        std::ranges::fill(buffer->bytes(), std::byte(seed));
        mine.push_back(std::move(*buffer));
        for (const PinnedBuffer& held : mine) {
          ASSERT_EQ(held.bytes().front(), std::byte(seed));
          ASSERT_EQ(held.bytes().back(), std::byte(seed));
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each allocates a number of times
  EXPECT_EQ(memory.statistics().used_bytes, 0U);
}

}  // namespace
}  // namespace svp
