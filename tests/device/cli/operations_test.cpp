// SPDX-License-Identifier: Apache-2.0
// `spyre ops`, `spyre run OP` and `spyre run transformer`.
#include <gmock/gmock.h>

#include "host_driver/models/transformer.hpp"
#include "tests/device/cli/cli_fixture.hpp"

namespace svp {
namespace {

using nlohmann::json;
using test::Finished;

class OperationCommands : public test::Cli {
 protected:
  json run_json(std::vector<std::string> words) const {
    words.emplace_back("--json");
    const Finished ran = run_spyre(words);
    EXPECT_EQ(ran.code, 0) << ran.output;
    return json::parse(ran.output, nullptr, false);
  }
};

TEST_F(OperationCommands, TheTableNamesEachOperation) {
  const json table = run_json({"ops"});
  ASSERT_EQ(table["operations"].size(), 48U);
  EXPECT_EQ(table["operations"][1]["name"], "add");
  EXPECT_EQ(table["operations"][1]["tensors"], 2);
  EXPECT_EQ(table["operations"][4]["bounds"]["DL16"]["ulps"], 1);
  const Finished text = run_spyre({"ops"});
  EXPECT_THAT(text.output, testing::HasSubstr("softmax"));
}

TEST_F(OperationCommands, AnOperationIsRunAndVerified) {
  const json sum = run_json({"run", "sum", "--shape", "5x70", "--integer", "1", "--integer", "-1", "--seed", "3",
                             "--repeat", "2", "--cores", "2", "--vf", "1", "--verify"});
  EXPECT_EQ(sum["outputs"], (json::array({json::array({5, 1})})));
  EXPECT_EQ(sum["elements"], 5);
  EXPECT_EQ(sum["mismatches"], 0);
  const json add =
      run_json({"run", "add", "--shape", "3x64", "--shape", "64", "--dtype", "float32", "--repeat", "1", "--verify"});
  EXPECT_EQ(add["elements"], 192);
  EXPECT_TRUE(add["passed"]);
  const json fp8 = run_json({"run", "linear_fp8", "--shape", "5x70", "--shape", "33x70", "--number", "0.25", "--number",
                             "0.5", "--vf", "1", "--repeat", "1", "--verify"});
  EXPECT_EQ(fp8["outputs"], (json::array({json::array({5, 33})})));
  EXPECT_TRUE(fp8["passed"]);
}

TEST_F(OperationCommands, AConvolutionIsRunOnShapesOfItsOwn) {
  const json plain = run_json({"run", "conv2d", "--repeat", "1", "--verify"});
  EXPECT_EQ(plain["outputs"], (json::array({json::array({1, 64, 26, 26})})));
  EXPECT_TRUE(plain["passed"]);
  const json grouped = run_json({"run", "conv2d", "--shape", "2x6x9x9", "--shape", "9x2x3x3", "--shape", "9",
                                 "--integer", "2", "2", "1", "1", "1", "1", "3", "--repeat", "1", "--verify"});
  EXPECT_EQ(grouped["outputs"], (json::array({json::array({2, 9, 5, 5})})));
  EXPECT_TRUE(grouped["passed"]);
  const Finished alone = run_spyre({"run", "conv2d", "--shape", "1x6x9x9"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.output, testing::HasSubstr("give 2 to 3 tensors"));
}

// Those that shapes of one size, or no number, do not serve.
TEST_F(OperationCommands, OperationsHaveShapesAndNumbersOfTheirOwn) {
  for (const char* operation : {"linear", "layer_norm", "rms_norm", "topk", "avg_pool2d", "max_pool2d"}) {
    SCOPED_TRACE(operation);
    const json ran = run_json({"run", operation, "--repeat", "1", "--verify"});
    EXPECT_TRUE(ran["passed"]);
    EXPECT_EQ(ran["beyond_bound"], 0);
  }
}

TEST_F(OperationCommands, HeadsOfTheQueriesShareKeysAndValues) {
  const json attention = run_json({"run", "attention", "--shape", "1x8x16x64", "--shape", "1x2x16x64", "--shape",
                                   "1x2x16x64", "--repeat", "1", "--verify"});
  EXPECT_EQ(attention["outputs"], (json::array({json::array({1, 8, 16, 64})})));
  EXPECT_TRUE(attention["passed"]);
}

TEST_F(OperationCommands, WhatCannotBeIsRefused) {
  const Finished numbers = run_spyre({"run", "abs", "--number", "3"});
  EXPECT_EQ(numbers.code, 2);
  EXPECT_THAT(numbers.output, testing::HasSubstr("abs of 1 tensor with 1 number"));
  const Finished shape = run_spyre({"run", "add", "--shape", "3xx4"});
  EXPECT_EQ(shape.code, 2);
  EXPECT_THAT(shape.output, testing::HasSubstr("'3xx4' is no shape"));
  EXPECT_EQ(run_spyre({"run", "attention", "--dtype", "float32"}).code, 2);
  EXPECT_EQ(run_spyre({"run", "mish"}).code, 2);
}

TEST_F(OperationCommands, ADecoderGeneratesWithinItsBound) {
  const json model = run_json({"run", "transformer", "--tokens", "6", "--heads", "2", "--layers", "1"});
  EXPECT_EQ(model["tokens"].size(), 6U);
  EXPECT_TRUE(model["passed"]);
  EXPECT_GT(model["operations_per_token"], 20);
  EXPECT_EQ(model["error_bound"], models::kLogitBound);
  EXPECT_LE(model["largest_relative_error"], models::kLogitBound);
}

}  // namespace
}  // namespace svp
