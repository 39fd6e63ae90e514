// SPDX-License-Identifier: Apache-2.0
// What each operation of a device program takes: one table for the checker, the page docs/device-programs.md, the
// golden model and the dispatch of the engine. Numbers only: a kernel can hold it (no relocations).
#pragma once

#include <cstdint>

#include "shared/device_program.hpp"

namespace wire::program {

enum class Family : std::uint8_t {
  Loop,
  Copy,       // Copy: element-wise, with a change of format
  Relayout,   // Restickify: element-wise for positions inside of the extents, zero in pad lanes
  Stagger,    // lanes change places while the format changes
  Indexed,    // Gather, Scatter
  Pointwise,  // element-wise arithmetic
  Function,   // element-wise, by a table on DL16
  Reduction,
  LayerNorm,  // element-wise with a pair operand
  MatMul,
  TopK,
};

// What an operand is to an operation. Operands are in this order in Operation::operand; the output is the last one.
enum class Role : std::uint8_t {
  None,
  Input,
  Index,     // Int32 or Uint32
  Pair,      // what Exx2 wrote: two fp64 in each stick; no stick dimension
  Table,     // 65 536 DL16 results in the data of the program; no dimensions
  Indirect,  // the input of a Gather: at page * index + what its dimensions give
  Weight,    // what Dl16ToFp8Weight wrote: the dimension of `reduced` alternates inside of a stick
  Output,
  PairOutput,
  WeightOutput,
  IndirectOutput,  // of a Scatter
};
constexpr bool is_output(Role role) { return role >= Role::Output; }
constexpr bool is_weight(Role role) { return role == Role::Weight || role == Role::WeightOutput; }

enum class FormatRule : std::uint8_t {
  Same,      // all operands but Index and Table have one format, of `inputs`
  Each,      // inputs of `inputs`, the output of `output`
  SameSize,  // as Each, with elements of one size
};

constexpr std::uint8_t format_bit(Format format) {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(format));
}
constexpr bool has_format(std::uint8_t formats, Format format) {
  return static_cast<unsigned>(format) < kFormats && (formats & format_bit(format)) != 0;
}
inline constexpr std::uint8_t kAllFormats = 0xFF;
inline constexpr std::uint8_t kComputeFormats = format_bit(Format::Dl16) | format_bit(Format::Fp32);
inline constexpr std::uint8_t kIndexFormats = format_bit(Format::Int32) | format_bit(Format::Uint32);

enum class Reduces : std::uint8_t {
  Nothing,     // reduced is 0
  OneOfInput,  // one dimension that input 0 has and the output lacks
  Alternate,   // Dl16ToFp8Weight: the dimension, of input and output, that alternates inside of a stick
};

enum class Masks : std::uint8_t {
  None,
  Elements,  // along any dimension of the output
  Reduced,   // along the reduced dimension
};

struct OpcodeRow {
  Opcode opcode;
  Family family;
  std::uint8_t operands;  // with the output; with the table of a function on DL16
  Role role[kMaxOperands];
  FormatRule rule;
  std::uint8_t inputs;  // formats, bits
  std::uint8_t output;
  Reduces reduces;
  Masks masks;
  std::uint8_t constants;  // how many of Operation::constant it uses, from 0
};

