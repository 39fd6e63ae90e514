// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/operation_table.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "host_driver/base/number_text.hpp"

namespace svp::ops {
namespace {

using program::Opcode;

constexpr const char* kDim = "keepdim (0), dimensions (all)";

// Of height and width, each.
constexpr const char* kAvgPool = "2 kernel, 2 stride (kernel), 2 padding (0), ceil (0), count pad (1), divisor";
constexpr const char* kMaxPool = "2 kernel, 2 stride (kernel), 2 padding (0), 2 dilation (1), ceil (0)";
constexpr const char* kConvolution = "2 stride (1), 2 padding (0), 2 dilation (1), groups (1)";

constexpr Bound kExact{};  // rounded once
// An FP32 result is rounded from fp64, which is not always the exact number.
constexpr Bound kRounded{1, 0};
constexpr Bound kSum{1, 0x1p-18};
constexpr Bound kSumFp32{1, 0x1p-14};  // one rounding for each dimension: of sums that may be larger than the last one
constexpr Bound kNormFp32{2, 0x1p-18};

constexpr OpInfo kTable[] = {
    {Op::Copy, Family::Movement, Opcode::Copy, 1, "copy", "", kExact, kExact, ""},
    {Op::Add, Family::Elementwise, Opcode::Add, 2, "add", "", kExact, kRounded, ""},
    {Op::Sub, Family::Elementwise, Opcode::Sub, 2, "sub", "", kExact, kRounded, ""},
    {Op::Mul, Family::Elementwise, Opcode::Mul, 2, "mul", "", kExact, kRounded, ""},
    {Op::Div, Family::Elementwise, Opcode::Div, 2, "div", "", {1, 0}, kRounded, "rounded to fp32, then to DL16"},
    {Op::Maximum, Family::Elementwise, Opcode::Maximum, 2, "maximum", "", kExact, kExact, ""},
    {Op::Minimum, Family::Elementwise, Opcode::Minimum, 2, "minimum", "", kExact, kExact, ""},
    {Op::Equal, Family::Comparison, Opcode::Equal, 2, "equal", "", kExact, kExact, ""},
    {Op::NotEqual, Family::Comparison, Opcode::NotEqual, 2, "not_equal", "", kExact, kExact, ""},
    {Op::Greater, Family::Comparison, Opcode::Greater, 2, "greater", "", kExact, kExact, ""},
    {Op::GreaterEqual, Family::Comparison, Opcode::GreaterEqual, 2, "greater_equal", "", kExact, kExact, ""},
    {Op::Less, Family::Comparison, Opcode::Less, 2, "less", "", kExact, kExact, ""},
    {Op::LessEqual, Family::Comparison, Opcode::LessEqual, 2, "less_equal", "", kExact, kExact, ""},
    {Op::Where, Family::Elementwise, Opcode::Where, 3, "where", "", kExact, kExact, ""},
    {Op::Abs, Family::Elementwise, Opcode::Abs, 1, "abs", "", kExact, kExact, ""},
    {Op::Neg, Family::Elementwise, Opcode::Neg, 1, "neg", "", kExact, kExact, ""},
    {Op::Relu, Family::Elementwise, Opcode::Relu, 1, "relu", "", kExact, kExact, ""},
    {Op::Clip, Family::Elementwise, Opcode::Clip, 1, "clip", "low (-inf), high (inf)", kExact, kExact, ""},
    {Op::Floor, Family::Elementwise, Opcode::Floor, 1, "floor", "", kExact, kExact, ""},
    {Op::Exp, Family::Function, Opcode::Exp, 1, "exp", "", kExact, kRounded, ""},
    {Op::Log, Family::Function, Opcode::Log, 1, "log", "", kExact, kRounded, ""},
    {Op::Sqrt, Family::Function, Opcode::Sqrt, 1, "sqrt", "", kExact, kRounded, ""},
    {Op::Rsqrt, Family::Function, Opcode::Rsqrt, 1, "rsqrt", "", kExact, kRounded, ""},
    {Op::Reciprocal, Family::Function, Opcode::Reciprocal, 1, "reciprocal", "", kExact, kRounded, ""},
    {Op::Sigmoid, Family::Function, Opcode::Sigmoid, 1, "sigmoid", "", kExact, kRounded, ""},
    {Op::Tanh, Family::Function, Opcode::Tanh, 1, "tanh", "", kExact, kRounded, ""},
    {Op::Silu, Family::Function, Opcode::Silu, 1, "silu", "", kExact, kRounded, ""},
    {Op::Gelu, Family::Function, Opcode::Gelu, 1, "gelu", "", kExact, kRounded, "of the tanh form"},
    {Op::Softplus, Family::Function, Opcode::Softplus, 1, "softplus", "beta (1), threshold (20)", kExact, kRounded, ""},
    {Op::Sum, Family::Reduction, Opcode::Sum, 1, "sum", kDim, kSum, kSumFp32, "64 summed exactly, then fp32"},
    {Op::Mean, Family::Reduction, Opcode::Mean, 1, "mean", kDim, kSum, kSumFp32, "64 summed exactly, then fp32"},
    {Op::Max, Family::Reduction, Opcode::Max, 1, "max", kDim, kExact, kExact, ""},
    {Op::Min, Family::Reduction, Opcode::Min, 1, "min", kDim, kExact, kExact, ""},
    {Op::Prod, Family::Reduction, Opcode::Prod, 1, "prod", kDim, {1, 0}, Bound{8, 0}, "fp64"},
    {Op::MatMul, Family::Product, Opcode::MatMul, 2, "matmul", "", kSum, std::nullopt,
     "64 products summed exactly, then fp32"},
    {Op::Linear, Family::Product, Opcode::MatMul, 3, "linear", "", {2, 0x1p-9}, std::nullopt, "matmul, then add"},
    {Op::Attention,
     Family::Product,
     Opcode::MatMul,
     3,
     "attention",
     "scale (1/sqrt(E)), causal (0)",
     {0, 0.03},
     std::nullopt,
     "matmul, softmax, matmul on DL16"},
    {Op::Softmax,
     Family::Norm,
     Opcode::Div,
     1,
     "softmax",
     "dim",
     {0, 0.02},
     kNormFp32,
     "max, sub, exp, sum, div on DL16"},
    {Op::LayerNorm,
     Family::Norm,
     Opcode::LayerNormNorm,
     3,
     "layer_norm",
     "eps (1e-5)",
     {2, 0x1p-8},
     kNormFp32,
     "scale rounded to DL16, else fp32"},
    {Op::RmsNorm,
     Family::Norm,
     Opcode::Mul,
     2,
     "rms_norm",
     "eps (1e-5)",
     {1, 0x1p-20},
     kNormFp32,
     "fp32, rounded once"},
    {Op::TopK, Family::Reduction, Opcode::TopKValue, 1, "topk", "k, dim (-1), index (0: int64)", kExact, kExact, ""},
    {Op::Embedding, Family::Movement, Opcode::Gather, 2, "embedding", "", kExact, kExact, ""},
    {Op::Cat, Family::Movement, Opcode::Copy, program::kMaxArguments - 1, "cat", "dim", kExact, kExact, ""},
    {Op::IndexCopy, Family::Movement, Opcode::Scatter, 2, "index_copy", "", kExact, kExact, ""},
    {Op::AvgPool2d,
     Family::Window,
     Opcode::Mean,
     1,
     "avg_pool2d",
     kAvgPool,
     {1, 0x1p-20},
     Bound{1, 0x1p-20},
     "rows, then columns, summed in fp32"},
    {Op::MaxPool2d, Family::Window, Opcode::Max, 1, "max_pool2d", kMaxPool, kExact, kExact, ""},
    {Op::Conv2d,
     Family::Window,
     Opcode::MatMul,
     3,
     "conv2d",
     kConvolution,
     {2, 0x1p-9},
     std::nullopt,
     "matmul, then add. One channel per group: products in fp32, one rounding"},
    {Op::LinearFp8,
     Family::Product,
     Opcode::MatMulFp8,
     3,
     "linear_fp8",
     "scale of x (1), scale of weight (1)",
     {3, 0x1p-9},
     std::nullopt,
     "of the quotients rounded to FP8_E4M3; div, matmul, mul, add"},
};
static_assert(std::size(kTable) == kOps);

}  // namespace

std::span<const OpInfo> operation_table() { return kTable; }

const OpInfo& info_of(Op op) { return kTable[static_cast<unsigned>(op)]; }

Bound bound_of(const OpInfo& info, DeviceType device_dtype) {
  switch (device_dtype) {
    case DeviceType::Dl16: return info.dl16;
    case DeviceType::Fp32: return info.fp32.value_or(info.dl16);
    default: return {};
  }
}

std::string bound_text(const Bound& bound) {
  if (bound == Bound{}) return "exact: rounded once";
  std::string text = "within ";
  if (bound.ulps != 0) text += svp::text_of(bound.ulps) + " of the last place";
  if (bound.relative == 0) return text;
  int exponent = 0;
  const bool power = std::frexp(bound.relative, &exponent) == 0.5;
  return text + (bound.ulps != 0 ? " plus " : "") +
         (power ? "2^" + std::to_string(exponent - 1) : svp::text_of(bound.relative)) + " of the largest";
}

std::string bound_text(const OpInfo& info) {
  const std::string text = bound_text(info.dl16);
  return info.computed[0] == '\0' ? text : text + (info.dl16 == Bound{} ? ", " : ": ") + info.computed;
}

std::optional<Op> op_named(std::string_view name) {
  const auto found = std::ranges::find(kTable, name, [](const OpInfo& info) { return std::string_view(info.name); });
  if (found == std::end(kTable)) return std::nullopt;
  return found->op;
}

}  // namespace svp::ops
