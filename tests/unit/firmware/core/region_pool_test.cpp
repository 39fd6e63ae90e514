// SPDX-License-Identifier: Apache-2.0
// Region memory: never granted twice, never granted dirty, never more of the machine than allowed.
#include "firmware/core/region_pool.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "firmware/platform/host/native_board.hpp"
#include "tests/support/bytes.hpp"

namespace {

using fw::RegionPool;
using wire::kGranuleBytes;

constexpr fw::Owner kMe = 1;

struct Pool {
  explicit Pool(std::uint64_t granules, std::uint64_t budget_granules = 0)
      : board({.region_bytes = granules * kGranuleBytes}),
        bitmaps(RegionPool::bitmap_bytes() / 8),
        budget(budget_granules) {
    pool.init(hal::region_memory(), bytes(), false, options());
  }
  // One function, which has everything.
  fw::BootOptions options() const {
    fw::BootOptions options;
    options.virtual_functions = 0;
    options.populated_budget_bytes = budget * kGranuleBytes;
    return options;
  }
  auto acquire(std::uint64_t bytes) { return pool.acquire(kMe, bytes); }
  bool mark_written(hal::PhysicalAddress at, std::uint64_t size) { return pool.mark_written(kMe, at, size); }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(bitmaps.data()); }
  void scrub_all() {
    while (pool.scrub_step(kGranuleBytes)) {  // bounded: one iteration per dirty granule
    }
  }
  // As a DMA does it.
  bool write(hal::PhysicalAddress at, std::uint64_t size, unsigned char value) {
    if (!mark_written(at, size)) return false;
    std::memset(hal::pointer(at), value, size);
    return true;
  }
  bool clean(hal::PhysicalAddress at, std::uint64_t size) const {
    const std::byte* from = hal::pointer(at);
    return svp::test::all_bytes_are({from, size}, std::byte{0});
  }
  void warm() {
    RegionPool& fresh = *new (&pool) RegionPool;
    fresh.init(hal::region_memory(), bytes(), true, options());
  }

  native::Board board;
  std::vector<std::uint64_t> bitmaps;
  std::uint64_t budget;
  RegionPool pool;
};

TEST(RegionPool, GrantsTheLowestAddressThatFits) {
  Pool p(8);
  const auto base = hal::region_memory().begin;
  EXPECT_EQ(p.acquire(1).value(), base);
  EXPECT_EQ(p.acquire(3 * kGranuleBytes).value(), base + kGranuleBytes);
  EXPECT_EQ(p.acquire(kGranuleBytes + 1).value(), base + 4 * kGranuleBytes);
  p.pool.release(base + kGranuleBytes);
  EXPECT_EQ(p.acquire(2 * kGranuleBytes).value(), base + kGranuleBytes);
  EXPECT_EQ(p.acquire(2 * kGranuleBytes).value(), base + 6 * kGranuleBytes);
  EXPECT_EQ(p.acquire(2 * kGranuleBytes).error(), wire::Status::OutOfDeviceMemory);
  EXPECT_EQ(p.acquire(kGranuleBytes).value(), base + 3 * kGranuleBytes);
  EXPECT_EQ(p.pool.free_bytes(), 0u);
}

TEST(RegionPool, ImpossibleSizesAreRefused) {
  Pool p(8);
  for (const std::uint64_t bytes : {std::uint64_t{0}, 8 * kGranuleBytes + 1, ~std::uint64_t{0},
                                    ~std::uint64_t{0} - kGranuleBytes + 2, std::uint64_t{1} << 63}) {
    EXPECT_EQ(p.acquire(bytes).error(), wire::Status::OutOfDeviceMemory) << bytes;
  }
  EXPECT_EQ(p.pool.free_bytes(), p.pool.total_bytes());
}

TEST(RegionPool, AReleasedDirtyGrantIsNotGrantableBeforeItIsClean) {
  Pool p(2);
  const auto a = p.acquire(2 * kGranuleBytes).value();
  ASSERT_TRUE(p.write(a + 100, 1, 0xaa));
  p.pool.release(a);
  EXPECT_TRUE(p.pool.scrubbing());
  EXPECT_EQ(p.pool.free_bytes(), 0u);
  EXPECT_FALSE(p.acquire(1));
  p.scrub_all();
  EXPECT_FALSE(p.pool.scrubbing());
  EXPECT_EQ(p.acquire(2 * kGranuleBytes).value(), a);
  EXPECT_TRUE(p.clean(a, 2 * kGranuleBytes));
}

