// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/result_types.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "host_driver/base/error.hpp"

namespace svp::ops {
namespace {

enum class Kind : std::uint8_t { Bool, Integer, Floating };

Kind kind_of(DataType type) {
  switch (type) {
    case DataType::Bool: return Kind::Bool;
    case DataType::Int8:
    case DataType::Uint8:
    case DataType::Int16:
    case DataType::Int32:
    case DataType::Int64: return Kind::Integer;
    default: return Kind::Floating;
  }
}

constexpr std::array kWidest{DataType::Int64, DataType::Int32, DataType::Int16};

using Type = std::optional<DataType>;

Type joined(Type a, Type b) { return !a ? b : !b ? a : Type(promoted(*a, *b)); }

// `lower` counts where it is of a higher kind: a floating-point number beside a bool tensor.
Type over(Type higher, Type lower) {
  if (!higher || !lower) return higher ? higher : lower;
  return kind_of(*lower) > kind_of(*higher) ? joined(higher, lower) : higher;
}

bool is_bool(const TensorForm& form) { return form.base.dtype == DataType::Bool; }

// Operations that have no meaning, or no implementation, on bool tensors.
bool takes_bool(Op op) {
  switch (op) {
    case Op::Sub:
    case Op::Abs:
    case Op::Neg:
    case Op::Relu:
    case Op::Floor:
    case Op::Silu:
    case Op::Gelu:
    case Op::Softplus:
    case Op::Mean:
    case Op::TopK: return false;
    default: break;
  }
  const Family family = info_of(op).family;
  return family != Family::Product && family != Family::Norm && family != Family::Window;
}

}  // namespace

DataType promoted(DataType a, DataType b) {
  if (a == b) return a;
  if (kind_of(a) != kind_of(b)) return kind_of(a) > kind_of(b) ? a : b;
  if (kind_of(a) == Kind::Floating) return DataType::Float32;
  // Of two integer types the wider one; int16 holds all of uint8 and int8.
  const auto wider = std::ranges::find_if(kWidest, [&](DataType type) { return type == a || type == b; });
  return wider != kWidest.end() ? *wider : DataType::Int16;
}

ResultType result_type(std::span<const Value* const> operands, bool numbers) {
  Type tensors;
  Type scalars;
  for (const Value* operand : operands) {
    Type& of = operand->rank() == 0 ? scalars : tensors;
    of = joined(of, operand->form.base.dtype);
  }
  const Type number = numbers ? Type(DataType::Float32) : std::nullopt;
  const DataType dtype = *over(over(tensors, scalars), number);
  if (dtype != DataType::Float32) return {dtype, *default_device_type(dtype)};
  // float32 lies as its operands do: FP32 unless all that are floating-point are DL16.
  bool dl16 = false;
  bool fp32 = false;
  for (const Value* operand : operands) {
    if (kind_of(operand->form.base.dtype) != Kind::Floating) continue;
    (operand->form.layout.device_dtype == DeviceType::Dl16 ? dl16 : fp32) = true;
  }
  return {dtype, dl16 && !fp32 ? DeviceType::Dl16 : DeviceType::Fp32};
}

void require_types(const Request& request) {
  const OpInfo& info = info_of(request.op);
  if (std::ranges::any_of(request.inputs, is_bool) && !takes_bool(request.op)) {
    throw InvalidArgument("dtype", std::string(info.name) + " of bool tensors",
                          "copy them into a floating-point type: ops::copy() with out");
  }
  for (const TensorForm& form : request.inputs) {
    const DeviceType device = form.layout.device_dtype;
    if (info.family == Family::Movement || device == DeviceType::Dl16 || device == DeviceType::Fp32) continue;
    throw InvalidArgument("dtype", std::string(info.name) + " of " + std::string(name(form.base.dtype)),
                          "give bool, float16, bfloat16 or float32: ops::copy() with out converts on the card");
  }
  if (info.family != Family::Product && request.op != Op::Conv2d) return;
  for (const TensorForm& form : request.inputs) {
    if (form.base.dtype == request.inputs[0].base.dtype) continue;
    throw InvalidArgument("dtype",
                          std::string(info.name) + " of " + std::string(name(request.inputs[0].base.dtype)) + " and " +
                              std::string(name(form.base.dtype)),
                          "give tensors of one type: ops::copy() with out converts on the card");
  }
}

void require_out(DataType result, DataType out) {
  if (kind_of(result) <= kind_of(out)) return;
  throw InvalidArgument("out",
                        "a result of type " + std::string(name(result)) + " into a tensor of " + std::string(name(out)),
                        "give a tensor of its kind, or convert the result with ops::copy()");
}

}  // namespace svp::ops
