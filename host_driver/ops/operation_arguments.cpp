// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/operation_arguments.hpp"

#include "host_driver/base/error.hpp"
#include "host_driver/tensor/tensor_view.hpp"

namespace svp::ops {
namespace {

std::string counted(std::size_t count, const char* what) {
  return (count == 0 ? "no" : std::to_string(count)) + " " + what + (count == 1 ? "" : "s");
}

// "2 tensors", "1 to 3 tensors"
std::string range_text(unsigned least, unsigned most, const char* what) {
  return least == most ? counted(most, what) : std::to_string(least) + " to " + counted(most, what);
}

std::string accepted_numbers(const OpInfo& info, unsigned most, const char* what) {
  if (most == 0) return "give none";
  const std::string list = info.arguments[0] == '\0' ? "" : ": " + std::string(info.arguments);
  return "give at most " + counted(most, what) + list;
}

void require_counts(const Request& request, const OpInfo& info, const OpArguments& takes) {
  const std::size_t tensors = request.inputs.size();
  const std::size_t numbers = request.scalars.size();
  const std::size_t integers = request.integers.size();
  const std::string name = info.name;
  if (tensors < takes.least_tensors || tensors > takes.most_tensors) {
    throw InvalidArgument("inputs", name + " of " + counted(tensors, "tensor"),
                          "give " + range_text(takes.least_tensors, takes.most_tensors, "tensor"));
  }
  if (takes.numbers_last && tensors + numbers < takes.most_tensors) {
    throw InvalidArgument("inputs", name + " needs " + std::to_string(takes.most_tensors) + " operands",
                          "give tensors, or numbers for the last ones");
  }
  const auto most = takes.numbers_last ? static_cast<unsigned>(takes.most_tensors - tensors) : takes.numbers;
  if (numbers > most) {
    throw InvalidArgument("numbers", name + " of " + counted(tensors, "tensor") + " with " + counted(numbers, "number"),
                          accepted_numbers(info, most, "number"));
  }
  if (integers > takes.integers) {
    throw InvalidArgument("integers", name + " with " + counted(integers, "integer"),
                          accepted_numbers(info, takes.integers, "integer"));
  }
}

// Indices are of a type of their own, which their operation looks at.
bool is_index(Op op, std::size_t input) {
  return (op == Op::Embedding && input == 1) || (op == Op::IndexCopy && input == 0);
}

void require_formats(const Request& request, const OpInfo& info) {
  const Types types = types_of(request.op);
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorForm& form = request.inputs[i];
    if (is_index(request.op, i) || takes(types, form.layout.device_dtype)) continue;
    throw InvalidArgument("dtype",
                          std::string(info.name) + " of a tensor of " + std::string(name(form.base.dtype)) +
                              ", which is " + std::string(name(form.layout.device_dtype)) + " on the card (input " +
                              std::to_string(i) + ")",
                          "give " + text_of(types) + "; copy() with Options::out converts on the card");
  }
}

}  // namespace

OpArguments arguments_of(Op op) {
  const OpInfo& info = info_of(op);
  OpArguments takes{.least_tensors = info.tensors, .most_tensors = info.tensors};
  switch (op) {
    case Op::Clip:
    case Op::Softplus: takes.numbers = 2; return takes;
    case Op::TopK: takes.integers = 3; return takes;
    case Op::Softmax: takes.integers = 1; return takes;
    case Op::Cat: takes.least_tensors = takes.integers = 1; return takes;
    case Op::Attention: takes.numbers = takes.integers = 1; return takes;
    case Op::LayerNorm:
    case Op::RmsNorm: takes.least_tensors = takes.numbers = 1; return takes;
    case Op::Linear: takes.least_tensors = 2; return takes;
    case Op::LinearFp8: takes.least_tensors = takes.numbers = 2; return takes;
    case Op::AvgPool2d:
    case Op::MaxPool2d: takes.integers = 9; return takes;
    case Op::Conv2d:
      takes.least_tensors = 2;
      takes.integers = 7;
      return takes;
    default: break;
  }
  if (info.family == Family::Reduction) takes.integers = kAnyNumber;
  const bool elements = info.family == Family::Elementwise || info.family == Family::Comparison;
  if (elements && info.tensors > 1) {
    takes.least_tensors = 1;
    takes.numbers = info.tensors - 1;
    takes.numbers_last = true;
  }
  return takes;
}

Types types_of(Op op) {
  const OpInfo& info = info_of(op);
  if (info.family == Family::Movement) return Types::Any;
  return info.fp32 ? Types::Compute : Types::Dl16;
}

bool takes(Types types, DeviceType device_dtype) {
  if (types == Types::Any || device_dtype == DeviceType::Dl16) return true;
  return types == Types::Compute && device_dtype == DeviceType::Fp32;
}

std::string text_of(Types types) {
  switch (types) {
    case Types::Any: return "any type";
    case Types::Compute: return "float16, bfloat16, bool or float32";
    case Types::Dl16: break;
  }
  return "float16, bfloat16, bool, or float32 with device_dtype Dl16";
}

void require_arguments(const Request& request) {
  const OpInfo& info = info_of(request.op);
  require_counts(request, info, arguments_of(request.op));
  require_formats(request, info);
  if (request.out) require_out_memory(request.op, *request.out);
}

void require_out_memory(Op op, const TensorForm& out) {
  if (op == Op::TopK) {
    throw InvalidArgument("out", std::string(info_of(op).name) + " has two results",
                          "give no out, and copy what it returns");
  }
  if (is_contiguous(out.view) || !elements_overlap(out.view.size, out.view.stride)) return;
  throw InvalidArgument("out",
                        "a view of " + to_string(out.view.size) + " with strides " + to_string(out.view.stride) +
                            ", which names elements more than once",
                        "give a tensor that has an element for each of the result's");
}

}  // namespace svp::ops