TEST(RegionPool, AnUnwrittenGrantNeedsNoScrub) {
  Pool p(2);
  p.pool.release(p.acquire(2 * kGranuleBytes).value());
  EXPECT_FALSE(p.pool.scrubbing());
  EXPECT_EQ(p.pool.free_bytes(), 2 * kGranuleBytes);
}

// Two scrubs at a time: the second begins in the middle of the first one's granule and lies below it.
TEST(RegionPool, AScrubThatIsOvertakenByALowerGrantLeavesNothingDirty) {
  Pool p(2);
  const auto low = p.acquire(kGranuleBytes).value();
  const auto high = p.acquire(kGranuleBytes).value();
  ASSERT_TRUE(p.write(low, kGranuleBytes, 0x11));
  ASSERT_TRUE(p.write(high, kGranuleBytes, 0x22));
  p.pool.release(high);
  ASSERT_TRUE(p.pool.scrub_step(kGranuleBytes / 2));
  p.pool.release(low);
  p.scrub_all();
  const auto both = p.acquire(2 * kGranuleBytes);
  ASSERT_TRUE(both);
  EXPECT_TRUE(p.clean(*both, 2 * kGranuleBytes));
}

TEST(RegionPool, TheBudgetBoundsPopulatedMemoryAndSetsNothingWhenItRefuses) {
  Pool p(8, 3);
  const auto a = p.acquire(8 * kGranuleBytes).value();
  EXPECT_TRUE(p.mark_written(a, 2 * kGranuleBytes));
  EXPECT_TRUE(p.mark_written(a + kGranuleBytes, 1)) << "populated already";
  EXPECT_FALSE(p.mark_written(a + 2 * kGranuleBytes - 1, kGranuleBytes + 2)) << "needs two more";
  EXPECT_EQ(p.pool.populated_granules(), 2u);
  EXPECT_EQ(p.pool.dirty_granules(kMe), 2u);
  EXPECT_TRUE(p.mark_written(a + 7 * kGranuleBytes, kGranuleBytes));
  EXPECT_FALSE(p.mark_written(a + 3 * kGranuleBytes, 1));
  p.pool.release(a);
  p.scrub_all();
  EXPECT_EQ(p.pool.populated_granules(), 3u) << "scrubbed memory is still backed";
}

TEST(RegionPool, AWarmStartQuarantinesEverythingDirty) {
  Pool p(8);
  const auto a = p.acquire(8 * kGranuleBytes).value();
  ASSERT_TRUE(p.write(a + kGranuleBytes, 2 * kGranuleBytes, 0x33));
  ASSERT_TRUE(p.write(a + 6 * kGranuleBytes, 1, 0x44));
  p.warm();
  EXPECT_TRUE(p.pool.scrubbing());
  EXPECT_EQ(p.pool.populated_granules(), 3u);
  EXPECT_EQ(p.pool.free_bytes(), 5 * kGranuleBytes);
  p.scrub_all();
  EXPECT_EQ(p.acquire(8 * kGranuleBytes).value(), a);
  EXPECT_TRUE(p.clean(a, 8 * kGranuleBytes));
}

// More dirty runs than entries: the last entry takes the rest, nothing slips through.
TEST(RegionPool, AWarmStartOfAFragmentedPoolLosesNothing) {
  const std::uint64_t granules = 2 * RegionPool::kGrantsPerOwner + 40;
  Pool p(granules);
  const auto a = p.acquire(granules * kGranuleBytes).value();
  for (std::uint64_t g = 0; g < granules; g += 2) ASSERT_TRUE(p.write(a + g * kGranuleBytes, 1, 0x55));
  p.warm();
  while (!p.acquire(granules * kGranuleBytes)) ASSERT_TRUE(p.pool.scrub_step(kGranuleBytes));
  for (std::uint64_t g = 0; g < granules; ++g) ASSERT_TRUE(p.clean(a + g * kGranuleBytes, 1)) << g;
}

