// SPDX-License-Identifier: Apache-2.0
// Every operation of the table, lowered and executed by the golden model, against the same in double precision.
#include "host_driver/ops/lowering.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/program/golden/golden.hpp"
#include "tests/support/op_cases.hpp"

namespace svp {
namespace {

using ops::Op;

std::uint64_t seed() {
  const char* text = std::getenv("SPYRE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261124;
}

class EveryOperation : public testing::TestWithParam<ops::OpInfo> {};

TEST_P(EveryOperation, IsWhatItsNameSays) {
  test::Random random(seed() + static_cast<unsigned>(GetParam().op));
  for (int round = 0; round < 10; ++round) {
    const test::OpCase made = test::random_op_case(GetParam().op, random, 4000);
    const auto wrong = test::check_op_case(
        made, [](const ops::Lowered& lowered, auto arguments) { program::golden::run(lowered.program, arguments); });
    ASSERT_EQ(wrong, std::nullopt) << *wrong << "\nSPYRE_SEED=" << seed();
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryOperation,
                         testing::ValuesIn(ops::operation_table().begin(), ops::operation_table().end()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(OperationTable, IsInTheOrderOfItsNumbers) {
  unsigned number = 0;
  for (const ops::OpInfo& info : ops::operation_table()) {
    EXPECT_EQ(static_cast<unsigned>(info.op), number++) << info.name;
    EXPECT_EQ(ops::op_named(info.name), info.op);
  }
  EXPECT_EQ(ops::op_named("mish"), std::nullopt);
}

}  // namespace
}  // namespace svp
