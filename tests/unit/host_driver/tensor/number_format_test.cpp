// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/number_format.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "shared/dl16.hpp"

namespace svp {
namespace {

using enum NumberFormat;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(NumberFormat, Dl16HasThePublishedCodes) {
  EXPECT_EQ(code_of(Dl16, 1.0), 0x3E00u);
  EXPECT_EQ(code_of(Dl16, -1.0), 0xBE00u);
  EXPECT_EQ(code_of(Dl16, 0.5), 0x3C00u);
  EXPECT_EQ(code_of(Dl16, 3.14), 0x4124u);
  EXPECT_EQ(code_of(Dl16, 65504), 0x5E00u);
  EXPECT_EQ(code_of(Dl16, 0x1p-14), 0x2200u);
  EXPECT_EQ(code_of(Dl16, 0x1p-24), 0x0E00u);
  EXPECT_EQ(code_of(Dl16, 1 + 1.0 / 1024), 0x3E01u);
  EXPECT_EQ(code_of(Dl16, 1.9990234375), 0x4000u);
  EXPECT_EQ(code_of(Dl16, 0x1p32), 0x7E00u);
  EXPECT_EQ(code_of(Dl16, -0.0), 0x8000u);
  EXPECT_EQ(code_of(Dl16, kInfinity), 0x7FFFu);
  EXPECT_EQ(code_of(Dl16, -kInfinity), 0xFFFFu);
  EXPECT_EQ(code_of(Dl16, kNan), 0x7FFEu);
}

TEST(NumberFormat, EveryCodeOfEveryFormatSurvivesARoundTrip) {
  for (const NumberFormat format : {Dl16, Fp16, Bf16, Fp8E4m3, Fp8E5m2}) {
    for (std::uint32_t code = 0; code < std::uint32_t{1} << bits_of(format); ++code) {
      const double value = value_of(format, code);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(value_of(format, code_of(format, value)))) << name(format) << ' ' << code;
      } else {
        EXPECT_EQ(code_of(format, value), code) << name(format);
      }
    }
  }
}

TEST(NumberFormat, NumbersBetweenTwoCodesGoToTheNearerOne) {
  for (const NumberFormat format : {Fp16, Bf16, Fp8E4m3, Fp8E5m2}) {
    const std::uint32_t codes = std::uint32_t{1} << (bits_of(format) - 1);
    for (std::uint32_t code = 0; code + 1 < codes; ++code) {
      const double low = value_of(format, code);
      const double high = value_of(format, code + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) break;
      const double middle = low + (high - low) / 2;
      EXPECT_EQ(code_of(format, middle), code % 2 == 0 ? code : code + 1) << name(format) << ": a tie goes to even";
      EXPECT_EQ(code_of(format, std::nextafter(middle, low)), code) << name(format);
      EXPECT_EQ(code_of(format, std::nextafter(middle, high)), code + 1) << name(format);
    }
  }
}

TEST(NumberFormat, Fp32AgreesWithTheProcessor) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (std::isnan(value)) continue;
    EXPECT_EQ(code_of(Fp32, value), std::bit_cast<std::uint32_t>(static_cast<float>(value))) << value;
  }
  for (const double value : {0x1p-149, 0x1p-150, 0x1.8p-149, 0x1.ffffffp127, 0x1.fffffe8p127, 3e39}) {
    EXPECT_EQ(code_of(Fp32, value), std::bit_cast<std::uint32_t>(static_cast<float>(value))) << value;
  }
}

TEST(NumberFormat, TooLargeIsInfinityOrTheLargestNumber) {
  EXPECT_EQ(code_of(Fp16, 65519.99), 0x7BFFu);
  EXPECT_EQ(code_of(Fp16, 65520), 0x7C00u);
  EXPECT_EQ(code_of(Fp16, -1e9), 0xFC00u);
  EXPECT_EQ(code_of(Fp8E4m3, 448), 0x7Eu);
  EXPECT_EQ(code_of(Fp8E4m3, 463.9), 0x7Eu);
  EXPECT_EQ(code_of(Fp8E4m3, 465), 0x7Eu);
  EXPECT_EQ(code_of(Fp8E4m3, 480), 0x7Eu);
  EXPECT_EQ(code_of(Fp8E4m3, 1e300), 0x7Eu);
  EXPECT_EQ(code_of(Fp8E4m3, -kInfinity), 0xFEu);
  EXPECT_EQ(code_of(Fp8E4m3, kNan), 0x7Fu);
  EXPECT_EQ(code_of(Fp8E5m2, 61440), 0x7Cu);
  EXPECT_EQ(code_of(Bf16, kInfinity), 0x7F80u);
  EXPECT_EQ(code_of(Fp8E5m2, kNan), 0x7Fu);
}

TEST(NumberFormat, TooSmallIsZeroWithItsSign) {
  EXPECT_EQ(code_of(Fp16, 0x1p-25), 0u);
  EXPECT_EQ(code_of(Fp16, 0x1.1p-25), 1u);
  EXPECT_EQ(code_of(Fp8E4m3, -0x1p-10), 0x80u);
  EXPECT_EQ(code_of(Dl16, -0x1p-31), 0x8000u);
}

TEST(NumberFormat, NamesAreFoundAgain) {
  for (const NumberFormat format : {Dl16, Fp16, Bf16, Fp32, Fp8E4m3, Fp8E5m2}) {
    EXPECT_EQ(number_format_named(name(format)), format);
  }
  EXPECT_FALSE(number_format_named("fp64"));
}

}  // namespace
}  // namespace svp
