// SPDX-License-Identifier: Apache-2.0
// Types of results, and types that are refused: as PyTorch 2.13 has them on the CPU.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/elements.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/ops/result_types.hpp"
#include "host_driver/program/golden/golden.hpp"

namespace svp {
namespace {

using ops::Array;
using ops::Op;
using ops::TensorForm;

TensorForm form(DataType type, std::vector<std::int64_t> size) {
  return TensorForm::dense(type, std::move(size), default_device_type(type).value());
}
TensorForm line(DataType type) { return form(type, {70}); }
TensorForm point(DataType type) { return form(type, {}); }

// The name of the result's type, or the field that is refused.
std::string type_of(Op op, std::vector<TensorForm> inputs, std::vector<double> numbers = {},
                    std::vector<std::int64_t> integers = {}) {
  try {
    const ops::Request request{
        .op = op, .inputs = std::move(inputs), .scalars = std::move(numbers), .integers = std::move(integers)};
    return std::string(name(ops::lower(request).outputs[0].base.dtype));
  } catch (const InvalidArgument& error) {
    return "refused: " + error.field();
  }
}

constexpr auto kBool = DataType::Bool;
constexpr auto kHalf = DataType::Float16;
constexpr auto kBrain = DataType::BFloat16;
constexpr auto kSingle = DataType::Float32;

TEST(ResultTypes, OfTwoTensorsAreWhatBothConvertTo) {
  for (const Op op : {Op::Add, Op::Mul, Op::Maximum, Op::Minimum}) {
    EXPECT_EQ(type_of(op, {line(kBool), line(kBool)}), "bool");
    EXPECT_EQ(type_of(op, {line(kBool), line(kHalf)}), "float16");
    EXPECT_EQ(type_of(op, {line(kSingle), line(kBool)}), "float32");
    EXPECT_EQ(type_of(op, {line(kHalf), line(kBrain)}), "float32");
    EXPECT_EQ(type_of(op, {line(kHalf), line(kSingle)}), "float32");
    EXPECT_EQ(type_of(op, {line(kBrain), line(kBrain)}), "bfloat16");
  }
  EXPECT_EQ(type_of(Op::Div, {line(kBool), line(kBool)}), "float32");
  EXPECT_EQ(type_of(Op::Sub, {line(kBool), line(kBool)}), "refused: dtype");
  EXPECT_EQ(type_of(Op::Where, {line(kBool), line(kHalf), line(kSingle)}), "float32");
  EXPECT_EQ(type_of(Op::Where, {line(kSingle), line(kBool), line(kBool)}), "bool");
  EXPECT_EQ(type_of(Op::Greater, {line(kHalf), line(kSingle)}), "bool");
  EXPECT_EQ(type_of(Op::Cat, {line(kHalf), line(kSingle)}), "float32");  // parts inside of sticks are copied
  EXPECT_EQ(type_of(Op::Cat, {form(kHalf, {2, 70}), form(kSingle, {3, 70})}), "float32");
  EXPECT_EQ(type_of(Op::Cat, {form(kBool, {2, 70}), form(kHalf, {3, 70})}), "float16");
}

// torch.promote_types() of integers.
TEST(ResultTypes, OfTwoIntegersAreTheSmallestThatHoldsBoth) {
  constexpr DataType kIntegers[] = {DataType::Uint8, DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64};
  for (std::size_t a = 0; a < std::size(kIntegers); ++a) {
    EXPECT_EQ(ops::promoted(kIntegers[a], kIntegers[a]), kIntegers[a]);
    for (std::size_t b = 0; b < a; ++b) {
      const DataType wanted = a == 1 ? DataType::Int16 : kIntegers[a];
      EXPECT_EQ(ops::promoted(kIntegers[a], kIntegers[b]), wanted) << name(kIntegers[a]) << name(kIntegers[b]);
      EXPECT_EQ(ops::promoted(kIntegers[b], kIntegers[a]), wanted);
    }
  }
  EXPECT_EQ(type_of(Op::Cat, {form(DataType::Int8, {2, 70}), form(DataType::Uint8, {3, 70})}), "int16");
}

// As of torch.empty(0), which is float32.
TEST(ResultTypes, APartOfCatWithoutElementsHasPartInTheType) {
  EXPECT_EQ(type_of(Op::Cat, {form(kSingle, {0}), form(kHalf, {3, 70})}), "float32");
  EXPECT_EQ(type_of(Op::Cat, {form(kHalf, {3, 70}), form(kSingle, {0, 70})}), "float32");
  EXPECT_EQ(type_of(Op::Cat, {form(DataType::Uint8, {0}), form(kBool, {3, 70})}), "uint8");
  EXPECT_EQ(type_of(Op::Cat, {form(kBool, {0}), form(kHalf, {3, 70})}), "float16");
}

TEST(ResultTypes, ATensorWithoutDimensionsDecidesOnlyByAHigherKind) {
  EXPECT_EQ(type_of(Op::Mul, {line(kHalf), point(kSingle)}), "float16");
  EXPECT_EQ(type_of(Op::Mul, {point(kSingle), line(kBrain)}), "bfloat16");
  EXPECT_EQ(type_of(Op::Mul, {line(kBool), point(kHalf)}), "float16");
  EXPECT_EQ(type_of(Op::Mul, {point(kHalf), point(kSingle)}), "float32");
  EXPECT_EQ(type_of(Op::Add, {line(kHalf)}, {0.5}), "float16");
  EXPECT_EQ(type_of(Op::Add, {point(kBrain)}, {0.5}), "bfloat16");
  EXPECT_EQ(type_of(Op::Add, {line(kBool)}, {0.5}), "float32");
  EXPECT_EQ(type_of(Op::Clip, {line(kBool)}, {0.0, 0.5}), "float32");
}

TEST(ResultTypes, OfBoolTensors) {
  for (const Op op : {Op::Exp, Op::Log, Op::Sqrt, Op::Rsqrt, Op::Reciprocal, Op::Sigmoid, Op::Tanh}) {
    EXPECT_EQ(type_of(op, {line(kBool)}), "float32") << ops::info_of(op).name;
  }
  for (const Op op : {Op::Abs, Op::Neg, Op::Relu, Op::Floor, Op::Silu, Op::Gelu, Op::Softplus, Op::Mean, Op::Softmax,
                      Op::LayerNorm, Op::RmsNorm}) {
    EXPECT_EQ(type_of(op, {line(kBool)}), "refused: dtype") << ops::info_of(op).name;
  }
  EXPECT_EQ(type_of(Op::TopK, {line(kBool)}, {}, {3}), "refused: dtype");
  EXPECT_EQ(type_of(Op::Sub, {line(kSingle), line(kBool)}), "refused: dtype");
  EXPECT_EQ(type_of(Op::Sub, {point(kBool), line(kSingle)}), "refused: dtype");
  EXPECT_EQ(type_of(Op::Sub, {line(kBool)}, {1.0}), "refused: dtype");
  EXPECT_EQ(type_of(Op::MatMul, {form(kBool, {3, 3}), form(kBool, {3, 3})}), "refused: dtype");
  EXPECT_EQ(type_of(Op::Sum, {line(kBool)}), "int64");
  EXPECT_EQ(type_of(Op::Prod, {line(kBool)}), "int64");
  EXPECT_EQ(type_of(Op::Max, {line(kBool)}), "bool");
  EXPECT_EQ(type_of(Op::Sum, {form(kBool, {1 << 13, 1 << 13})}), "refused: shape");  // FP32 counts to 2^24
}

TEST(ResultTypes, WhatOperationsDoNotTakeIsRefused) {
  for (const Op op : {Op::Add, Op::Equal, Op::Maximum}) {
    for (const DataType type : {DataType::Int32, DataType::Int64, DataType::Int8, DataType::Float8E4m3fn}) {
      EXPECT_EQ(type_of(op, {line(type), line(type)}), "refused: dtype") << name(type);
      EXPECT_EQ(type_of(op, {line(kHalf), line(type)}), "refused: dtype") << name(type);
    }
  }
  EXPECT_EQ(type_of(Op::Sum, {line(DataType::Int32)}), "refused: dtype");
  const TensorForm dl16 = TensorForm::dense(kSingle, {3, 3}, DeviceType::Dl16);
  EXPECT_EQ(type_of(Op::MatMul, {form(kHalf, {3, 3}), dl16}), "refused: dtype");
}

TEST(ResultTypes, AResultGoesIntoNoTensorOfALowerKind) {
  const auto into = [](Op op, std::vector<TensorForm> inputs, TensorForm out) {
    try {
      (void)ops::lower({.op = op, .inputs = std::move(inputs), .out = std::move(out)});
    } catch (const InvalidArgument& error) {
      return error.field();
    }
    return std::string("taken");
  };
  EXPECT_EQ(into(Op::Add, {line(kHalf), line(kHalf)}, line(kBool)), "out");
  EXPECT_EQ(into(Op::Add, {line(kHalf), line(kHalf)}, line(DataType::Int32)), "out");
  EXPECT_EQ(into(Op::Add, {line(kSingle), line(kSingle)}, line(kHalf)), "taken");
  EXPECT_EQ(into(Op::Greater, {line(kHalf), line(kHalf)}, line(DataType::Int64)), "taken");
  EXPECT_EQ(into(Op::Copy, {line(kHalf)}, line(DataType::Int32)), "taken");
  EXPECT_EQ(into(Op::Sum, {form(kBool, {70, 2})}, point(kBool)), "out");
  EXPECT_EQ(into(Op::Sum, {form(kBool, {70, 2})}, point(kHalf)), "taken");
}

// ---- values ---------------------------------------------------------------------------------------------------------

std::vector<double> computed(const ops::Request& request, const std::vector<Array>& inputs) {
  const ops::Lowered lowered = ops::lower(request);
  std::vector<std::vector<std::byte>> memory;
  memory.reserve(inputs.size() + 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) memory.push_back(ops::device_bytes(request.inputs[i], inputs[i]));
  memory.emplace_back(lowered.outputs[0].layout.device_bytes());
  const std::vector<std::span<std::byte>> arguments(memory.begin(), memory.end());
  program::golden::run(lowered.program, arguments);
  return ops::elements_of(lowered.outputs[0], memory.back()).data;
}

TEST(ResultTypes, ACountIsExact) {
  const Array ones{.size = {3, 1100}, .data = std::vector<double>(3300, 1)};
  EXPECT_EQ(computed({.op = Op::Sum, .inputs = {form(kBool, {3, 1100})}}, {ones}), std::vector<double>{3300});
  EXPECT_EQ(computed({.op = Op::Sum, .inputs = {form(kBool, {3, 1100})}, .integers = {0, 1}}, {ones}),
            (std::vector<double>{1100, 1100, 1100}));
}

TEST(ResultTypes, BoolsStayZeroAndOne) {
  const Array a{.size = {4}, .data = {0, 0, 1, 1}};
  const Array b{.size = {4}, .data = {0, 1, 0, 1}};
  EXPECT_EQ(computed({.op = Op::Add, .inputs = {form(kBool, {4}), form(kBool, {4})}}, {a, b}),
            (std::vector<double>{0, 1, 1, 1}));
  const Array x{.size = {4}, .data = {0, -2.5, 0x1p-20, -0.0}};
  EXPECT_EQ(computed({.op = Op::Copy, .inputs = {form(kHalf, {4})}, .out = form(kBool, {4})}, {x}),
            (std::vector<double>{0, 1, 1, 0}));
  EXPECT_EQ(computed({.op = Op::Copy, .inputs = {form(DataType::Int32, {2})}, .out = form(kBool, {2})},
                     {{.size = {2}, .data = {0, 2147483647}}}),
            (std::vector<double>{0, 1}));
}

// The product is rounded once: 1e10 is no number of DL16.
TEST(ResultTypes, AScalarOfFp32KeepsItsNumber) {
  const Array x{.size = {2}, .data = {0x1p-20, 3}};
  const Array scalar{.size = {}, .data = {0x1p34}};
  const auto got = computed({.op = Op::Mul, .inputs = {form(kHalf, {2}), point(kSingle)}}, {x, scalar});
  EXPECT_EQ(got[0], 0x1p14);
}

}  // namespace
}  // namespace svp
