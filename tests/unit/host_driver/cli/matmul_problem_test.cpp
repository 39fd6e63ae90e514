// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/matmul_problem.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host_driver/base/error.hpp"
#include "shared/units.hpp"

namespace cli {
namespace {

using testing::HasSubstr;

TEST(MatmulProblem, SizesThatDoNotFitTheMachineAreRefusedWithTheNumbers) {
  EXPECT_NO_THROW(require_memory(4096, 1024, 1024, memory_needed(4096, 1024, 1024)));
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 20;
  EXPECT_EQ(memory_needed(kLargest, kLargest, kLargest), std::uint64_t{36} << 40)
      << "the largest extents overflow nothing";
  try {
    require_memory(kLargest, kLargest, kLargest, 4 * wire::kGiB);
    FAIL() << "it does not fit";
  } catch (const svp::InvalidArgument& error) {
    EXPECT_THAT(error.info().message, HasSubstr("needs 37748736 MiB"));
    EXPECT_THAT(error.info().message, HasSubstr("4096 MiB are available"));
    EXPECT_FALSE(error.info().next_step.empty());
  }
}

}  // namespace
}  // namespace cli
