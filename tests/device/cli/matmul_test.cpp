// SPDX-License-Identifier: Apache-2.0
// What scripts/demo shows: a matrix product through a kernel that is compiled for a quarter of its rows, every element
// checked.
#include <gmock/gmock.h>

#include "tests/device/cli/cli_fixture.hpp"

namespace svp {
namespace {

using nlohmann::json;
using test::Finished;

class Demo : public test::Cli {
 protected:
  // The program checks each element against the golden model and against double precision.
  json multiply(int rows, int columns, int depth, int tile, int seed) const {
    const auto text = [](int number) { return std::to_string(number); };
    const Finished ran = run_spyre({"run", "matmul", "--m", text(rows), "--n", text(columns), "--k", text(depth),
                                    "--tile", text(tile), "--seed", text(seed), "--vf", "0", "--json"});
    EXPECT_EQ(ran.code, 0) << "seed " << seed << "\n" << ran.output;
    json result = json::parse(ran.output, nullptr, false);
    EXPECT_EQ(result["seed"], seed) << ran.output;
    EXPECT_EQ(result["elements"], rows * columns) << "seed " << seed;
    EXPECT_EQ(result["mismatches"], 0) << "seed " << seed;
    EXPECT_EQ(result["beyond_error_bound"], 0) << "seed " << seed;
    EXPECT_EQ(result["tiles"].size(), static_cast<std::size_t>(rows / tile));
    EXPECT_EQ(result["blocks"].size(), static_cast<std::size_t>(2 * rows / tile));
    return result;
  }
};

// scripts/demo: --m 4096 --n 1024 --k 1024 --tile 1024.
TEST_F(Demo, ItsOwnShapeIsRightInFourTilesAndEightBlocks) {
  const json result = multiply(4096, 1024, 1024, 1024, 7);
  EXPECT_EQ(result["tiles"].size(), 4u);
  EXPECT_EQ(result["blocks"].size(), 8u);
}

// A quarter of each extent; the demo's own takes a hundred times as long, most of it for the check.
TEST_F(Demo, TenSeedsOfItsFormAreRight) {
  for (int seed = 1; seed <= 10; ++seed) (void)multiply(1024, 256, 256, 256, seed);
}

}  // namespace
}  // namespace svp
