// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/lowering.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/operation_arguments.hpp"
#include "host_driver/ops/result_types.hpp"
#include "host_driver/program/function_tables.hpp"
#include "host_driver/tensor/tensor_view.hpp"
#include "shared/dl16.hpp"

namespace svp::ops {
namespace {

using program::Access;
using program::Opcode;

bool same_size_or_one(std::int64_t a, std::int64_t b) { return a == b || a == 1 || b == 1; }

// The order of dimensions whose last one is the stick dimension.
std::vector<std::int64_t> order_with_stick(std::size_t rank, std::optional<std::size_t> stick) {
  std::vector<std::int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (!stick) {
    order.push_back(SpyreTensorLayout::kSynthetic);
  } else {
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(*stick),
                order.begin() + static_cast<std::ptrdiff_t>(*stick) + 1, order.end());
  }
  return order;
}

// Repeated dimensions count as one element: that is all there is in memory.
std::vector<std::int64_t> size_in_memory(const Value& value) {
  std::vector<std::int64_t> size = value.size();
  for (std::size_t d = 0; d < size.size(); ++d) {
    if (!value.access.present[d]) size[d] = 1;
  }
  return size;
}

// Kept until the process ends: making one takes milliseconds, and programs with it are made often.
std::span<const wire::Dl16> kept_table(Opcode opcode, const std::vector<float>& constants) {
  static std::mutex mutex;
  static std::map<std::pair<Opcode, std::vector<float>>, std::vector<wire::Dl16>> tables;
  const std::lock_guard lock(mutex);
  std::vector<wire::Dl16>& table = tables[{opcode, constants}];
  if (table.empty()) table = svp::program::function_table(opcode, svp::program::constants_of(constants));
  return table;
}

// The result of a reduction of no elements; none: it has none, or is never looked at.
std::optional<double> of_no_elements(Opcode opcode) {
  switch (opcode) {
    case Opcode::Sum: return 0;
    case Opcode::Prod: return 1;
    case Opcode::Mean: return std::numeric_limits<double>::quiet_NaN();
    default: return std::nullopt;
  }
}

}  // namespace

std::vector<std::int64_t> broadcast_shape(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> shape(std::max(a.size(), b.size()));
  for (std::size_t back = 1; back <= shape.size(); ++back) {
    const std::int64_t x = back <= a.size() ? a[a.size() - back] : 1;
    const std::int64_t y = back <= b.size() ? b[b.size() - back] : 1;
    if (!same_size_or_one(x, y)) {
      throw InvalidArgument("shape", "shapes " + to_string(a) + " and " + to_string(b) + " do not fit together",
                            "give equal extents, or 1 where a tensor is repeated");
    }
    shape[shape.size() - back] = x == 1 ? y : x;
  }
  return shape;
}

std::size_t dimension_of(std::int64_t dim, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  const std::int64_t wrapped = dim < 0 ? dim + count : dim;
  if (wrapped < 0 || wrapped >= count) {
    throw InvalidArgument("dim", "dimension " + std::to_string(dim) + " of a tensor with " + std::to_string(rank),
                          "count from 0, or from the end with -1");
  }
  return static_cast<std::size_t>(wrapped);
}

bool is_held(DeviceType device_dtype, double value) {
  if (device_dtype != DeviceType::Dl16 || value == 0 || !std::isfinite(value)) return true;
  const wire::Dl16 code = wire::dl16_from_fp64(value);
  return wire::dl16_is_finite(code) && !wire::dl16_is_zero(code);
}

Lowering::Lowering(const Request& request) : request_(request) {
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    try {
      inputs_.push_back(&keep(writer_.argument(request.inputs[i], Access::Read)));
    } catch (const CopyNeeded& error) {
      throw CopyNeeded("input " + std::to_string(i), std::string(error.what()), "launch with a copy of it");
    }
  }
}

