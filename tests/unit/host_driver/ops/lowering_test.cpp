// SPDX-License-Identifier: Apache-2.0
// Every operation of the table, lowered and executed by the golden model, against the same in double precision.
#include "host_driver/ops/lowering.hpp"

#include <gtest/gtest.h>

#include <cmath>
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

// ---- linear_fp8 -----------------------------------------------------------------------------------------------------

ops::TensorForm dl16_form(std::vector<std::int64_t> size) {
  return ops::TensorForm::dense(DataType::Float16, std::move(size), DeviceType::Dl16);
}

std::vector<double> linear_fp8(const ops::Array& x, const ops::Array& weight, std::vector<double> scales) {
  const ops::Request request{
      .op = Op::LinearFp8, .inputs = {dl16_form(x.size), dl16_form(weight.size)}, .scalars = std::move(scales)};
  const ops::Lowered lowered = ops::lower(request);
  std::vector<std::vector<std::byte>> memory{ops::device_bytes(request.inputs[0], x),
                                             ops::device_bytes(request.inputs[1], weight)};
  memory.emplace_back(lowered.outputs[0].layout.device_bytes());
  const std::vector<std::span<std::byte>> arguments(memory.begin(), memory.end());
  program::golden::run(lowered.program, arguments);
  return ops::elements_of(lowered.outputs[0], memory.back()).data;
}

// FP8_E4M3 has four significant bits: 17 lies between 16 and 18, 0.3 becomes 0.3125, 500 is beyond 448.
TEST(LinearFp8, RoundsWhatItMultiplies) {
  const ops::Array ones{.size = {1, 2}, .data = {1, 1}};
  EXPECT_EQ(linear_fp8({.size = {2}, .data = {17, 0.3}}, ones, {}), std::vector<double>{16.3125});
  EXPECT_EQ(linear_fp8({.size = {2}, .data = {0.5, -0.5}}, {.size = {1, 2}, .data = {17, 19}}, {}),
            std::vector<double>{-2});
  EXPECT_TRUE(std::isnan(linear_fp8({.size = {2}, .data = {500, 0}}, ones, {})[0]));
}

TEST(LinearFp8, ScalesDivideBeforeAndMultiplyBehind) {
  const ops::Array ones{.size = {1, 2}, .data = {1, 1}};
  EXPECT_EQ(linear_fp8({.size = {2}, .data = {500, 17}}, ones, {2}), std::vector<double>{512 + 16});
  EXPECT_EQ(linear_fp8({.size = {2}, .data = {1, 1}}, {.size = {1, 2}, .data = {500, 17}}, {1, 2}),
            std::vector<double>{512 + 16});
  EXPECT_EQ(linear_fp8({.size = {2}, .data = {6, 3}}, {.size = {1, 2}, .data = {5, 10}}, {3, 5}),
            std::vector<double>{60});
}

TEST(LinearFp8, NamesWhatDoesNotFit) {
  const auto refused = [](const ops::TensorForm& x, const ops::TensorForm& weight, std::vector<double> scales = {}) {
    try {
      (void)ops::lower({.op = Op::LinearFp8, .inputs = {x, weight}, .scalars = std::move(scales)});
    } catch (const InvalidArgument& error) {
      return error.field();
    }
    return std::string("nothing");
  };
  const auto x = dl16_form({5, 70});
  const auto weight = dl16_form({66, 70});
  EXPECT_EQ(refused(x, weight), "nothing");
  EXPECT_EQ(refused(x, dl16_form({70, 66})), "shape");
  EXPECT_EQ(refused(x, dl16_form({2, 66, 70})), "shape");
  EXPECT_EQ(refused(ops::TensorForm::dense(DataType::Float32, {5, 70}, DeviceType::Fp32), weight), "dtype");
  for (const double scale : {0.0, -1.0, 1e-12, 1e12, std::nan("")}) EXPECT_EQ(refused(x, weight, {scale}), "scale");
  EXPECT_EQ(refused(x, weight, {0x1p-20, 0x1p-20}), "scale");
}

}  // namespace
}  // namespace svp
