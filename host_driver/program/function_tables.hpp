// SPDX-License-Identifier: Apache-2.0
// The functions of device programs (Opcode::Exp … Softplus). On DL16 a program brings a function as a table of its
// results for all 65 536 codes; this is the one place that makes tables. They are correctly rounded: each entry is the
// DL16 nearest to the exact value, ties away from zero (docs/numerics.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/device_program.hpp"
#include "shared/dl16.hpp"

namespace svp::program {

// Softplus has two constants: beta * x > threshold gives x, else ln(1 + e^(beta * x)) / beta. Others do not look at
// them.
struct FunctionConstants {
  float beta = wire::program::kTableBeta;
  float threshold = wire::program::kTableThreshold;
  friend bool operator==(const FunctionConstants&, const FunctionConstants&) = default;
};
// True: wire::program::Base::Tables has the table, and a program needs none of its own.
constexpr bool in_all_tables(wire::program::Opcode function, FunctionConstants constants) {
  return wire::program::is_function(function) &&
         (function != wire::program::Opcode::Softplus || constants == FunctionConstants{});
}
FunctionConstants constants_of(const wire::program::Operation& operation);
// Beta and threshold; those by default when there are not two.
FunctionConstants constants_of(std::span<const float> constants);

// All of these throw InvalidArgument for an opcode that is no function.
wire::Dl16 function_dl16(wire::program::Opcode function, wire::Dl16 x, FunctionConstants constants = {});
// Entry i is the function of the code i.
std::vector<wire::Dl16> function_table(wire::program::Opcode function, FunctionConstants constants = {});
// Evaluated in fp64, as accurate as the C library of this machine.
double function_fp64(wire::program::Opcode function, double x, FunctionConstants constants = {});

}  // namespace svp::program