const Value& Lowering::output(std::vector<std::int64_t> size, DataType dtype, DeviceType device_dtype) {
  TensorForm form = TensorForm::dense(dtype, std::move(size), device_dtype);
  if (request_.out) {
    if (request_.out->size() != form.size()) {
      throw InvalidArgument("out",
                            "the result is " + to_string(form.size()) + ", out is " + to_string(request_.out->size()),
                            "give a tensor of the result's shape");
    }
    if (request_.op != Op::Copy) require_out(dtype, request_.out->base.dtype);
    form = *request_.out;
  }
  outputs_.push_back(form);
  const Value& out = keep(writer_.argument(form, Access::ReadWrite));
  const bool moved = info_of(request_.op).family == Family::Movement;
  if (moved || takes(Types::Compute, form.layout.device_dtype)) return out;
  const Value& computed = temporary(form.size(), dtype, device_dtype, out.stick());
  converted_.emplace_back(&computed, &out);
  return computed;
}

void Lowering::fill(const Value& value, double number) {
  const Value& filler = keep(writer_.scalar(value.form.base.dtype, value.form.layout.device_dtype, number));
  writer_.emit({.opcode = Opcode::Copy,
                .extent = value.size(),
                .operands = {aligned(filler, value.rank()), aligned(value, value.rank())}});
}

const Value& Lowering::scalar(const Value& like, double value) {
  return keep(writer_.scalar(like.form.base.dtype, like.form.layout.device_dtype, value));
}

const Value& Lowering::scalar(DataType dtype, DeviceType device_dtype, double value) {
  return keep(writer_.scalar(dtype, device_dtype, value));
}

const Value& Lowering::temporary(const std::vector<std::int64_t>& size, DataType dtype, DeviceType device_dtype,
                                 std::optional<std::size_t> stick) {
  return keep(writer_.pool(TensorForm::dense(dtype, size, device_dtype, order_with_stick(size.size(), stick))));
}

void Lowering::store(const Value& value, const Value& out) {
  const Value& same = as_format(value, out.form.layout.device_dtype);
  const bool lanes_stay =
      same.stick() == out.stick() || (!same.stick() && (!out.stick() || !same.access.present[*out.stick()]));
  writer_.emit({.opcode = lanes_stay ? Opcode::Copy : Opcode::Restickify,
                .extent = out.size(),
                .operands = {aligned(same, out.rank()), aligned(out, out.rank())}});
}

const Value& Lowering::as_format(const Value& value, DeviceType device_dtype) {
  if (value.form.layout.device_dtype == device_dtype) return value;  // NOLINT(bugprone-return-const-ref-from-parameter)
  const std::vector<std::int64_t> size = size_in_memory(value);
  const Value& copy = temporary(size, value.form.base.dtype, device_dtype, value.stick());
  writer_.emit(
      {.opcode = Opcode::Copy, .extent = size, .operands = {aligned(value, size.size()), aligned(copy, size.size())}});
  return copy;
}

const Value& Lowering::with_stick(const Value& value, std::optional<std::size_t> stick) {
  const std::vector<std::int64_t> size = size_in_memory(value);
  if (stick && size[*stick] == 1) stick.reset();
  if (value.stick() == stick) return value;  // NOLINT(bugprone-return-const-ref-from-parameter)
  const Value& copy = temporary(size, value.form.base.dtype, value.form.layout.device_dtype, stick);
  store(value.size() == size ? value : keep(value.seen_as({size, value.form.view.stride, value.form.view.offset})),
        copy);
  return copy;
}

const Value& Lowering::materialised(const Value& value) {
  if (size_in_memory(value) == value.size()) return value;  // NOLINT(bugprone-return-const-ref-from-parameter)
  const Value& copy = temporary(value.size(), value.form.base.dtype, value.form.layout.device_dtype, value.stick());
  store(value, copy);
  return copy;
}

