// SPDX-License-Identifier: Apache-2.0
// Every operation of the table, lowered and executed by the golden model, against the same in double precision.
#include "host_driver/ops/lowering.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/comparison.hpp"
#include "host_driver/program/golden/golden.hpp"
#include "tests/support/op_cases.hpp"

namespace svp {
namespace {

using ops::Op;
using testing::HasSubstr;

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

// ---- by hand --------------------------------------------------------------------------------------------------------

// On the golden model; tensors are float16.
ops::Array result_of(ops::Request request, const std::vector<ops::Array>& inputs) {
  std::vector<std::vector<std::byte>> memory;
  for (const ops::Array& input : inputs) {
    request.inputs.push_back(ops::TensorForm::dense(DataType::Float16, input.size, DeviceType::Dl16));
    if (is_argument(request.inputs.back())) memory.push_back(ops::device_bytes(request.inputs.back(), input));
  }
  const ops::Lowered lowered = ops::lower(request);
  const ops::TensorForm& form = lowered.outputs.front();
  std::vector<std::byte> out(form.layout.device_bytes());
  std::vector<std::span<std::byte>> arguments(memory.begin(), memory.end());
  if (is_argument(form)) arguments.emplace_back(out);
  if (!lowered.program.empty()) program::golden::run(lowered.program, arguments);
  return ops::elements_of(form, out);
}

std::string refused_field(ops::Request request, const std::vector<std::vector<std::int64_t>>& sizes) {
  for (const auto& size : sizes) {
    request.inputs.push_back(ops::TensorForm::dense(DataType::Float16, size, DeviceType::Dl16));
  }
  try {
    (void)ops::lower(request);
  } catch (const spyre::CopyNeeded& error) {
    return "copy: " + error.field();
  } catch (const InvalidArgument& error) {
    return error.field();
  }
  return "nothing";
}

using Doubles = std::vector<double>;

TEST(NoElements, SumsProductsAndMeansOfNothingAreWhatPyTorchSays) {
  const ops::Array nothing = ops::Array::of({2, 0});
  EXPECT_EQ(result_of({.op = Op::Sum, .integers = {0, 1}}, {nothing}).data, (Doubles{0, 0}));
  EXPECT_EQ(result_of({.op = Op::Sum}, {nothing}).data, (Doubles{0}));
  EXPECT_EQ(result_of({.op = Op::Prod, .integers = {0, 1}}, {nothing}).data, (Doubles{1, 1}));
  EXPECT_TRUE(std::isnan(result_of({.op = Op::Mean}, {nothing}).data[0]));
  EXPECT_EQ(result_of({.op = Op::Sum, .integers = {0, 0}}, {nothing}).size, (std::vector<std::int64_t>{0}));
  for (const Op op : {Op::Max, Op::Min}) {
    EXPECT_EQ(refused_field({.op = op}, {{2, 0}}), "dim");
    EXPECT_EQ(refused_field({.op = op, .integers = {0, 0}}, {{2, 0}}), "nothing");
  }
}

TEST(NoElements, ProductsOfNothingAreZero) {
  EXPECT_EQ(result_of({.op = Op::MatMul}, {ops::Array::of({2, 0}), ops::Array::of({0, 3})}).data, Doubles(6, 0));
  const ops::Array bias{.size = {2}, .data = {3, 4}};
  EXPECT_EQ(result_of({.op = Op::Linear}, {ops::Array::of({1, 0}), ops::Array::of({2, 0}), bias}).data,
            (Doubles{3, 4}));
  const ops::Array query{.size = {1, 2}, .data = {1, 2}};
  EXPECT_EQ(result_of({.op = Op::Attention}, {query, ops::Array::of({0, 2}), ops::Array::of({0, 3})}).data,
            Doubles(3, 0));
}

TEST(NoElements, ThereIsNothingToDoForNoImages) {
  const auto size_of = [](ops::Request request, const std::vector<ops::Array>& inputs) {
    return result_of(std::move(request), inputs).size;
  };
  const ops::Array images = ops::Array::of({0, 3, 8, 8});
  EXPECT_EQ(size_of({.op = Op::Conv2d}, {images, ops::Array::of({4, 3, 3, 3})}),
            (std::vector<std::int64_t>{0, 4, 6, 6}));
  EXPECT_EQ(size_of({.op = Op::MaxPool2d, .integers = {2, 2}}, {images}), (std::vector<std::int64_t>{0, 3, 4, 4}));
  EXPECT_EQ(size_of({.op = Op::AvgPool2d, .integers = {2, 2}}, {images}), (std::vector<std::int64_t>{0, 3, 4, 4}));
  EXPECT_EQ(refused_field({.op = Op::Conv2d}, {{1, 0, 8, 8}, {4, 0, 3, 3}}), "shape");
}

TEST(NoElements, ATableOfNoRowsHasNoneForAnIndex) {
  ops::Request request{.op = Op::Embedding};
  request.inputs = {ops::TensorForm::dense(DataType::Float16, {0, 4}, DeviceType::Dl16),
                    ops::TensorForm::dense(DataType::Int32, {2}, DeviceType::Int32)};
  EXPECT_EQ(refused_field(request, {}), "shape");
  request.inputs[1] = ops::TensorForm::dense(DataType::Int32, {0}, DeviceType::Int32);
  EXPECT_EQ(refused_field(request, {}), "nothing");
}

// A cache that begins as torch.empty(0), or as [0, 2].
TEST(Cat, PartsWithoutElementsAreLeftOut) {
  const ops::Array part{.size = {1, 2}, .data = {1, 2}};
  for (const std::vector<std::int64_t>& none : {std::vector<std::int64_t>{0}, {0, 2}}) {
    const ops::Array all = result_of({.op = Op::Cat}, {ops::Array::of(none), part, ops::Array::of(none), part});
    EXPECT_EQ(all.size, (std::vector<std::int64_t>{2, 2}));
    EXPECT_EQ(all.data, (Doubles{1, 2, 1, 2}));
  }
  EXPECT_EQ(result_of({.op = Op::Cat}, {ops::Array::of({0}), ops::Array::of({0})}).size,
            (std::vector<std::int64_t>{0}));
  EXPECT_EQ(refused_field({.op = Op::Cat}, {{1, 2}, {0, 3}}), "shape");
  EXPECT_EQ(refused_field({.op = Op::Cat}, {{1, 2}, {1, 0}, {1, 1, 2}}), "shape");
}

TEST(Cat, PartsInsideOfSticksNeedACopyThatMayBeForbidden) {
  const ops::Array a{.size = {2, 2}, .data = {1, 2, 3, 4}};
  const ops::Array b{.size = {2, 1}, .data = {5, 6}};
  EXPECT_EQ(result_of({.op = Op::Cat, .integers = {1}}, {a, b}).data, (Doubles{1, 2, 5, 3, 4, 6}));
  EXPECT_EQ(refused_field({.op = Op::Cat, .integers = {1}, .allow_copies = false}, {{2, 2}, {2, 1}}), "copy: inputs");
  EXPECT_EQ(refused_field({.op = Op::Cat, .integers = {1}, .allow_copies = false}, {{2, 64}, {2, 1}}), "nothing");
}

TEST(Attention, AQueryThatSeesNoKeyGivesZero) {
  const double nan = std::nan("");
  // Query 2 of 3 sees key 0; queries 0 and 1 see none, whatever is in the values.
  const ops::Array got =
      result_of({.op = Op::Attention, .integers = {1}}, {{.size = {3, 2}, .data = {1, 2, 3, 4, 5, 6}},
                                                         {.size = {1, 2}, .data = {1, 1}},
                                                         {.size = {1, 2}, .data = {7, 8}}});
  EXPECT_EQ(got.data, (Doubles{0, 0, 0, 0, 7, 8}));
  const ops::Array of_nan =
      result_of({.op = Op::Attention, .integers = {1}},
                {{.size = {2, 1}, .data = {1, 2}}, {.size = {1, 1}, .data = {1}}, {.size = {1, 1}, .data = {nan}}});
  EXPECT_EQ(of_nan.data[0], 0);
  EXPECT_TRUE(std::isnan(of_nan.data[1]));
}

// The same bits as with keys and values that are there for each head of the queries.
TEST(Attention, AHeadOfTheKeysServesNeighbouringHeadsOfTheQueries) {
  std::mt19937_64 random(seed());
  std::normal_distribution<double> normal;
  const auto any = [&](std::vector<std::int64_t> size) {
    ops::Array array = ops::Array::of(std::move(size));
    for (double& x : array.data) x = ops::rounded_to(DeviceType::Dl16, normal(random));
    return array;
  };
  const auto for_each_query = [](const ops::Array& grouped) {
    ops::Array all = ops::Array::of({1, 8, grouped.size[2], grouped.size[3]});
    const std::int64_t head = grouped.size[2] * grouped.size[3];
    for (std::int64_t i = 0; i < all.count(); ++i) {
      all.data[static_cast<std::size_t>(i)] = grouped.data[static_cast<std::size_t>(i / head / 4 * head + i % head)];
    }
    return all;
  };
  const ops::Array q = any({1, 8, 16, 64});
  const ops::Array k = any({1, 2, 16, 64});
  const ops::Array v = any({1, 2, 16, 64});
  for (const std::int64_t causal : {0, 1}) {
    const ops::Array got = result_of({.op = Op::Attention, .integers = {causal}}, {q, k, v});
    EXPECT_EQ(got.size, q.size);
    EXPECT_EQ(got.data,
              result_of({.op = Op::Attention, .integers = {causal}}, {q, for_each_query(k), for_each_query(v)}).data);
  }
}

// Squares of these are beyond DL16, or 0 in it.
TEST(RmsNorm, ComputesInFp32) {
  const auto of = [](Doubles row, double eps) {
    const auto width = static_cast<std::int64_t>(row.size());
    return result_of({.op = Op::RmsNorm, .scalars = {eps}}, {{.size = {1, width}, .data = std::move(row)}}).data;
  };
  EXPECT_EQ(of({0x1p17, -0x1p17}, 1e-6), (Doubles{1, -1}));
  EXPECT_EQ(of({0x1p32, 0x1p32}, 1e-6), (Doubles{1, 1}));
  EXPECT_EQ(of({0, 0}, 1e-12), (Doubles{0, 0}));
  const double small = ops::rounded_to(DeviceType::Dl16, 2e-5);
  const double exact = small / std::sqrt(small * small + 1e-9);
  EXPECT_EQ(ops::beyond_bound(Op::RmsNorm, DeviceType::Dl16, {.size = {2}, .data = of({small, small}, 1e-9)},
                              {.size = {2}, .data = {exact, exact}}),
            std::nullopt);
}

// ---- numbers --------------------------------------------------------------------------------------------------------

// Elements of a DL16 tensor through an operation with numbers.
std::vector<double> of_numbers(Op op, std::vector<double> x, std::vector<double> numbers) {
  const auto width = static_cast<std::int64_t>(x.size());
  return result_of({.op = op, .scalars = std::move(numbers)}, {{.size = {width}, .data = std::move(x)}}).data;
}

TEST(Numbers, ThatDl16HasNotAreComputedWith) {
  const double infinity = std::numeric_limits<double>::infinity();
  using List = std::vector<double>;
  EXPECT_EQ(of_numbers(Op::Clip, {-2, 0, 5}, {0, infinity}), (List{0, 0, 5}));
  EXPECT_EQ(of_numbers(Op::Clip, {-2, 0, 5}, {-infinity, 1}), (List{-2, 0, 1}));
  EXPECT_EQ(of_numbers(Op::Clip, {-2, 0, 8e9}, {}), (List{-2, 0, 8002732032}));
  EXPECT_EQ(of_numbers(Op::Maximum, {-2, 0, 5}, {-infinity}), (List{-2, 0, 5}));
  EXPECT_EQ(of_numbers(Op::Minimum, {-2, 0, 5}, {1e10}), (List{-2, 0, 5}));
  EXPECT_EQ(of_numbers(Op::Greater, {-2, 0, 5}, {-1e10}), (List{1, 1, 1}));
  EXPECT_EQ(of_numbers(Op::Mul, {0x1p-20, 0, -0x1p-10}, {0x1p34}), (List{0x1p14, 0, -0x1p24}));
  EXPECT_EQ(of_numbers(Op::Mul, {0x1p20, 0, -0x1p10}, {0x1p-34}), (List{0x1p-14, 0, -0x1p-24}));
  EXPECT_EQ(of_numbers(Op::Add, {8e9}, {-1e10}), List{-1996488704});
  EXPECT_EQ(of_numbers(Op::Add, {1, -infinity}, {-infinity}), (List{-infinity, -infinity}));
  EXPECT_EQ(of_numbers(Op::Equal, {1, infinity, -infinity}, {infinity}), (List{0, 1, 0}));
  EXPECT_EQ(of_numbers(Op::Clip, {-infinity, infinity}, {-infinity, 5}), (List{-infinity, 5}));
}

TEST(Numbers, ThatNoResultHasAreRefusedByName) {
  const auto x = ops::TensorForm::dense(DataType::Float16, {2, 64, 64}, DeviceType::Dl16);
  const auto wide = ops::TensorForm::dense(DataType::Float32, {4}, DeviceType::Fp32);
  const double nan = std::nan("");
  EXPECT_EQ(refused_field({.op = Op::Clip, .inputs = {x}, .scalars = {nan, 1}}, {}), "number");
  EXPECT_EQ(refused_field({.op = Op::Clip, .inputs = {wide}, .scalars = {0, nan}}, {}), "number");
  EXPECT_EQ(refused_field({.op = Op::Softplus, .inputs = {x}, .scalars = {1, nan}}, {}), "number");
  EXPECT_EQ(refused_field({.op = Op::Softplus, .inputs = {wide}, .scalars = {1, nan}}, {}), "number");
  EXPECT_EQ(refused_field({.op = Op::Attention, .inputs = {x, x, x}, .scalars = {1e10}}, {}), "number");
  EXPECT_EQ(refused_field({.op = Op::Attention, .inputs = {x, x, x}, .scalars = {1e-10}}, {}), "number");
}

std::string refusal_of(const ops::Request& request) {
  try {
    (void)ops::lower(request);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Numbers, StandInARefusalAsTheyWereGiven) {
  const auto x = ops::TensorForm::dense(DataType::Float16, {2, 64, 64}, DeviceType::Dl16);
  const auto weight = ops::TensorForm::dense(DataType::Float16, {64, 64}, DeviceType::Dl16);
  for (const auto& [number, text] : {std::pair{1e-12, "a scale of 1e-12 "},
                                     {1.25e10, "a scale of 1.25e+10 "},
                                     {-1e-10, "a scale of -1e-10 "},
                                     {1.23456789e-12, "a scale of 1.23456789e-12 "}}) {
    EXPECT_THAT(refusal_of({.op = Op::Attention, .inputs = {x, x, x}, .scalars = {number}}), HasSubstr(text));
    EXPECT_THAT(refusal_of({.op = Op::LinearFp8, .inputs = {x, weight}, .scalars = {number}}), HasSubstr(text));
  }
  try {
    (void)ops::ProgramWriter().scalar(DataType::Float16, DeviceType::Dl16, 1.25e10);
    FAIL() << "DL16 has no 1.25e10";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("the number 1.25e+10, which DL16 has not"));
  }
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

// FP8_E4M3 has four significant bits: 17 lies between 16 and 18, 0.3 becomes 0.3125, 500 becomes 448, the largest.
TEST(LinearFp8, RoundsWhatItMultiplies) {
  const ops::Array ones{.size = {1, 2}, .data = {1, 1}};
  EXPECT_EQ(linear_fp8({.size = {2}, .data = {17, 0.3}}, ones, {}), std::vector<double>{16.3125});
  EXPECT_EQ(linear_fp8({.size = {2}, .data = {0.5, -0.5}}, {.size = {1, 2}, .data = {17, 19}}, {}),
            std::vector<double>{-2});
  EXPECT_EQ(linear_fp8({.size = {2}, .data = {500, 0}}, ones, {}), std::vector<double>{448});
  EXPECT_EQ(linear_fp8({.size = {2}, .data = {-1e9, 17}}, ones, {}), std::vector<double>{-432});
  EXPECT_TRUE(std::isnan(linear_fp8({.size = {2}, .data = {std::nan(""), 0}}, ones, {})[0]));
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
