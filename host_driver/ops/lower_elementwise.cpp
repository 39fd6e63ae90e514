// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/lowering.hpp"

namespace svp::ops {
namespace {

using program::Opcode;

double scalar_or(const Request& request, std::size_t index, double otherwise) {
  return index < request.scalars.size() ? request.scalars[index] : otherwise;
}

// A number in place of the tensors that are missing: `x + 2`.
std::vector<const Value*> operands(Lowering& lowering, const OpInfo& info) {
  std::vector<const Value*> inputs;
  for (std::size_t i = 0; i < lowering.inputs(); ++i) inputs.push_back(&lowering.input(i));
  if (inputs.empty() || inputs.size() > info.tensors) {
    throw InvalidArgument("inputs", std::string(info.name) + " of " + std::to_string(inputs.size()) + " tensors",
                          "give " + std::to_string(info.tensors));
  }
  for (std::size_t i = 0; inputs.size() < info.tensors; ++i) {
    if (i == lowering.request().scalars.size()) {
      throw InvalidArgument("inputs", std::string(info.name) + " needs " + std::to_string(info.tensors) + " operands",
                            "give tensors, or numbers for the last ones");
    }
    inputs.push_back(&lowering.scalar(*inputs.front(), lowering.request().scalars[i]));
  }
  return inputs;
}

std::vector<float> constants_of(const Request& request) {
  const auto number = [&request](std::size_t i, double otherwise) {
    return static_cast<float>(scalar_or(request, i, otherwise));
  };
  switch (request.op) {
    case Op::Clip: return {number(0, -65504.0), number(1, 65504.0)};
    case Op::Softplus: return {number(0, 1.0), number(1, 20.0)};
    default: return {};
  }
}

// What the results are of: the condition of `where` is not.
struct ResultType {
  DataType dtype;
  DeviceType device;
};
ResultType type_of(const std::vector<const Value*>& inputs, std::size_t first) {
  ResultType type{inputs[first]->form.base.dtype, inputs[first]->form.layout.device_dtype};
  for (std::size_t i = first + 1; i < inputs.size(); ++i) {
    const TensorForm& form = inputs[i]->form;
    type.dtype = promoted(type.dtype, form.base.dtype);
    type.device = computed_in(type.dtype, type.device, form.layout.device_dtype);
  }
  return type;
}

}  // namespace

void lower_elementwise(Lowering& lowering) {
  const Request& request = lowering.request();
  const OpInfo& info = info_of(request.op);
  const std::vector<const Value*> inputs = operands(lowering, info);
  std::vector<std::int64_t> size;
  for (const Value* input : inputs) size = broadcast_shape(size, input->size());
  const ResultType computed = type_of(inputs, request.op == Op::Where ? 1 : 0);
  const bool compares = info.family == Family::Comparison;
  // On the card a bool is a DL16, 1 or 0; a comparison writes them in the format of what it compares.
  const Value& out =
      lowering.output(size, compares ? DataType::Bool : computed.dtype, compares ? DeviceType::Dl16 : computed.device);
  if (!compares || out.form.layout.device_dtype == computed.device) {
    lowering.elementwise(info.opcode, inputs, out, constants_of(request));
    return;
  }
  const Value& result = lowering.temporary(size, computed.dtype, computed.device, out.stick());
  lowering.elementwise(info.opcode, inputs, result, constants_of(request));
  lowering.store(result, out);
}

}  // namespace svp::ops
