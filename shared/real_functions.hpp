// SPDX-License-Identifier: Apache-2.0
// The functions of device programs on FP32 (Opcode::Exp … Softplus), evaluated in fp64 by additions, multiplications,
// divisions and square roots alone, each rounded as IEEE 754 says: the same bits on every host and on the card. The
// error before the last rounding is below 2^-44 of the result, so that an FP32 result is the nearest number or, within
// 2^-20 of a unit of a tie, its neighbour (docs/numerics.md).
//
// No library function is used: the card has none. Nothing may be contracted into a fused multiply-add.
#pragma once

#include <bit>
#include <cstdint>

#include "shared/device_program.hpp"

namespace wire::real {

#pragma clang fp contract(off)

inline constexpr double kInfinity = __builtin_inf();
inline constexpr double kNotANumber = __builtin_nan("");
inline constexpr double kLn2High = 0x1.62e42fefa0000p-1;  // few enough bits that its products with exponents are exact
inline constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;

inline bool is_nan(double x) { return x != x; }
inline double magnitude(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & ~(std::uint64_t{1} << 63));
}
// 2^k for normal exponents.
inline double power_of_two(std::int64_t k) { return std::bit_cast<double>(static_cast<std::uint64_t>(k + 1023) << 52); }

inline double exp(double x) {
  if (is_nan(x)) return x;
  if (x > 709.0) return kInfinity;  // beyond FP32 long before
  if (x < -700.0) return 0.0;
  const double scaled = x * 0x1.71547652b82fep0;
  const auto k = static_cast<std::int64_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  const double exponent = static_cast<double>(k);
  const double rest = (x - exponent * kLn2High) - exponent * kLn2Low;  // at most 0.35
  double sum = 1.0;
  for (int term = 14; term > 0; --term) sum = 1.0 + rest / static_cast<double>(term) * sum;
  return sum * power_of_two(k);
}

// x is finite and above 0.
inline double log_of_positive(double x) {
  std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  std::int64_t exponent = 0;
  if (bits >> 52 == 0) {  // subnormal
    bits = std::bit_cast<std::uint64_t>(x * 0x1p54);
    exponent = -54;
  }
  exponent += static_cast<std::int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFu) | std::uint64_t{1023} << 52);  // 1 … 2
  if (m > 0x1.6a09e667f3bcdp0) {
    m *= 0.5;
    ++exponent;
  }
  const double f = (m - 1.0) / (m + 1.0);  // at most 0.172: log m = 2 (f + f³/3 + f⁵/5 + …)
  const double square = f * f;
  double sum = 0.0;
  for (int term = 23; term > 0; term -= 2) sum = 1.0 / static_cast<double>(term) + square * sum;
  const double e = static_cast<double>(exponent);
  return e * kLn2High + (2.0 * f * sum + e * kLn2Low);
}

inline double log(double x) {
  if (is_nan(x) || x == kInfinity) return x;
  if (x == 0.0) return -kInfinity;
  return x < 0.0 ? kNotANumber : log_of_positive(x);
}

// log(1 + y) for y above -1, without the loss of small y in 1 + y.
inline double log_one_plus(double y) {
  const double u = 1.0 + y;
  if (u == 1.0 || u == kInfinity) return y;
  return log_of_positive(u) * (y / (u - 1.0));
}

inline double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

inline double tanh(double x) {
  if (is_nan(x)) return x;
  const double a = magnitude(x);
  if (a < 0x1p-5) {
    const double s = x * x;
    return x * (1.0 + s * (-1.0 / 3.0 + s * (2.0 / 15.0 + s * (-17.0 / 315.0 + s * (62.0 / 2835.0)))));
  }
  if (a > 30.0) return x < 0 ? -1.0 : 1.0;
  const double power = exp(2.0 * a);
  const double t = 1.0 - 2.0 / (power + 1.0);
  return x < 0 ? -t : t;
}

// NaN of −∞, as in PyTorch: −∞ · 0.
inline double gated(double x, double y) { return x * sigmoid(y); }

// x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), which is x · sigmoid of twice that argument.
inline double gelu(double x) {
  constexpr double kTwiceRoot = 0x1.9884533d43651p0;  // 2 √(2/π)
  return gated(x, kTwiceRoot * (x + 0.044715 * x * x * x));
}

inline double softplus(double x, double beta, double threshold) {
  const double scaled = beta * x;
  // ln(1 + e^s) is s itself long before e^s is infinite.
  return scaled > threshold || scaled > 700.0 ? x : log_one_plus(exp(scaled)) / beta;
}

// Before the rounding to FP32. Opcodes that are no functions give NaN.
inline double evaluate(program::Opcode function, double x, double first_constant, double second_constant) {
  using program::Opcode;
  switch (function) {
    case Opcode::Exp: return exp(x);
    case Opcode::Log: return log(x);
    case Opcode::Sqrt: return __builtin_sqrt(x);
    case Opcode::Rsqrt: return 1.0 / __builtin_sqrt(x);
    case Opcode::Reciprocal: return 1.0 / x;
    case Opcode::Sigmoid: return sigmoid(x);
    case Opcode::Tanh: return tanh(x);
    case Opcode::Silu: return gated(x, x);
    case Opcode::Gelu: return gelu(x);
    case Opcode::Softplus: return softplus(x, first_constant, second_constant);
    default: return kNotANumber;
  }
}

inline constexpr std::uint32_t kFp32Nan = 0x7FC00000;

inline std::uint32_t evaluate_fp32(program::Opcode function, std::uint32_t x, std::uint32_t first_constant,
                                   std::uint32_t second_constant) {
  const auto wide = [](std::uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits)); };
  const double result = evaluate(function, wide(x), wide(first_constant), wide(second_constant));
  return is_nan(result) ? kFp32Nan : std::bit_cast<std::uint32_t>(static_cast<float>(result));
}

}  // namespace wire::real
