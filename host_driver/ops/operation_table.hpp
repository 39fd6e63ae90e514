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

#include "host_driver/tensor/data_type.hpp"
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

// The largest error of a result against the exact one of the operands that the card has, rounded to the result's
// format: so many units of the last place of each element, plus this part of the largest magnitude of the result. What
// does not round has no error.
struct Bound {
  double ulps = 0;
  double relative = 0;
  friend bool operator==(const Bound&, const Bound&) = default;
};

struct OpInfo {
  Op op;
  Family family;
  program::Opcode opcode;     // what it becomes; of a chain: its last operation
  unsigned tensors;           // inputs; the most of them for an operation that takes several numbers
  const char* name;           // of the command line and of the C++ function
  const char* arguments;      // for people: scalars and integers in order
  Bound dl16;                 // of a result on DL16
  std::optional<Bound> fp32;  // of one on FP32; none: there is no form on FP32
  const char* computed;       // for people: where errors come from
};

std::span<const OpInfo> operation_table();
const OpInfo& info_of(Op op);
// That of a result in this format; formats of integers have none.
Bound bound_of(const OpInfo& info, DeviceType device_dtype);
std::string bound_text(const Bound& bound);  // for people
std::string bound_text(const OpInfo& info);  // of a DL16 result, with where it comes from
std::optional<Op> op_named(std::string_view name);

}  // namespace svp::ops