namespace detail {

constexpr OpcodeRow loop_row(Opcode opcode) {
  return {opcode, Family::Loop, 0, {}, FormatRule::Same, 0, 0, Reduces::Nothing, Masks::None, 0};
}
constexpr OpcodeRow convert_row(Opcode opcode, Format from, Format to, Reduces reduces = Reduces::Nothing) {
  const Role output = reduces == Reduces::Alternate ? Role::WeightOutput : Role::Output;
  return {opcode,           Family::Stagger, 2,       {Role::Input, output}, FormatRule::Each,
          format_bit(from), format_bit(to),  reduces, Masks::None,           0};
}
constexpr OpcodeRow unary_row(Opcode opcode, std::uint8_t constants = 0) {
  return {opcode,
          Family::Pointwise,
          2,
          {Role::Input, Role::Output},
          FormatRule::Same,
          kComputeFormats,
          kComputeFormats,
          Reduces::Nothing,
          Masks::Elements,
          constants};
}
constexpr OpcodeRow binary_row(Opcode opcode) {
  return {opcode,
          Family::Pointwise,
          3,
          {Role::Input, Role::Input, Role::Output},
          FormatRule::Same,
          kComputeFormats,
          kComputeFormats,
          Reduces::Nothing,
          Masks::Elements,
          0};
}
constexpr OpcodeRow function_row(Opcode opcode, std::uint8_t constants = 0) {
  return {opcode,
          Family::Function,
          3,
          {Role::Input, Role::Table, Role::Output},
          FormatRule::Same,
          kComputeFormats,
          kComputeFormats,
          Reduces::Nothing,
          Masks::Elements,
          constants};
}
constexpr OpcodeRow reduction_row(Opcode opcode, std::uint8_t constants = 0, Role output = Role::Output) {
  return {opcode,
          Family::Reduction,
          2,
          {Role::Input, output},
          FormatRule::Same,
          kComputeFormats,
          kComputeFormats,
          Reduces::OneOfInput,
          Masks::Reduced,
          constants};
}
constexpr OpcodeRow top_k_row(Opcode opcode, FormatRule rule = FormatRule::Same,
                              std::uint8_t output = kComputeFormats) {
  return {opcode,      Family::TopK,
          2,           {Role::Input, Role::Output},
          rule,        kComputeFormats,
          output,      Reduces::OneOfInput,
          Masks::None, 0};
}

}  // namespace detail

inline constexpr OpcodeRow kOpcodes[] = {
    detail::loop_row(Opcode::LoopBegin),
    detail::loop_row(Opcode::LoopEnd),

    {Opcode::Copy,
     Family::Copy,
     2,
     {Role::Input, Role::Output},
     FormatRule::Each,
     kAllFormats,
     kAllFormats,
     Reduces::Nothing,
     Masks::Elements,
     0},
    {Opcode::Restickify,
     Family::Relayout,
     2,
     {Role::Input, Role::Output},
     FormatRule::SameSize,
     kAllFormats,
     kAllFormats,
     Reduces::Nothing,
     Masks::None,
     0},
    detail::convert_row(Opcode::Dl16ToFp32, Format::Dl16, Format::Fp32),
    detail::convert_row(Opcode::Fp32ToDl16, Format::Fp32, Format::Dl16),
    detail::convert_row(Opcode::Dl16ToFp8, Format::Dl16, Format::Fp8E4m3),
    detail::convert_row(Opcode::Fp8ToDl16, Format::Fp8E4m3, Format::Dl16),
    detail::convert_row(Opcode::Dl16ToFp8Weight, Format::Dl16, Format::Fp8E4m3, Reduces::Alternate),
    {Opcode::Gather,
     Family::Indexed,
     3,
     {Role::Index, Role::Indirect, Role::Output},
     FormatRule::Same,
     kAllFormats,
     kAllFormats,
     Reduces::Nothing,
     Masks::None,
     0},
    {Opcode::Scatter,
     Family::Indexed,
     3,
     {Role::Index, Role::Input, Role::IndirectOutput},
     FormatRule::Same,
     kAllFormats,
     kAllFormats,
     Reduces::Nothing,
     Masks::None,
     0},

    detail::binary_row(Opcode::Add),
    detail::binary_row(Opcode::Sub),
    detail::binary_row(Opcode::Mul),
    detail::binary_row(Opcode::Div),
    detail::binary_row(Opcode::Maximum),
    detail::binary_row(Opcode::Minimum),
    detail::binary_row(Opcode::Equal),
    detail::binary_row(Opcode::NotEqual),
    detail::binary_row(Opcode::Greater),
    detail::binary_row(Opcode::GreaterEqual),
    detail::binary_row(Opcode::Less),
    detail::binary_row(Opcode::LessEqual),
    {Opcode::Where,
     Family::Pointwise,
     4,
     {Role::Input, Role::Input, Role::Input, Role::Output},
     FormatRule::Same,
     kComputeFormats,
     kComputeFormats,
     Reduces::Nothing,
     Masks::Elements,
     0},

    detail::unary_row(Opcode::Abs),
    detail::unary_row(Opcode::Neg),
    detail::unary_row(Opcode::Relu),
    detail::unary_row(Opcode::Clip, 2),
    detail::unary_row(Opcode::Floor),
    detail::function_row(Opcode::Exp),
    detail::function_row(Opcode::Log),
    detail::function_row(Opcode::Sqrt),
    detail::function_row(Opcode::Rsqrt),
    detail::function_row(Opcode::Reciprocal),
    detail::function_row(Opcode::Sigmoid),
    detail::function_row(Opcode::Tanh),
    detail::function_row(Opcode::Silu),
    detail::function_row(Opcode::Gelu),
    detail::function_row(Opcode::Softplus, 2),

    detail::reduction_row(Opcode::Sum),
    detail::reduction_row(Opcode::Mean, 1),
    detail::reduction_row(Opcode::Max),
    detail::reduction_row(Opcode::Min),
    detail::reduction_row(Opcode::Prod),
    detail::reduction_row(Opcode::Exx2, 1, Role::PairOutput),
    {Opcode::LayerNormScale,
     Family::LayerNorm,
     2,
     {Role::Pair, Role::Output},
     FormatRule::Same,
     kComputeFormats,
     kComputeFormats,
     Reduces::Nothing,
     Masks::None,
     1},
    {Opcode::LayerNormNorm,
     Family::LayerNorm,
     6,
     {Role::Input, Role::Pair, Role::Input, Role::Input, Role::Input, Role::Output},
     FormatRule::Same,
     kComputeFormats,
     kComputeFormats,
     Reduces::Nothing,
     Masks::None,
     0},

    {Opcode::MatMul,
     Family::MatMul,
     3,
     {Role::Input, Role::Input, Role::Output},
     FormatRule::Same,
     format_bit(Format::Dl16),
     format_bit(Format::Dl16),
     Reduces::OneOfInput,
     Masks::None,
     0},
    {Opcode::MatMulFp8,
     Family::MatMul,
     3,
     {Role::Input, Role::Weight, Role::Output},
     FormatRule::Each,
     format_bit(Format::Fp8E4m3),
     format_bit(Format::Dl16),
     Reduces::OneOfInput,
     Masks::None,
     0},

    detail::top_k_row(Opcode::TopKValue),
    detail::top_k_row(Opcode::TopKIndex, FormatRule::SameSize, kComputeFormats | format_bit(Format::Int32)),
};

