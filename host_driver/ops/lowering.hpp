// SPDX-License-Identifier: Apache-2.0
// From an operation on tensors to the device program that does it: which operations of the engine, in which order, over
// which memory. Depends on forms alone, so that a program serves every launch with the same forms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "host_driver/ops/operation_table.hpp"
#include "host_driver/ops/program_writer.hpp"

namespace svp::ops {

// What an operation is asked for with.
struct Request {
  Op op;
  std::vector<TensorForm> inputs{};
  std::vector<double> scalars{};         // meaning: operation_table.hpp
  std::vector<std::int64_t> integers{};  // likewise
  std::optional<TensorForm> out{};       // where the result goes; empty: a new tensor, row-major in default layout
  bool allow_copies = true;              // false: CopyNeeded where a result has to be put together elsewhere first

  friend bool operator==(const Request&, const Request&) = default;
};

struct Lowered {
  std::vector<std::byte> program;   // empty: there is nothing to do
  std::vector<TensorForm> outputs;  // the program's arguments are the inputs, then these; is_argument() of them
};

// A tensor without elements has no memory, and no place among the arguments.
inline bool is_argument(const TensorForm& form) { return form.has_elements(); }

// Throws InvalidArgument naming what does not fit ("inputs", "numbers", "shape", "dtype", "dim", …), CopyNeeded for an
// argument that the engine can not walk ("input 0", … in its message).
Lowered lower(const Request& request);

// What the parts of the lowering share: the values of one program, and how they get into a form that an operation
// takes.
class Lowering {
 public:
  explicit Lowering(const Request& request);

  const Request& request() const { return request_; }
  const Value& input(std::size_t index) const { return *inputs_[index]; }
  std::size_t inputs() const { return inputs_.size(); }
  // The result, with this shape and type. Throws InvalidArgument ("out") when the request names another shape. Where
  // the request's memory is of a type that is not computed with, a value that finish() converts into it.
  const Value& output(std::vector<std::int64_t> size, DataType dtype, DeviceType device_dtype);

  const Value& scalar(const Value& like, double value);
  const Value& scalar(DataType dtype, DeviceType device_dtype, double value);
  const Value& keep(Value value) { return values_.emplace_back(std::move(value)); }
  // New memory of the pool, row-major in the elements, with this stick dimension; none: one element in each stick.
  const Value& temporary(const std::vector<std::int64_t>& size, DataType dtype, DeviceType device_dtype,
                         std::optional<std::size_t> stick);
  // The value itself (one of this lowering, never a temporary), or a copy of it: in this format; with this stick
  // dimension; with all its elements in memory.
  const Value& as_format(const Value& value, DeviceType device_dtype);
  const Value& with_stick(const Value& value, std::optional<std::size_t> stick);
  const Value& materialised(const Value& value);
  const Value& materialised_last(const Value& value);  // its last two dimensions

  // out = opcode(inputs…), with everything brought into out's format and stick dimension first.
  void elementwise(program::Opcode opcode, const std::vector<const Value*>& inputs, const Value& out,
                   const std::vector<float>& constants = {});
  const Value& elementwise(program::Opcode opcode, const std::vector<const Value*>& inputs,
                           const std::vector<float>& constants = {});
  // Along one dimension, which stays with extent 1.
  const Value& reduced(program::Opcode opcode, const Value& value, std::size_t dimension,
                       std::vector<float> constants = {});
  // Every element of `value` becomes this number.
  void fill(const Value& value, double number);
  // The elements of `value` into `out`, which has its size: another stick dimension, another format.
  void store(const Value& value, const Value& out);
  // Matrix product over the last two dimensions; those before them are repeated as elsewhere.
  void matmul(const Value& a, const Value& b, const Value& out);
  const Value& matmul(const Value& a, const Value& b);
  // The operation itself (MatMul, MatMulFp8), on operands that lie as it wants them.
  void product(program::Opcode opcode, const Value& left, const Value& right, const Value& out);
  void softmax(const Value& value, std::size_t dimension, const Value& out);
  const Value& softmax(const Value& value, std::size_t dimension);

  ProgramWriter& writer() { return writer_; }
  Lowered finish();

 private:
  const Value& fitting(const Value& value, const Value& out);
  const Value& table_for(program::Opcode opcode, const std::vector<float>& constants);

  const Request& request_;
  ProgramWriter writer_;
  std::deque<Value> values_;  // stay where they are
  std::vector<const Value*> inputs_;
  std::vector<TensorForm> outputs_;
  std::vector<std::pair<const Value*, const Value*>> converted_;  // at the end, into the second
};

// Shapes as PyTorch: dimensions of size 1, and missing ones in front, are repeated. Throws InvalidArgument ("shape").
std::vector<std::int64_t> broadcast_shape(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b);
// 0 … rank - 1. Throws InvalidArgument ("dim").
std::size_t dimension_of(std::int64_t dim, std::size_t rank);
// Whether a number can be a constant of this format (DL16, FP32): rounded, but neither beyond the range nor lost in
// zero.
bool is_held(DeviceType device_dtype, double value);

// Throws InvalidArgument ("shape"): input 2 has not one element for each row of input 1. Without one, nothing.
void require_bias(const Lowering& lowering);

void lower_elementwise(Lowering& lowering);
void lower_reduction(Lowering& lowering);
void lower_products(Lowering& lowering);
void lower_linear_fp8(Lowering& lowering);
void lower_norms(Lowering& lowering);
void lower_movement(Lowering& lowering);
void lower_pooling(Lowering& lowering);
void lower_convolution(Lowering& lowering);

}  // namespace svp::ops
