// SPDX-License-Identifier: Apache-2.0
// The FP32 functions against the C library in long double.
#include "shared/real_functions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace wire {
namespace {

using program::Opcode;

struct Constants {
  float beta = 1;
  float threshold = 20;
};

long double exact(Opcode function, long double x, Constants constants = {}) {
  switch (function) {
    case Opcode::Exp: return std::exp(x);
    case Opcode::Log: return std::log(x);
    case Opcode::Sqrt: return std::sqrt(x);
    case Opcode::Rsqrt: return 1 / std::sqrt(x);
    case Opcode::Reciprocal: return 1 / x;
    case Opcode::Sigmoid: return 1 / (1 + std::exp(-x));
    case Opcode::Tanh: return std::tanh(x);
    case Opcode::Silu: return x / (1 + std::exp(-x));
    case Opcode::Gelu: {
      const long double u =
          2 * std::sqrt(2 / std::numbers::pi_v<long double>) * (x + static_cast<long double>(0.044715) * x * x * x);
      return x / (1 + std::exp(-u));
    }
    case Opcode::Softplus: {
      const long double scaled = constants.beta * x;
      return scaled > constants.threshold ? x : std::log1p(std::exp(scaled)) / constants.beta;
    }
    default: return 0;
  }
}

constexpr Opcode kFunctions[] = {Opcode::Exp,     Opcode::Log,  Opcode::Sqrt, Opcode::Rsqrt, Opcode::Reciprocal,
                                 Opcode::Sigmoid, Opcode::Tanh, Opcode::Silu, Opcode::Gelu,  Opcode::Softplus};

class RealFunctions : public testing::TestWithParam<Opcode> {};

// The largest error in units of the last place, over numbers of every size.
double worst_error(Opcode function, Constants constants) {
  double worst = 0;
  for (std::uint64_t i = 0; i < 400'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(i * 0x9E3779B97F4A7C15u >> 32);
    const float x = std::bit_cast<float>(bits);
    if (std::isnan(x) || std::isinf(x)) continue;
    const std::uint32_t got_bits = real::evaluate_fp32(function, bits, std::bit_cast<std::uint32_t>(constants.beta),
                                                       std::bit_cast<std::uint32_t>(constants.threshold));
    const float got = std::bit_cast<float>(got_bits);
    const long double wanted = exact(function, x, constants);
    if (std::isnan(wanted)) {
      EXPECT_EQ(got_bits, real::kFp32Nan) << x;
      continue;
    }
    const float nearest = static_cast<float>(wanted);
    if (std::isinf(nearest) || std::isinf(got) || nearest == 0) {
      EXPECT_EQ(got, nearest) << x;
      continue;
    }
    const double unit = std::max(std::ldexp(1.0, std::ilogb(nearest) - 23), 0x1p-149);
    worst = std::max(worst, static_cast<double>(std::fabs(static_cast<long double>(got) - wanted)) / unit);
  }
  return worst;
}

TEST_P(RealFunctions, AreWithinHalfAUnitOfTheExactResult) { EXPECT_LT(worst_error(GetParam(), {}), 0.5 + 0x1p-18); }

TEST(RealFunctionConstants, OfOtherConstantsAreWithinHalfAUnit) {
  for (const Constants constants : {Constants{0.5F, 20}, Constants{50, 20}, Constants{0.7F, 5}, Constants{-2, 30}}) {
    EXPECT_LT(worst_error(Opcode::Softplus, constants), 0.5 + 0x1p-18) << constants.beta;
  }
}

TEST_P(RealFunctions, OfSpecialValuesAreWhatPyTorchGives) {
  const auto of = [](float x) {
    return std::bit_cast<float>(real::evaluate_fp32(GetParam(), std::bit_cast<std::uint32_t>(x),
                                                    std::bit_cast<std::uint32_t>(1.0F),
                                                    std::bit_cast<std::uint32_t>(20.0F)));
  };
  EXPECT_TRUE(std::isnan(of(NAN)));
  const float up = of(INFINITY);
  const float down = of(-INFINITY);
  switch (GetParam()) {
    case Opcode::Exp: EXPECT_TRUE(up == INFINITY && down == 0); break;
    case Opcode::Log:
      EXPECT_TRUE(up == INFINITY && std::isnan(down));
      EXPECT_EQ(of(-0.0F), -INFINITY);
      break;
    case Opcode::Sqrt: EXPECT_TRUE(up == INFINITY && std::isnan(down)); break;
    case Opcode::Rsqrt:
      EXPECT_TRUE(up == 0 && std::isnan(down));
      EXPECT_EQ(of(0.0F), INFINITY);
      break;
    case Opcode::Reciprocal:
      EXPECT_TRUE(up == 0 && down == 0 && std::signbit(down));
      EXPECT_EQ(of(-0.0F), -INFINITY);
      break;
    case Opcode::Sigmoid: EXPECT_TRUE(up == 1 && down == 0); break;
    case Opcode::Tanh: EXPECT_TRUE(up == 1 && down == -1); break;
    case Opcode::Silu:
    case Opcode::Gelu: EXPECT_TRUE(up == INFINITY && std::isnan(down)); break;
    default: EXPECT_TRUE(up == INFINITY && down == 0); break;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RealFunctions, testing::ValuesIn(kFunctions),
                         [](const auto& param) { return std::to_string(static_cast<unsigned>(param.param)); });

}  // namespace
}  // namespace wire
