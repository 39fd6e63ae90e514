// SPDX-License-Identifier: Apache-2.0
// Names of what a device program consists of, for messages and pages. A kernel does not include this: text is a table
// of pointers, which an image cannot hold.
#pragma once

#include <string_view>

#include "shared/device_program_opcodes.hpp"

namespace wire::program {

constexpr std::string_view name(Opcode opcode) {
  switch (opcode) {
    case Opcode::LoopBegin: return "LoopBegin";
    case Opcode::LoopEnd: return "LoopEnd";
    case Opcode::Copy: return "Copy";
    case Opcode::Restickify: return "Restickify";
    case Opcode::Dl16ToFp32: return "Dl16ToFp32";
    case Opcode::Fp32ToDl16: return "Fp32ToDl16";
    case Opcode::Dl16ToFp8: return "Dl16ToFp8";
    case Opcode::Fp8ToDl16: return "Fp8ToDl16";
    case Opcode::Dl16ToFp8Weight: return "Dl16ToFp8Weight";
    case Opcode::Gather: return "Gather";
    case Opcode::Scatter: return "Scatter";
    case Opcode::Add: return "Add";
    case Opcode::Sub: return "Sub";
    case Opcode::Mul: return "Mul";
    case Opcode::Div: return "Div";
    case Opcode::Maximum: return "Maximum";
    case Opcode::Minimum: return "Minimum";
    case Opcode::Equal: return "Equal";
    case Opcode::NotEqual: return "NotEqual";
    case Opcode::Greater: return "Greater";
    case Opcode::GreaterEqual: return "GreaterEqual";
    case Opcode::Less: return "Less";
    case Opcode::LessEqual: return "LessEqual";
    case Opcode::Where: return "Where";
    case Opcode::Abs: return "Abs";
    case Opcode::Neg: return "Neg";
    case Opcode::Relu: return "Relu";
    case Opcode::Clip: return "Clip";
    case Opcode::Floor: return "Floor";
    case Opcode::Exp: return "Exp";
    case Opcode::Log: return "Log";
    case Opcode::Sqrt: return "Sqrt";
    case Opcode::Rsqrt: return "Rsqrt";
    case Opcode::Reciprocal: return "Reciprocal";
    case Opcode::Sigmoid: return "Sigmoid";
    case Opcode::Tanh: return "Tanh";
    case Opcode::Silu: return "Silu";
    case Opcode::Gelu: return "Gelu";
    case Opcode::Softplus: return "Softplus";
    case Opcode::Sum: return "Sum";
    case Opcode::Mean: return "Mean";
    case Opcode::Max: return "Max";
    case Opcode::Min: return "Min";
    case Opcode::Prod: return "Prod";
    case Opcode::Exx2: return "Exx2";
    case Opcode::LayerNormScale: return "LayerNormScale";
    case Opcode::LayerNormNorm: return "LayerNormNorm";
    case Opcode::MatMul: return "MatMul";
    case Opcode::MatMulFp8: return "MatMulFp8";
    case Opcode::TopKValue: return "TopKValue";
    case Opcode::TopKIndex: return "TopKIndex";
  }
  return "unknown";
}

constexpr std::string_view name(Where where) {
  switch (where) {
    case Where::Nothing: return "nothing";
    case Where::Magic: return "magic";
    case Where::Version: return "version";
    case Where::ProgramBytes: return "program bytes";
    case Where::ArgumentCount: return "argument count";
    case Where::OperationCount: return "operation count";
    case Where::Offsets: return "offsets";
    case Where::Pool: return "pool";
    case Where::Slices: return "slices";
    case Where::Reserved: return "reserved";
    case Where::ArgumentEntry: return "argument entry";
    case Where::Opcode: return "opcode";
    case Where::Rank: return "rank";
    case Where::OperandCount: return "operand count";
    case Where::Extent: return "extent";
    case Where::Reduced: return "reduced";
    case Where::Mask: return "mask";
    case Where::Constant: return "constant";
    case Where::Page: return "page";
    case Where::Loop: return "loop";
    case Where::Base: return "base";
    case Where::Format: return "format";
    case Where::StickDim: return "stick dimension";
    case Where::Present: return "present";
    case Where::Offset: return "offset";
    case Where::Stride: return "stride";
    case Where::LoopStride: return "loop stride";
    case Where::Split: return "split";
    case Where::Bounds: return "bounds";
    case Where::Access: return "access";
    case Where::Correction: return "correction";
    case Where::Unsupported: return "unsupported";
    case Where::Crc: return "crc";
    case Where::Index: return "index";
  }
  return "unknown";
}

constexpr std::string_view name(Format format) {
  switch (format) {
    case Format::Dl16: return "DL16";
    case Format::Fp32: return "FP32";
    case Format::Int32: return "INT32";
    case Format::Int16: return "INT16";
    case Format::Int8: return "INT8";
    case Format::Uint32: return "UINT32";
    case Format::Fp8E4m3: return "FP8_E4M3";
    case Format::Fp8E5m2: return "FP8_E5M2";
  }
  return "unknown";
}

constexpr std::string_view name(Base base) {
  switch (base) {
    case Base::None: return "none";
    case Base::Argument: return "argument";
    case Base::Data: return "data";
    case Base::Pool: return "pool";
    case Base::Scratchpad: return "scratchpad";
    case Base::Tables: return "tables";
  }
  return "unknown";
}

constexpr std::string_view name(Access access) {
  switch (access) {
    case Access::None: return "none";
    case Access::Read: return "read";
    case Access::Write: return "write";
    case Access::ReadWrite: return "read and write";
  }
  return "unknown";
}

constexpr std::string_view name(Role role) {
  switch (role) {
    case Role::None: return "none";
    case Role::Input: return "input";
    case Role::Index: return "index";
    case Role::Pair: return "pair";
    case Role::Table: return "table";
    case Role::Indirect: return "indirect";
    case Role::Weight: return "weight";
    case Role::Output: return "output";
    case Role::PairOutput: return "pair output";
    case Role::WeightOutput: return "weight output";
    case Role::IndirectOutput: return "indirect output";
  }
  return "unknown";
}

}  // namespace wire::program
