// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/operation_table.hpp"

#include <algorithm>

namespace svp::ops {
namespace {

using program::Opcode;

constexpr const char* kDim = "keepdim (0), dimensions (all)";

// Of height and width, each.
constexpr const char* kAvgPool = "2 kernel, 2 stride (kernel), 2 padding (0), ceil (0), count pad (1), divisor";
constexpr const char* kMaxPool = "2 kernel, 2 stride (kernel), 2 padding (0), 2 dilation (1), ceil (0)";
constexpr const char* kConvolution = "2 stride (1), 2 padding (0), 2 dilation (1), groups (1)";

constexpr OpInfo kTable[] = {
    {Op::Copy, Family::Movement, Opcode::Copy, 1, "copy", "", 0, true, ""},
    {Op::Add, Family::Elementwise, Opcode::Add, 2, "add", "", 0, true, ""},
    {Op::Sub, Family::Elementwise, Opcode::Sub, 2, "sub", "", 0, true, ""},
    {Op::Mul, Family::Elementwise, Opcode::Mul, 2, "mul", "", 0, true, ""},
    {Op::Div, Family::Elementwise, Opcode::Div, 2, "div", "", 1, true, "rounded to fp32, then to DL16"},
    {Op::Maximum, Family::Elementwise, Opcode::Maximum, 2, "maximum", "", 0, true, ""},
    {Op::Minimum, Family::Elementwise, Opcode::Minimum, 2, "minimum", "", 0, true, ""},
    {Op::Equal, Family::Comparison, Opcode::Equal, 2, "equal", "", 0, true, ""},
    {Op::NotEqual, Family::Comparison, Opcode::NotEqual, 2, "not_equal", "", 0, true, ""},
    {Op::Greater, Family::Comparison, Opcode::Greater, 2, "greater", "", 0, true, ""},
    {Op::GreaterEqual, Family::Comparison, Opcode::GreaterEqual, 2, "greater_equal", "", 0, true, ""},
    {Op::Less, Family::Comparison, Opcode::Less, 2, "less", "", 0, true, ""},
    {Op::LessEqual, Family::Comparison, Opcode::LessEqual, 2, "less_equal", "", 0, true, ""},
    {Op::Where, Family::Elementwise, Opcode::Where, 3, "where", "", 0, true, ""},
    {Op::Abs, Family::Elementwise, Opcode::Abs, 1, "abs", "", 0, true, ""},
    {Op::Neg, Family::Elementwise, Opcode::Neg, 1, "neg", "", 0, true, ""},
    {Op::Relu, Family::Elementwise, Opcode::Relu, 1, "relu", "", 0, true, ""},
    {Op::Clip, Family::Elementwise, Opcode::Clip, 1, "clip", "low, high", 0, true, ""},
    {Op::Floor, Family::Elementwise, Opcode::Floor, 1, "floor", "", 0, true, ""},
    {Op::Exp, Family::Function, Opcode::Exp, 1, "exp", "", 0, true, ""},
    {Op::Log, Family::Function, Opcode::Log, 1, "log", "", 0, true, ""},
    {Op::Sqrt, Family::Function, Opcode::Sqrt, 1, "sqrt", "", 0, true, ""},
    {Op::Rsqrt, Family::Function, Opcode::Rsqrt, 1, "rsqrt", "", 0, true, ""},
    {Op::Reciprocal, Family::Function, Opcode::Reciprocal, 1, "reciprocal", "", 0, true, ""},
    {Op::Sigmoid, Family::Function, Opcode::Sigmoid, 1, "sigmoid", "", 0, true, ""},
    {Op::Tanh, Family::Function, Opcode::Tanh, 1, "tanh", "", 0, true, ""},
    {Op::Silu, Family::Function, Opcode::Silu, 1, "silu", "", 0, true, ""},
    {Op::Gelu, Family::Function, Opcode::Gelu, 1, "gelu", "", 0, true, "exact for the tanh form: rounded once"},
    {Op::Softplus, Family::Function, Opcode::Softplus, 1, "softplus", "beta (1), threshold (20)", 0, true, ""},
    {Op::Sum, Family::Reduction, Opcode::Sum, 1, "sum", kDim, 1, true,
     "plus 2^-18 of the largest; 64 summed exactly, then fp32"},
    {Op::Mean, Family::Reduction, Opcode::Mean, 1, "mean", kDim, 1, true,
     "plus 2^-18 of the largest; 64 summed exactly, then fp32"},
    {Op::Max, Family::Reduction, Opcode::Max, 1, "max", kDim, 0, true, ""},
    {Op::Min, Family::Reduction, Opcode::Min, 1, "min", kDim, 0, true, ""},
    {Op::Prod, Family::Reduction, Opcode::Prod, 1, "prod", kDim, 1, true, "fp64, rounded once"},
    {Op::MatMul, Family::Product, Opcode::MatMul, 2, "matmul", "", 1, false,
     "plus 2^-18 of the largest; 64 products summed exactly"},
    {Op::Linear, Family::Product, Opcode::MatMul, 3, "linear", "", 2, false,
     "plus 2^-9 of the largest; matmul, then add"},
    {Op::Attention, Family::Product, Opcode::MatMul, 3, "attention", "scale (1/sqrt(E)), causal (0)", 0, false,
     "within 0.03 of the largest; matmul, softmax, matmul on DL16"},
    {Op::Softmax, Family::Norm, Opcode::Div, 1, "softmax", "dim", 0, true,
     "within 0.02 of the largest; max, sub, exp, sum, div on DL16"},
    {Op::LayerNorm, Family::Norm, Opcode::LayerNormNorm, 3, "layer_norm", "eps (1e-5)", 0, true,
     "within 0.02 of the largest; scale rounded to DL16, else fp32"},
    {Op::RmsNorm, Family::Norm, Opcode::Mul, 2, "rms_norm", "eps (1e-5)", 0, true,
     "within 0.02 of the largest; mul, mean, add, rsqrt, mul, mul on DL16"},
    {Op::TopK, Family::Reduction, Opcode::TopKValue, 1, "topk", "k, dim (-1)", 0, true, ""},
    {Op::Embedding, Family::Movement, Opcode::Gather, 2, "embedding", "", 0, true, ""},
    {Op::Cat, Family::Movement, Opcode::Copy, program::kMaxArguments - 1, "cat", "dim", 0, true, ""},
    {Op::IndexCopy, Family::Movement, Opcode::Scatter, 2, "index_copy", "", 0, true, ""},
    {Op::AvgPool2d, Family::Window, Opcode::Mean, 1, "avg_pool2d", kAvgPool, 1, true,
     "rows, then columns, summed in fp32"},
    {Op::MaxPool2d, Family::Window, Opcode::Max, 1, "max_pool2d", kMaxPool, 0, true, ""},
    {Op::Conv2d, Family::Window, Opcode::MatMul, 3, "conv2d", kConvolution, 2, false,
     "plus 2^-9 of the largest; matmul, then add. One channel per group: products in fp32, one rounding"},
    {Op::LinearFp8, Family::Product, Opcode::MatMulFp8, 3, "linear_fp8", "scale of x (1), scale of weight (1)", 3,
     false, "plus 2^-9 of the largest, of the numbers rounded to FP8_E4M3; div, matmul, mul, add"},
};
static_assert(std::size(kTable) == kOps);

}  // namespace

std::span<const OpInfo> operation_table() { return kTable; }

const OpInfo& info_of(Op op) { return kTable[static_cast<unsigned>(op)]; }

std::string bound_of(const OpInfo& info) {
  std::string text = info.ulp == 0 ? "" : "within " + std::to_string(info.ulp) + " of the last place";
  if (info.error[0] != '\0') text += (text.empty() ? "" : ": ") + std::string(info.error);
  return text.empty() ? "exact: rounded once" : text;
}

std::optional<Op> op_named(std::string_view name) {
  const auto found = std::ranges::find(kTable, name, [](const OpInfo& info) { return std::string_view(info.name); });
  if (found == std::end(kTable)) return std::nullopt;
  return found->op;
}

}  // namespace svp::ops
