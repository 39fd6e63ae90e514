// SPDX-License-Identifier: Apache-2.0
// What the operations of operation_table.hpp take: how many tensors, numbers and integers, and of which types. What
// does not fit is refused before a program is made, by the name of the argument.
#pragma once

#include <string>

#include "host_driver/ops/lowering.hpp"

namespace svp::ops {

inline constexpr unsigned kAnyNumber = ~0U;  // as many as the tensor has dimensions

struct OpArguments {
  unsigned least_tensors = 1;
  unsigned most_tensors = 1;
  unsigned numbers = 0;       // at most
  unsigned integers = 0;      // at most
  bool numbers_last = false;  // each of the last tensors may be a number; then `numbers` says how many
};
OpArguments arguments_of(Op op);

enum class Types : std::uint8_t {
  Any,      // elements are moved, with a change of format where it is wanted
  Compute,  // DL16 and FP32
  Dl16,     // matrix products
};
Types types_of(Op op);
bool takes(Types types, DeviceType device_dtype);
std::string text_of(Types types);  // what a caller may give, for messages

// Throws InvalidArgument: "inputs", "numbers", "integers" (too many or too few), "dtype" (the message names the input),
// and what require_out_memory() does.
void require_arguments(const Request& request);
// Throws InvalidArgument ("out"): an operation with two results; a view that names an element twice.
void require_out_memory(Op op, const TensorForm& out);

}  // namespace svp::ops