TEST(RegionPool, AColdStartForgetsEverything) {
  Pool p(4);
  const auto a = p.acquire(4 * kGranuleBytes).value();
  ASSERT_TRUE(p.write(a, 1, 1));
  p.pool.init(hal::region_memory(), p.bytes(), false, p.options());
  EXPECT_FALSE(p.pool.scrubbing());
  EXPECT_EQ(p.pool.populated_granules(), 0u);
  EXPECT_EQ(p.pool.free_bytes(), 4 * kGranuleBytes);
}

TEST(RegionPool, GrantsOfAnOwnerAreBoundedInNumber) {
  Pool p(RegionPool::kGrantsPerOwner + 1);
  for (std::size_t i = 0; i < RegionPool::kGrantsPerOwner; ++i) ASSERT_TRUE(p.acquire(1));
  EXPECT_EQ(p.acquire(1).error(), wire::Status::OutOfRegions);
}

// Any order of acquire, write, release and partial scrub: grants do not overlap, figures agree with a map of granules,
// and what a fresh grant holds is zero to the last byte.
RC_GTEST_PROP(RegionPool, NoOverlapAndNotOneDirtyByteInAFreshGrant, ()) {
  constexpr std::uint64_t kGranules = 12;
  const auto budget = *rc::gen::inRange<std::uint64_t>(0, 2 * kGranules);
  Pool p(kGranules, budget);
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  std::map<std::uint64_t, std::uint64_t> live;  // address → bytes
  for (int step = 0; step < 60; ++step) {
    switch (random() % 5) {
      case 0:
      case 1: {
        const std::uint64_t bytes = (1 + random() % 4) * kGranuleBytes - random() % 100;
        const std::uint64_t rounded = wire::align_up(bytes, kGranuleBytes);
        const std::uint64_t largest = p.pool.largest_bytes();
        const auto got = p.acquire(bytes);
        if (!got) {
          // Refused with room: what it may populate is being scrubbed.
          RC_ASSERT(largest < rounded || (p.pool.scrubbing() && budget != 0));
          RC_ASSERT(largest < rounded || p.pool.prospect(kMe, bytes) == RegionPool::Prospect::AfterOwn);
          break;
        }
        RC_ASSERT(largest >= rounded);
        for (const auto& [at, size] : live) RC_ASSERT(*got + rounded <= at || at + size <= *got);
        RC_ASSERT(*got >= hal::region_memory().begin && *got + rounded <= hal::region_memory().end);
        for (std::uint64_t g = 0; g < rounded; g += kGranuleBytes) {
          RC_ASSERT(p.clean(*got + g, 256) && p.clean(*got + g + kGranuleBytes / 2, 256) &&
                    p.clean(*got + g + kGranuleBytes - 256, 256));
        }
        live[*got] = rounded;
        break;
      }
      case 2: {
        if (live.empty()) break;
        const auto& [at, size] = *std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        const std::uint64_t offset = random() % size;
        const std::uint64_t bytes = 1 + random() % (size - offset);
        const std::uint64_t before = p.pool.populated_granules();
        if (p.mark_written(at + offset, bytes)) {
          // The ends of every granule, where a scrub that skips something would leave a trace.
          const std::uint64_t last = (offset + bytes - 1) / kGranuleBytes;
          for (std::uint64_t g = offset / kGranuleBytes; g <= last; ++g) {
            std::byte* granule = hal::pointer(at + g * kGranuleBytes);
            std::memset(granule, 0xee, 256);
            std::memset(granule + kGranuleBytes / 2, 0xee, 256);
            std::memset(granule + kGranuleBytes - 256, 0xee, 256);
          }
        } else {
          RC_ASSERT(budget != 0 && p.pool.populated_granules() == before);
        }
        RC_ASSERT(budget == 0 || p.pool.populated_granules() <= budget);
        break;
      }
      case 3: {
        if (live.empty()) break;
        const auto at = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        p.pool.release(at->first);
        live.erase(at);
        break;
      }
      default: p.pool.scrub_step((1 + random() % 8) * kGranuleBytes / 4); break;
    }
    std::uint64_t granted = 0;
    for (const auto& [at, size] : live) granted += size;
    RC_ASSERT(p.pool.free_bytes() + granted <= p.pool.total_bytes());
    RC_ASSERT(p.pool.scrubbing() || p.pool.free_bytes() + granted == p.pool.total_bytes());
    RC_ASSERT(p.pool.largest_bytes() <= p.pool.free_bytes());
    if (random() % 40 == 0) {
      p.warm();
      live.clear();
    }
  }
}

}  // namespace
