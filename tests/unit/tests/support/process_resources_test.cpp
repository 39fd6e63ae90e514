// SPDX-License-Identifier: Apache-2.0
// The comparison that tests of left-overs judge by.
#include "tests/support/process_resources.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host_driver/base/unique_fd.hpp"

namespace svp::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

TEST(LeftOver, IsNothingWhenNothingChanged) { EXPECT_EQ(left_over(count_process_resources()), ""); }

TEST(LeftOver, TellsOfADescriptorMoreAndOfWhichKinds) {
  const auto before = count_process_resources();
  const UniqueFd kept{::open("/dev/zero", O_RDONLY | O_CLOEXEC)};
  ASSERT_TRUE(kept.valid());
  EXPECT_THAT(left_over(before, 0ms), StartsWith("1 descriptors more (now "));
  EXPECT_THAT(left_over(before, 0ms), HasSubstr("1 /dev/zero"));
}

TEST(LeftOver, TellsOfADescriptorThatSomebodyElseClosed) {
  UniqueFd closed{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  ASSERT_TRUE(closed.valid());
  const auto before = count_process_resources();
  closed.reset();
  EXPECT_THAT(left_over(before, 0ms), StartsWith("1 descriptors less (now "));
}

TEST(LeftOver, IsNothingWhenOnlyWhatWasEndingHasEnded) {
  auto before = count_process_resources();
  ++before.own.threads;
  ++before.processes;
  before.children = true;
  EXPECT_EQ(left_over(before, 0ms), "");
}

TEST(LeftOver, TellsOfThreadsAndProcessesMore) {
  auto before = count_process_resources();
  --before.own.threads;
  EXPECT_EQ(left_over(before, 0ms), "1 threads more");
  auto now = before;
  now.processes += 2;
  now.children = true;
  EXPECT_EQ(difference(before, now), "2 processes more, children left uncollected");
}

}  // namespace
}  // namespace svp::test
