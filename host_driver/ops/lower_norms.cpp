// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/tensor/tensor_view.hpp"

namespace svp::ops {
namespace {

using program::Opcode;

constexpr double kDefaultEpsilon = 1e-5;

float epsilon(const Request& request) {
  return static_cast<float>(request.scalars.empty() ? kDefaultEpsilon : request.scalars[0]);
}

const Value& last_dimension_in_sticks(Lowering& lowering, const Value& value) {
  return lowering.with_stick(lowering.materialised(value), value.rank() - 1);
}

// As PyTorch: a tensor without dimensions has one of extent 1 for whoever names it.
void lower_softmax(Lowering& lowering) {
  const Value& x = lowering.input(0);
  const Value& out = lowering.output(x.size(), x.form.base.dtype, x.form.layout.device_dtype);
  const auto line = [&](const Value& value) -> const Value& {
    return value.rank() == 0 ? lowering.keep(value.seen_as(unsqueezed(value.form.view, 0))) : value;
  };
  const std::int64_t dim = lowering.request().integers.empty() ? -1 : lowering.request().integers[0];
  lowering.softmax(line(x), dimension_of(dim, line(x).rank()), line(out));
}

// Over the last dimension; weight and bias are of its extent, and may be left out.
void lower_layer_norm(Lowering& lowering) {
  const Value& x = last_dimension_in_sticks(lowering, lowering.input(0));
  const std::size_t rank = x.rank();
  const Value& out = lowering.output(x.size(), x.form.base.dtype, x.form.layout.device_dtype);
  const Value& pair = lowering.reduced(Opcode::Exx2, x, rank - 1, {1.0F / static_cast<float>(x.size().back())});
  const Value& scale = lowering.temporary(pair.size(), x.form.base.dtype, x.form.layout.device_dtype, std::nullopt);
  lowering.writer().emit({.opcode = Opcode::LayerNormScale,
                          .extent = pair.size(),
                          .operands = {aligned(pair, rank), aligned(scale, rank)},
                          .constants = {epsilon(lowering.request())}});
  const auto parameter = [&](std::size_t index, double otherwise) -> const Value& {
    if (lowering.inputs() <= index) return lowering.scalar(x, otherwise);
    const Value& value = lowering.as_format(lowering.input(index), x.form.layout.device_dtype);
    return value.rank() == 1 && value.size()[0] > 1 ? last_dimension_in_sticks(lowering, value) : value;
  };
  const bool fits = out.stick() == x.stick() && out.format() == x.format();
  const Value& result =
      fits ? out : lowering.temporary(x.size(), x.form.base.dtype, x.form.layout.device_dtype, x.stick());
  lowering.writer().emit(
      {.opcode = Opcode::LayerNormNorm,
       .extent = x.size(),
       .operands = {aligned(x, rank), aligned(pair, rank), aligned(scale, rank), aligned(parameter(1, 1.0), rank),
                    aligned(parameter(2, 0.0), rank), aligned(result, rank)}});
  if (!fits) lowering.store(result, out);
}

// x / sqrt(mean(x²) + eps) · weight, in FP32 and rounded once: DL16 has no squares beyond 2^33, and none below 2^-31.
void lower_rms_norm(Lowering& lowering) {
  const Value& x = lowering.input(0);
  const Value& out = lowering.output(x.size(), x.form.base.dtype, x.form.layout.device_dtype);
  const Value& wide = lowering.as_format(x, DeviceType::Fp32);
  const Value& squares = lowering.elementwise(Opcode::Mul, {&wide, &wide});
  const Value& mean =
      lowering.reduced(Opcode::Mean, squares, squares.rank() - 1, {1.0F / static_cast<float>(squares.size().back())});
  const Value& shifted = lowering.elementwise(
      Opcode::Add, {&mean, &lowering.scalar(wide, static_cast<double>(epsilon(lowering.request())))});
  const Value* result = &lowering.elementwise(Opcode::Mul, {&wide, &lowering.elementwise(Opcode::Rsqrt, {&shifted})});
  if (lowering.inputs() > 1) result = &lowering.elementwise(Opcode::Mul, {result, &lowering.input(1)});
  lowering.store(*result, out);
}

// One element for each of the last dimension, of weight and bias.
void require_parameters(const Lowering& lowering) {
  const std::vector<std::int64_t> row{lowering.input(0).size().back()};
  for (std::size_t i = 1; i < lowering.inputs(); ++i) {
    const Value& value = lowering.input(i);
    if (value.size() == row) continue;
    throw InvalidArgument("shape",
                          std::string(i == 1 ? "a weight" : "a bias") + " of " + to_string(value.size()) +
                              " for rows of " + to_string(lowering.input(0).size()),
                          "give one element for each of the last dimension");
  }
}

}  // namespace

void Lowering::softmax(const Value& value, std::size_t dimension, const Value& out) {
  const Value& largest = reduced(Opcode::Max, value, dimension);
  const Value& powers = elementwise(Opcode::Exp, {&elementwise(Opcode::Sub, {&value, &largest})});
  elementwise(Opcode::Div, {&powers, &reduced(Opcode::Sum, powers, dimension)}, out);
}

const Value& Lowering::softmax(const Value& value, std::size_t dimension) {
  const Value& out = temporary(value.size(), value.form.base.dtype, value.form.layout.device_dtype, value.stick());
  softmax(value, dimension, out);
  return out;
}

void lower_norms(Lowering& lowering) {
  const bool softmax = lowering.request().op == Op::Softmax;
  if (lowering.input(0).rank() == 0 && !softmax) {
    throw InvalidArgument("inputs", "a norm of no dimension", "give a tensor of one dimension or more");
  }
  if (!softmax) require_parameters(lowering);
  switch (lowering.request().op) {
    case Op::LayerNorm: return lower_layer_norm(lowering);
    case Op::RmsNorm: return lower_rms_norm(lowering);
    default: return lower_softmax(lowering);
  }
}

}  // namespace svp::ops
