// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/ops/result_types.hpp"
#include "shared/dl16.hpp"

namespace svp::ops {
namespace {

using program::Opcode;

double scalar_or(const Request& request, std::size_t index, double otherwise) {
  return index < request.scalars.size() ? request.scalars[index] : otherwise;
}

// require_arguments() has counted them.
std::vector<const Value*> tensors_of(Lowering& lowering) {
  std::vector<const Value*> inputs;
  for (std::size_t i = 0; i < lowering.inputs(); ++i) inputs.push_back(&lowering.input(i));
  return inputs;
}

struct Bounds {
  double low;
  double high;
};
Bounds bounds_of(const Request& request) {
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  const Bounds bounds{scalar_or(request, 0, -kEndless), scalar_or(request, 1, kEndless)};
  if (std::isnan(bounds.low) || std::isnan(bounds.high)) {
    throw InvalidArgument("number", "clip with a bound that is not a number", "leave out a bound with an infinity");
  }
  return bounds;
}

// Nothing is beyond a NaN: softplus would have no threshold.
float threshold_of(const Request& request) {
  const double threshold = scalar_or(request, 1, 20.0);
  if (!std::isnan(threshold)) return static_cast<float>(threshold);
  throw InvalidArgument("number", "softplus with a threshold that is not a number", "leave out the threshold: 20");
}

// Whether a DL16 program can have the numbers of the request: what it cannot have makes it one on FP32.
bool dl16_has_numbers(const Request& request, std::size_t tensors) {
  constexpr double kLargest = wire::fp64_from_dl16(wire::kDl16Max);
  if (request.op == Op::Clip) {
    const Bounds bounds = bounds_of(request);
    return bounds.low <= kLargest && bounds.high >= -kLargest;
  }
  const std::size_t operands = info_of(request.op).tensors;
  const std::size_t count = std::min(request.scalars.size(), operands - std::min(operands, tensors));
  return std::all_of(request.scalars.begin(), request.scalars.begin() + static_cast<std::ptrdiff_t>(count),
                     [](double value) { return is_held(DeviceType::Dl16, value); });
}

std::vector<float> constants_of(const Request& request) {
  const auto number = [&request](std::size_t i, double otherwise) {
    return static_cast<float>(scalar_or(request, i, otherwise));
  };
  switch (request.op) {
    case Op::Clip: {
      const Bounds bounds = bounds_of(request);
      return {static_cast<float>(bounds.low), static_cast<float>(bounds.high)};
    }
    case Op::Softplus: return {number(0, 1.0), threshold_of(request)};
    default: return {};
  }
}

// PyTorch's functions of bool tensors are of floating-point numbers; so is a quotient.
bool makes_floating(const OpInfo& info) { return info.family == Family::Function || info.op == Op::Div; }

// The element-wise operation on bools that lie as 0 and 1: a sum is 1 where one of them is.
Opcode opcode_of(const OpInfo& info, DataType result) {
  return info.op == Op::Add && result == DataType::Bool ? Opcode::Maximum : info.opcode;
}

}  // namespace

void lower_elementwise(Lowering& lowering) {
  const Request& request = lowering.request();
  const OpInfo& info = info_of(request.op);
  std::vector<const Value*> operands = tensors_of(lowering);
  std::vector<std::int64_t> size;
  for (const Value* operand : operands) size = broadcast_shape(size, operand->size());
  const std::size_t first = request.op == Op::Where ? 1 : 0;  // the condition of `where` is not of the result
  const std::span<const Value* const> values = std::span(operands).subspan(std::min(first, operands.size()));
  const bool numbers = operands.size() < info.tensors || request.op == Op::Clip;
  ResultType type = result_type(values, numbers);
  if (type.dtype == DataType::Bool && makes_floating(info)) type = {DataType::Float32, DeviceType::Fp32};
  const bool compares = info.family == Family::Comparison;
  // On the card a bool is a DL16, 1 or 0; a comparison writes them in the format of what it compares.
  const Value& out = compares ? lowering.output(size, DataType::Bool, DeviceType::Dl16)
                              : lowering.output(size, type.dtype, type.device);
  const DeviceType to = out.form.layout.device_dtype;
  // FP32 has every number of DL16: what has one operand of it is computed there, and rounded once.
  const bool wide = std::ranges::any_of(
      operands, [](const Value* operand) { return operand->form.layout.device_dtype == DeviceType::Fp32; });
  const bool computed_there = to == DeviceType::Fp32 && !compares;
  const bool fp32 =
      wide || computed_there || type.device == DeviceType::Fp32 || !dl16_has_numbers(request, operands.size());
  const DeviceType device = fp32 ? DeviceType::Fp32 : DeviceType::Dl16;
  // A number in place of the tensors that are missing: `x + 2`.
  for (std::size_t i = 0; operands.size() < info.tensors; ++i) {
    operands.push_back(&lowering.scalar(type.dtype, device, request.scalars[i]));
  }
  const Opcode opcode = opcode_of(info, type.dtype);
  if (to == device) return lowering.elementwise(opcode, operands, out, constants_of(request));
  const Value& result = lowering.temporary(size, type.dtype, device, out.stick());
  lowering.elementwise(opcode, operands, result, constants_of(request));
  lowering.store(result, out);
}

}  // namespace svp::ops
