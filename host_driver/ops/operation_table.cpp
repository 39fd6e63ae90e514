// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/operation_table.hpp"

#include <algorithm>

namespace svp::ops {
namespace {

using program::Opcode;

constexpr const char* kDim = "keepdim (0), dimensions (all)";

constexpr OpInfo kTable[] = {
    {Op::Copy, "copy", Family::Movement, 1, Opcode::Copy, "", 0, true, ""},
    {Op::Add, "add", Family::Elementwise, 2, Opcode::Add, "", 0, true, ""},
    {Op::Sub, "sub", Family::Elementwise, 2, Opcode::Sub, "", 0, true, ""},
    {Op::Mul, "mul", Family::Elementwise, 2, Opcode::Mul, "", 0, true, ""},
    {Op::Div, "div", Family::Elementwise, 2, Opcode::Div, "", 1, true, "rounded to fp32, then to DL16"},
    {Op::Maximum, "maximum", Family::Elementwise, 2, Opcode::Maximum, "", 0, true, ""},
    {Op::Minimum, "minimum", Family::Elementwise, 2, Opcode::Minimum, "", 0, true, ""},
    {Op::Equal, "equal", Family::Comparison, 2, Opcode::Equal, "", 0, true, ""},
    {Op::NotEqual, "not_equal", Family::Comparison, 2, Opcode::NotEqual, "", 0, true, ""},
    {Op::Greater, "greater", Family::Comparison, 2, Opcode::Greater, "", 0, true, ""},
    {Op::GreaterEqual, "greater_equal", Family::Comparison, 2, Opcode::GreaterEqual, "", 0, true, ""},
    {Op::Less, "less", Family::Comparison, 2, Opcode::Less, "", 0, true, ""},
    {Op::LessEqual, "less_equal", Family::Comparison, 2, Opcode::LessEqual, "", 0, true, ""},
    {Op::Where, "where", Family::Elementwise, 3, Opcode::Where, "", 0, true, ""},
    {Op::Abs, "abs", Family::Elementwise, 1, Opcode::Abs, "", 0, true, ""},
    {Op::Neg, "neg", Family::Elementwise, 1, Opcode::Neg, "", 0, true, ""},
    {Op::Relu, "relu", Family::Elementwise, 1, Opcode::Relu, "", 0, true, ""},
    {Op::Clip, "clip", Family::Elementwise, 1, Opcode::Clip, "low, high", 0, true, ""},
    {Op::Floor, "floor", Family::Elementwise, 1, Opcode::Floor, "", 0, true, ""},
    {Op::Exp, "exp", Family::Function, 1, Opcode::Exp, "", 0, true, ""},
    {Op::Log, "log", Family::Function, 1, Opcode::Log, "", 0, true, ""},
    {Op::Sqrt, "sqrt", Family::Function, 1, Opcode::Sqrt, "", 0, true, ""},
    {Op::Rsqrt, "rsqrt", Family::Function, 1, Opcode::Rsqrt, "", 0, true, ""},
    {Op::Reciprocal, "reciprocal", Family::Function, 1, Opcode::Reciprocal, "", 0, true, ""},
    {Op::Sigmoid, "sigmoid", Family::Function, 1, Opcode::Sigmoid, "", 0, true, ""},
    {Op::Tanh, "tanh", Family::Function, 1, Opcode::Tanh, "", 0, true, ""},
    {Op::Silu, "silu", Family::Function, 1, Opcode::Silu, "", 0, true, ""},
    {Op::Gelu, "gelu", Family::Function, 1, Opcode::Gelu, "", 0, true, "exact for the tanh form: rounded once"},
    {Op::Softplus, "softplus", Family::Function, 1, Opcode::Softplus, "beta (1), threshold (20)", 0, true, ""},
    {Op::Sum, "sum", Family::Reduction, 1, Opcode::Sum, kDim, 1, true,
     "plus 2^-18 of the largest; 64 summed exactly, then fp32"},
    {Op::Mean, "mean", Family::Reduction, 1, Opcode::Mean, kDim, 1, true,
     "plus 2^-18 of the largest; 64 summed exactly, then fp32"},
    {Op::Max, "max", Family::Reduction, 1, Opcode::Max, kDim, 0, true, ""},
    {Op::Min, "min", Family::Reduction, 1, Opcode::Min, kDim, 0, true, ""},
    {Op::Prod, "prod", Family::Reduction, 1, Opcode::Prod, kDim, 1, true, "fp64, rounded once"},
    {Op::MatMul, "matmul", Family::Product, 2, Opcode::MatMul, "", 1, false,
     "plus 2^-18 of the largest; 64 products summed exactly"},
    {Op::Linear, "linear", Family::Product, 3, Opcode::MatMul, "", 2, false,
     "plus 2^-9 of the largest; matmul, then add"},
    {Op::Attention, "attention", Family::Product, 3, Opcode::MatMul, "scale (1/sqrt(E)), causal (0)", 0, false,
     "within 0.03 of the largest; matmul, softmax, matmul on DL16"},
    {Op::Softmax, "softmax", Family::Norm, 1, Opcode::Div, "dim", 0, true,
     "within 0.02 of the largest; max, sub, exp, sum, div on DL16"},
    {Op::LayerNorm, "layer_norm", Family::Norm, 3, Opcode::LayerNormNorm, "eps (1e-5)", 0, true,
     "within 0.02 of the largest; scale rounded to DL16, else fp32"},
    {Op::RmsNorm, "rms_norm", Family::Norm, 2, Opcode::Mul, "eps (1e-5)", 0, true,
     "within 0.02 of the largest; mul, mean, add, rsqrt, mul, mul on DL16"},
    {Op::TopK, "topk", Family::Reduction, 1, Opcode::TopKValue, "k, dim (-1)", 0, true, ""},
    {Op::Embedding, "embedding", Family::Movement, 2, Opcode::Gather, "", 0, true, ""},
    {Op::Cat, "cat", Family::Movement, program::kMaxArguments - 1, Opcode::Copy, "dim", 0, true, ""},
    {Op::IndexCopy, "index_copy", Family::Movement, 2, Opcode::Scatter, "", 0, true, ""},
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
