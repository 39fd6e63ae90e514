// SPDX-License-Identifier: Apache-2.0
#include "qemu/memory_budget.hpp"

#include <gtest/gtest.h>
#include <sys/sysinfo.h>

#include "shared/units.hpp"

namespace svp {
namespace {

TEST(MemoryBudget, AvailableMemoryIsReadFromItsOwnLine) {
  EXPECT_EQ(parse_available_memory("MemTotal:  100 kB\nMemFree:  7 kB\nMemAvailable:   24576 kB\nBuffers: 1 kB\n"),
            24 * wire::kMiB);
  EXPECT_EQ(parse_available_memory("MemAvailable: 0 kB"), 0u);
}

TEST(MemoryBudget, TextOfAnotherFormIsNoNumber) {
  for (const char* text :
       {"", "MemFree: 7 kB\n", "MemAvailable:", "MemAvailable: x kB", "MemAvailable: 12 MB", "MemAvailable: 12",
        "XMemAvailable: 12 kB", "MemAvailable: 99999999999999999999 kB", "MemAvailable: 18446744073709551615 kB"}) {
    EXPECT_EQ(parse_available_memory(text), std::nullopt) << text;
  }
}

TEST(MemoryBudget, CardsShareAThirdOfTheMachine) {
  struct sysinfo machine{};
  ASSERT_EQ(::sysinfo(&machine), 0);
  const std::uint64_t one = default_populated_budget();
  EXPECT_GE(one, wire::kMiB);
  EXPECT_LE(one, machine.totalram * machine.mem_unit / 3);
  EXPECT_EQ(one % wire::kMiB, 0u);
  // Other programs take and give memory meanwhile: half of it may differ.
  const std::uint64_t four = default_populated_budget(4);
  EXPECT_LE(four, one / 2);
  EXPECT_GE(four, one / 8);
  EXPECT_GE(default_populated_budget(~0u), wire::kMiB) << "never 0, which would be no budget at all";
}

}  // namespace
}  // namespace svp
