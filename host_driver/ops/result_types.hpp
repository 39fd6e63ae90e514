// SPDX-License-Identifier: Apache-2.0
// Of which type the result of an operation is, and which types it takes: PyTorch's rules of promotion. Tensors of one
// dimension or more decide; one without dimensions, and then a number, decides only where they are of a lower kind
// (bool, integers, floating point).
#pragma once

#include <optional>
#include <span>

#include "host_driver/ops/lowering.hpp"

namespace svp::ops {

// The smallest type that both can be converted to: of two floating-point types float32, of uint8 and int8 int16.
DataType promoted(DataType a, DataType b);

struct ResultType {
  DataType dtype;
  DeviceType device;
};
// Of an element-wise operation on these operands, and on numbers.
ResultType result_type(std::span<const Value* const> operands, bool numbers);

// Throws InvalidArgument ("dtype") for types that PyTorch's operation does not take.
void require_types(const Request& request);
// Throws InvalidArgument ("out") where a result of one kind is to go into a tensor of a lower one.
void require_out(DataType result, DataType out);

}  // namespace svp::ops