// With a stick dimension that an operation on out's sticks can take.
const Value& Lowering::fitting(const Value& value, const Value& out) {
  const std::size_t missing = out.rank() - value.rank();
  std::optional<std::size_t> wanted;
  if (out.stick() && *out.stick() >= missing && value.access.present[*out.stick() - missing]) {
    wanted = *out.stick() - missing;
  }
  return with_stick(as_format(value, out.form.layout.device_dtype), wanted);
}

const Value& Lowering::table_for(Opcode opcode, const std::vector<float>& constants) {
  if (svp::program::in_all_tables(opcode, svp::program::constants_of(constants))) return keep(writer_.table(opcode));
  return keep(writer_.table(kept_table(opcode, constants)));
}

void Lowering::elementwise(Opcode opcode, const std::vector<const Value*>& inputs, const Value& out,
                           const std::vector<float>& constants) {
  OperationParts parts{.opcode = opcode, .extent = out.size(), .operands = {}, .constants = constants};
  for (const Value* input : inputs) parts.operands.push_back(aligned(fitting(*input, out), out.rank()));
  if (program::is_function(opcode) && out.format() == program::Format::Dl16) {
    parts.operands.push_back(aligned(table_for(opcode, constants), out.rank()));
  }
  parts.operands.push_back(aligned(out, out.rank()));
  writer_.emit(parts);
}

const Value& Lowering::elementwise(Opcode opcode, const std::vector<const Value*>& inputs,
                                   const std::vector<float>& constants) {
  std::vector<std::int64_t> size;
  for (const Value* input : inputs) size = broadcast_shape(size, input->size());
  // As the largest input lies: no operand of that size has to be copied.
  const Value* largest = inputs.front();
  for (const Value* input : inputs) {
    if (element_count(input->form.view) > element_count(largest->form.view)) largest = input;
  }
  std::optional<std::size_t> stick = largest->stick();
  if (stick) *stick += size.size() - largest->rank();
  const Value& out = temporary(size, largest->form.base.dtype, largest->form.layout.device_dtype, stick);
  elementwise(opcode, inputs, out, constants);
  return out;
}

const Value& Lowering::reduced(Opcode opcode, const Value& value, std::size_t dimension, std::vector<float> constants) {
  const Value& all = materialised(value);
  std::vector<std::int64_t> size = all.size();
  size[dimension] = 1;
  std::optional<std::size_t> stick = all.stick();
  if (stick == dimension) stick.reset();
  const Value& out = temporary(size, all.form.base.dtype, all.form.layout.device_dtype, stick);
  if (all.size()[dimension] == 0) {
    if (const auto number = of_no_elements(opcode)) fill(out, *number);
    return out;
  }
  Use from = aligned(all, all.rank());
  from.named = {dimension};
  if (opcode == Opcode::Exx2) from.named_stick = dimension;
  writer_.emit({.opcode = opcode,
                .extent = all.size(),
                .operands = {from, aligned(out, all.rank())},
                .reduced = dimension,
                .constants = std::move(constants)});
  return out;
}

Lowered Lowering::finish() {
  for (const auto& [computed, out] : converted_) store(*computed, *out);
  if (writer_.operations() == 0) return {.program = {}, .outputs = std::move(outputs_)};
  return {.program = writer_.finish(), .outputs = std::move(outputs_)};
}

Lowered lower(const Request& request) {
  require_arguments(request);
  require_types(request);
  Lowering lowering(request);
  switch (info_of(request.op).family) {
    case Family::Movement: lower_movement(lowering); break;
    case Family::Elementwise:
    case Family::Comparison:
    case Family::Function: lower_elementwise(lowering); break;
    case Family::Reduction: lower_reduction(lowering); break;
    case Family::Product: lower_products(lowering); break;
    case Family::Norm: lower_norms(lowering); break;
    case Family::Window: request.op == Op::Conv2d ? lower_convolution(lowering) : lower_pooling(lowering); break;
  }
  return lowering.finish();
}

}  // namespace svp::ops
