// SPDX-License-Identifier: Apache-2.0
// The operations that an SDSC may name (opFuncName).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace svp::compiler {

enum class OpFunc : std::uint8_t {
  Identity,
  Restickify,
  Shuffle,
  Add,
  Sub,
  Mul,
  Div,
  Maximum,
  Minimum,
  Equal,
  NotEqual,
  Greater,
  GreaterEqual,
  Less,
  LessEqual,
  Where,
  Abs,
  Neg,
  Relu,
  Floor,
  Clip,
  Exp,
  Log,
  Sqrt,
  Rsqrt,
  Reciprocal,
  Sigmoid,
  Tanh,
  Silu,
  Gelu,
  Softplus,
  Sum,
  Mean,
  Max,
  Min,
  Prod,
  Exx2,
  LayerNormScale,
  LayerNormNorm,
  MatMul,
  MatMulFp8,
  TopKValue,
  TopKIndex,
  Dl16ToFp32,
  Fp32ToDl16,
  Dl16ToFp8,
  Fp8ToDl16,
  Dl16ToFp8Weight,
  AveragePool,
  Conv2d,
  DepthwiseConv2d,
};
inline constexpr unsigned kOpFuncs = 51;

// As torch-spyre writes it; of reductions the name without "nonstick", which says nothing that the layouts do not say.
std::string_view name_of(OpFunc op);
// Empty: not known.
std::optional<OpFunc> op_func_of(std::string_view name);

constexpr bool is_reduction(OpFunc op) { return op >= OpFunc::Sum && op <= OpFunc::Prod; }
// Its input is read through windows.
constexpr bool is_windowed(OpFunc op) { return op >= OpFunc::AveragePool; }

}  // namespace svp::compiler
