// SPDX-License-Identifier: Apache-2.0
#include "host_driver/program/function_tables.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "host_driver/base/error.hpp"

namespace svp::program {
namespace {

using wire::program::Opcode;

template <typename Real>
Real sigmoid(Real x) {
  return 1 / (1 + std::exp(-x));
}

// 1 + tanh(z) is 2 * sigmoid(2z): no cancellation where it is small.
template <typename Real>
Real gelu(Real x) {
  const Real scale = std::sqrt(2 * std::numbers::inv_pi_v<Real>);
  const Real z = scale * (x + static_cast<Real>(44715) / 1000000 * x * x * x);
  return x * sigmoid(2 * z);
}

// ln(1 + e^s) is s itself long before e^s is infinite.
template <typename Real>
Real softplus(Real x, FunctionConstants constants) {
  const Real beta = static_cast<Real>(constants.beta);
  const Real scaled = beta * x;
  if (std::isnan(scaled)) return scaled;
  return scaled > static_cast<Real>(constants.threshold) || scaled > 700 ? x : std::log1p(std::exp(scaled)) / beta;
}

template <typename Real>
Real evaluate(Opcode function, Real x, FunctionConstants constants) {
  switch (function) {
    case Opcode::Exp: return std::exp(x);
    case Opcode::Log: return std::log(x);
    case Opcode::Sqrt: return std::sqrt(x);
    case Opcode::Rsqrt: return 1 / std::sqrt(x);
    case Opcode::Reciprocal: return 1 / x;
    case Opcode::Sigmoid: return sigmoid(x);
    case Opcode::Tanh: return std::tanh(x);
    case Opcode::Silu: return x * sigmoid(x);
    case Opcode::Gelu: return gelu(x);
    case Opcode::Softplus: return softplus(x, constants);
    default: break;
  }
  throw InvalidArgument("function", "opcode " + std::to_string(static_cast<unsigned>(function)) + " is no function",
                        "name one of the opcodes from Exp to Softplus");
}

// One rounding from the 64 significant bits of a long double: going through fp64 would be two.
wire::Dl16 round_to_dl16(long double value) {
  static_assert(std::numeric_limits<long double>::digits >= 64);
  if (std::isnan(value)) return wire::kDl16Nan;
  int exponent = 0;
  const long double scaled = std::frexp(std::fabs(value), &exponent) * 1024;  // ten bits before the point
  if (!std::isfinite(scaled)) return wire::dl16_from_fp64(static_cast<double>(value));
  long double kept = std::floor(scaled);
  if (scaled - kept >= 0.5L) kept += 1;
  const auto rounded = static_cast<double>(std::ldexp(kept, exponent - 10));  // exact, or beyond what DL16 has
  return wire::dl16_from_fp64(std::copysign(rounded, std::signbit(value) ? -1.0 : 1.0));
}

}  // namespace

FunctionConstants constants_of(std::span<const float> constants) {
  if (constants.size() != 2) return {};
  return {.beta = constants[0], .threshold = constants[1]};
}

FunctionConstants constants_of(const wire::program::Operation& operation) {
  return {std::bit_cast<float>(operation.constant[0]), std::bit_cast<float>(operation.constant[1])};
}

wire::Dl16 function_dl16(Opcode function, wire::Dl16 x, FunctionConstants constants) {
  return round_to_dl16(evaluate<long double>(function, wire::fp64_from_dl16(x), constants));
}

std::vector<wire::Dl16> function_table(Opcode function, FunctionConstants constants) {
  constexpr unsigned kCodes = 65536;
  std::vector<wire::Dl16> table(kCodes);
  for (unsigned code = 0; code < kCodes; ++code) {
    table[code] = function_dl16(function, static_cast<wire::Dl16>(code), constants);
  }
  return table;
}

double function_fp64(Opcode function, double x, FunctionConstants constants) {
  return evaluate<double>(function, x, constants);
}

}  // namespace svp::program