namespace detail {

inline constexpr unsigned kOpcodeNumbers = 0x80;  // all are below
struct RowNumbers {
  std::uint8_t of[kOpcodeNumbers];  // 1 + the row; 0: no operation has this number
};
constexpr RowNumbers number_rows() {
  RowNumbers numbers{};
  std::uint8_t row = 0;
  for (const OpcodeRow& it : kOpcodes) numbers.of[static_cast<unsigned>(it.opcode)] = ++row;
  return numbers;
}
inline constexpr RowNumbers kRowNumbers = number_rows();

}  // namespace detail

// Null: no operation has this number.
constexpr const OpcodeRow* find_opcode(Opcode opcode) {
  const auto number = static_cast<unsigned>(opcode);
  if (number >= detail::kOpcodeNumbers || detail::kRowNumbers.of[number] == 0) return nullptr;
  return &kOpcodes[detail::kRowNumbers.of[number] - 1];
}

// A function on fp32 has no table; the format of its first operand says which of the two it is.
constexpr bool has_table(const OpcodeRow& row, const Operation& operation) {
  return row.family == Family::Function && operation.operand[0].format == Format::Dl16;
}
constexpr unsigned operand_count(const OpcodeRow& row, const Operation& operation) {
  return row.operands - (row.family == Family::Function && !has_table(row, operation) ? 1u : 0u);
}
constexpr Role role_of(const OpcodeRow& row, const Operation& operation, unsigned operand) {
  if (operand >= operand_count(row, operation)) return Role::None;
  const bool without_table = row.family == Family::Function && !has_table(row, operation);
  return row.role[without_table && operand >= 1 ? operand + 1 : operand];
}

// Every lane of the last stick of an output with a stick dimension is computed, or 0 beyond the extent.
constexpr bool computes_pad_lanes(Family family) {
  return family != Family::Relayout && family != Family::Reduction && family != Family::MatMul &&
         family != Family::TopK;
}

}  // namespace wire::program
