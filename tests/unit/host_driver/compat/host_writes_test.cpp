// SPDX-License-Identifier: Apache-2.0
// Host memory that transfers from the card write: who finds none under way reads what they wrote.
#include "host_driver/compat/flex/2026-08-21/host_writes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include "tests/bounds.hpp"

namespace {

using flex::detail::HostWrites;

// The sanitizer of threads is what judges here: nothing but reach() orders the two threads.
TEST(HostWrites, WhatAWriteLeftIsReadWithoutAnyOtherOrder) {
  for (int round = 0; round < 50; ++round) {
    HostWrites writes;
    std::array<std::byte, 64> memory{};
    auto write = writes.add(3, memory.data(), memory.size());
    std::thread writer([&memory, write = std::move(write)]() mutable {
      memory.fill(std::byte{7});
      write.reset();
    });
    const auto deadline = std::chrono::steady_clock::now() + test_bounds::kCompute;
    bool under_way = true;
    while (under_way && std::chrono::steady_clock::now() < deadline) {
      under_way = writes.reach(3, memory.data(), memory.size());
    }
    EXPECT_FALSE(under_way);
    if (!under_way) {
      EXPECT_EQ(memory.back(), std::byte{7});
    }
    writer.join();  // bounded: it fills 64 bytes
  }
}

TEST(HostWrites, ReachesItsStreamAndItsBytesUntilItsLastHolderLetsGo) {
  HostWrites writes;
  std::array<std::byte, 64> memory{};
  auto write = writes.add(3, memory.data() + 16, 16);
  EXPECT_TRUE(writes.reach(3, memory.data() + 31, 1));
  EXPECT_TRUE(writes.reach(3, memory.data(), 17));
  EXPECT_FALSE(writes.reach(3, memory.data(), 16));
  EXPECT_FALSE(writes.reach(3, memory.data() + 32, 16));
  EXPECT_FALSE(writes.reach(4, memory.data() + 16, 16));
  auto again = write;
  write.reset();
  EXPECT_TRUE(writes.reach(3, memory.data(), memory.size()));
  again.reset();
  EXPECT_FALSE(writes.reach(3, memory.data(), memory.size()));
}

}  // namespace
