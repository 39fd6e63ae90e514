// SPDX-License-Identifier: Apache-2.0
#include "firmware/platform/virt/window_allocator.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace virt {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST(WindowAllocator, BlocksAreNaturallyAlignedApartAndInside) {
  WindowAllocator<64> window;
  const std::uint64_t base = 0x4000'1000, bytes = kGiB;
  window.initialize(base, bytes);
  std::map<std::uint64_t, std::uint64_t> live;
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0) {
      const std::uint64_t size = std::uint64_t{256} << random() % 18;
      const std::uint64_t at = window.allocate(size);
      if (at == 0) continue;
      ASSERT_EQ(at % size, 0u);
      ASSERT_GE(at, base);
      ASSERT_LE(at + size, base + bytes);
      const auto next = live.lower_bound(at);
      ASSERT_TRUE(next == live.end() || at + size <= next->first);
      ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= at);
      live[at] = size;
    } else if (!live.empty()) {
      const auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      ASSERT_TRUE(window.release(victim->first));
      live.erase(victim);
    }
    ASSERT_EQ(window.count(), live.size());
  }
}

TEST(WindowAllocator, SixtyFourWindowsOf256MiBFitIntoTheHighWindowAndAddressesAreReused) {
  WindowAllocator<256> window;
  window.initialize(112 * kGiB, 16 * kGiB);
  for (unsigned i = 0; i < 64; ++i) ASSERT_EQ(window.allocate(256 * kMiB), 112 * kGiB + i * 256 * kMiB);
  EXPECT_EQ(window.allocate(256 * kMiB), 0u);
  EXPECT_EQ(window.allocate(4096), 0u);
  ASSERT_TRUE(window.release(112 * kGiB + 17 * 256 * kMiB));
  EXPECT_EQ(window.allocate(256 * kMiB), 112 * kGiB + 17 * 256 * kMiB);
}

TEST(WindowAllocator, HostileSizesGetNothing) {
  WindowAllocator<4> window;
  window.initialize(kGiB, kGiB);
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{3}, 2 * kGiB, std::uint64_t{1} << 63}) {
    EXPECT_EQ(window.allocate(size), 0u) << size;
  }
  EXPECT_FALSE(window.release(0));
  window.initialize(~std::uint64_t{0} - 4095, ~std::uint64_t{0});
  EXPECT_EQ(window.allocate(8192), 0u) << "at the end of the address space";
  window.initialize(kGiB, kGiB);
  for (unsigned i = 0; i < 4; ++i) EXPECT_NE(window.allocate(4096), 0u);
  EXPECT_EQ(window.allocate(4096), 0u) << "no room for a fifth block";
}

TEST(WindowAllocator, AddressZeroMeansNoneAndIsNeverHandedOut) {
  WindowAllocator<4> window;
  window.initialize(0, 8192);
  EXPECT_EQ(window.allocate(4096), 0u);
}

}  // namespace
}  // namespace virt
