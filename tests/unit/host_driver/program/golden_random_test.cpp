// SPDX-License-Identifier: Apache-2.0
// Random programs: the checker accepts what the generator makes, and the golden model stays inside of exact buffers.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "host_driver/program/golden/golden.hpp"
#include "shared/device_program_names.hpp"
#include "tests/support/device_programs.hpp"

namespace {

using svp::test::ProgramLimits;
using svp::test::RandomProgram;

using svp::program::golden::Order;

void run(RandomProgram& made, Order order = Order::Ascending) {
  std::vector<std::span<std::byte>> arguments(made.arguments.begin(), made.arguments.end());
  svp::program::golden::run(made.program, arguments, order);
}

TEST(GoldenModel, RunsRandomProgramsOfEveryOpcode) {
  const std::uint64_t seed = svp::test::program_seed();
  for (const auto opcode : svp::test::all_opcodes()) {
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(opcode));
    for (int i = 0; i < 40; ++i) {
      ProgramLimits limits{.opcodes = {opcode}, .positions = 1024};
      limits.loops = i % 2 != 0;
      limits.workspace = i % 4 >= 2;
      RandomProgram made = svp::test::random_program(random, limits);
      SCOPED_TRACE("SPYRE_SEED=" + std::to_string(seed) + " " + made.text);
      const auto before = made.arguments;
      ASSERT_NO_THROW(run(made));
      for (std::size_t a = 0; a < before.size(); ++a) {
        const bool written = made.entries[a].access >= wire::program::Access::Write;
        if (!written) EXPECT_EQ(before[a], made.arguments[a]) << "argument " << a << " may only be read";
      }
    }
  }
}

TEST(GoldenModel, GivesTheSameBytesInEveryOrderOfElements) {
  std::mt19937_64 random(svp::test::program_seed());
  for (int i = 0; i < 30; ++i) {
    ProgramLimits limits{.opcodes = svp::test::all_opcodes(), .operations = 6, .positions = 512};
    limits.loops = limits.workspace = true;
    RandomProgram made = svp::test::random_program(random, limits);
    SCOPED_TRACE(made.text);
    RandomProgram again = made;
    ASSERT_NO_THROW(run(made));
    ASSERT_NO_THROW(run(again, Order::Descending));
    EXPECT_EQ(made.arguments, again.arguments);
  }
}

TEST(GoldenModel, RefusesWhatDoesNotFit) {
  std::mt19937_64 random(svp::test::program_seed());
  const ProgramLimits limits{.opcodes = {wire::program::Opcode::Add}};
  RandomProgram made = svp::test::random_program(random, limits);
  std::vector<std::span<std::byte>> arguments(made.arguments.begin(), made.arguments.end());
  const auto last = arguments.back();
  arguments.back() = last.first(last.size() - 1);
  EXPECT_THROW(svp::program::golden::run(made.program, arguments), svp::InvalidArgument);
  arguments.pop_back();
  EXPECT_THROW(svp::program::golden::run(made.program, arguments), svp::InvalidArgument);
  made.program.back() ^= std::byte{1};
  EXPECT_THROW(run(made), svp::program::golden::Refused);
}

}  // namespace
