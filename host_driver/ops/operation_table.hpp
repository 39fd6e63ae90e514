// SPDX-License-Identifier: Apache-2.0
// The operations of spyre::ops: their names, what they take, which operations of the engine they become, and how exact
// they are (scripts/compare-torch holds them against PyTorch with these bounds). One table, which the lowering, `spyre
// ops`, the API and the tests read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shared/device_program.hpp"

namespace svp::ops {

namespace program = wire::program;

enum class Op : std::uint8_t {
  Copy,  // to another layout, type or place
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
  Clip,
  Floor,
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
  MatMul,
  Linear,
  Attention,
  Softmax,
  LayerNorm,
  RmsNorm,
  TopK,
  Embedding,
  Cat,
  IndexCopy,
  AvgPool2d,
  MaxPool2d,
  Conv2d,
  LinearFp8,
};
inline constexpr unsigned kOps = static_cast<unsigned>(Op::LinearFp8) + 1;

enum class Family : std::uint8_t { Movement, Elementwise, Comparison, Function, Reduction, Product, Norm, Window };

struct OpInfo {
  Op op;
  Family family;
  program::Opcode opcode;  // what it becomes; of a chain: its last operation
  unsigned tensors;        // inputs; the most of them for an operation that takes several numbers
  const char* name;        // of the command line and of the C++ function
  const char* arguments;   // for people: scalars and integers in order
  // Largest error of a result on DL16 against the exact result rounded to DL16, in units of its last place; 0: exact.
  unsigned ulp;
  bool fp32;          // also on FP32
  const char* error;  // for people: the bound, where ulp does not say it
};

std::span<const OpInfo> operation_table();
const OpInfo& info_of(Op op);
std::string bound_of(const OpInfo& info);  // for people
std::optional<Op> op_named(std::string_view name);

}  // namespace svp::ops
