// SPDX-License-Identifier: Apache-2.0
#include "shared/dl16.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace {

using wire::Dl16;

// Nearest code by search among all magnitudes, independent of the bit tricks. 2^-31 takes part as the neighbour that
// zero stands for; from the middle behind the largest number on it is infinity.
Dl16 nearest_by_search(double value) {
  const Dl16 sign = std::signbit(value) ? wire::kDl16SignBit : 0;
  if (std::isnan(value)) return static_cast<Dl16>(sign | wire::kDl16Nan);
  if (std::isinf(value)) return static_cast<Dl16>(sign | wire::kDl16Infinity);
  const double magnitude = std::fabs(value);
  const auto position = [](int code) { return std::ldexp(1 + (code & 0x1FF) / 512.0, (code >> 9) - 31); };
  if (magnitude < position(0)) return sign;
  int low = 0;
  int high = 0x7FFE;
  if (magnitude >= position(high)) return static_cast<Dl16>(sign | wire::kDl16Infinity);
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (position(middle) <= magnitude ? low : high) = middle;
  }
  const bool up = magnitude - position(low) >= position(high) - magnitude;
  const int code = up ? high : low;
  return static_cast<Dl16>(sign | (code == 0x7FFE ? wire::kDl16Infinity : code));
}

bool fp16_is_nan(std::uint16_t bits) { return (bits & 0x7FFF) > 0x7C00; }
bool fp16_is_infinite(std::uint16_t bits) { return (bits & 0x7FFF) == 0x7C00; }

double fp16_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int fraction = bits & 0x3FF;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Dl16, EveryCodeSurvivesEveryWiderFormat) {
  for (int code = 0; code <= 0xFFFF; ++code) {
    const auto value = static_cast<Dl16>(code);
    EXPECT_EQ(wire::dl16_from_fp32(wire::fp32_from_dl16(value)), value);
    EXPECT_EQ(wire::dl16_from_fp64(wire::fp64_from_dl16(value)), value);
    if (!wire::dl16_is_nan(value)) {
      EXPECT_EQ(static_cast<double>(wire::fp32_from_dl16(value)), wire::fp64_from_dl16(value));
    }
  }
}

TEST(Dl16, PartsAreTheValue) {
  for (int code = 0; code <= 0xFFFF; ++code) {
    const auto value = static_cast<Dl16>(code);
    if (!wire::dl16_is_finite(value)) continue;
    const wire::Dl16Parts parts = wire::dl16_parts(value);
    EXPECT_EQ(std::ldexp(parts.significand, parts.exponent + wire::kDl16UnitExponent), wire::fp64_from_dl16(value));
  }
}

TEST(Dl16, OrderOfCodesIsOrderOfValues) {
  for (int code = 1; code < wire::kDl16Nan; ++code) {
    EXPECT_LT(wire::fp64_from_dl16(static_cast<Dl16>(code - 1)), wire::fp64_from_dl16(static_cast<Dl16>(code)));
  }
}

TEST(Dl16, RoundsToNearestWithTiesAwayAroundEveryCode) {
  for (int code = 0; code < wire::kDl16Nan; ++code) {
    const double here = std::ldexp(1 + (code & 0x1FF) / 512.0, (code >> 9) - 31);
    const double tie = std::ldexp(1 + ((code & 0x1FF) + 0.5) / 512.0, (code >> 9) - 31);
    const double candidates[] = {here, std::nextafter(here, 0.0), tie, std::nextafter(tie, 0.0),
                                 std::nextafter(tie, 1e300)};
    for (const double value : candidates) {
      ASSERT_EQ(wire::dl16_from_fp64(value), nearest_by_search(value)) << value;
      ASSERT_EQ(wire::dl16_from_fp64(-value), nearest_by_search(-value)) << value;
      const auto single = static_cast<float>(value);
      ASSERT_EQ(wire::dl16_from_fp32(single), nearest_by_search(single)) << single;
    }
  }
}

TEST(Dl16, RandomFp32AndFp64RoundLikeTheSearch) {
  std::mt19937_64 random(20261121);
  for (int i = 0; i < 200'000; ++i) {
    const auto single = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(single)) {
      ASSERT_EQ(wire::dl16_from_fp32(single), nearest_by_search(single)) << single;
    }
    const double wide = std::ldexp(std::bit_cast<double>(random() >> 12 | std::uint64_t{1023} << 52),
                                   static_cast<int>(random() % 70) - 34);
    ASSERT_EQ(wire::dl16_from_fp64(wide), nearest_by_search(wide)) << wide;
  }
}

TEST(Dl16, NoDoubleRoundingFromFp64) {
  // Just below a tie, by less than fp32 can show: through fp32 it would become the tie and go up.
  EXPECT_EQ(wire::dl16_from_fp64(1 + 1.0 / 1024 - 0x1p-40), 0x3E00);
  EXPECT_EQ(wire::dl16_from_fp64(1 + 1.0 / 1024), 0x3E01);
}

TEST(Dl16, EndsOfTheRange) {
  EXPECT_EQ(wire::dl16_from_fp64(8564768768.0), wire::kDl16Max);
  EXPECT_EQ(wire::dl16_from_fp64(std::nextafter(8568963072.0, 0.0)), wire::kDl16Max);  // half a unit above the largest
  EXPECT_EQ(wire::dl16_from_fp64(8568963072.0), wire::kDl16Infinity);
  EXPECT_EQ(wire::dl16_from_fp32(std::numeric_limits<float>::max()), wire::kDl16Infinity);
  EXPECT_EQ(wire::dl16_from_fp32(-std::numeric_limits<float>::max()), 0xFFFF);
  EXPECT_EQ(wire::dl16_from_fp64(std::numeric_limits<double>::infinity()), wire::kDl16Infinity);
  EXPECT_EQ(wire::dl16_from_fp64(-std::numeric_limits<double>::infinity()), 0xFFFF);
  EXPECT_EQ(wire::dl16_from_fp64(std::numeric_limits<double>::denorm_min()), 0x0000);
  EXPECT_EQ(wire::dl16_from_fp32(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

TEST(Dl16, EveryFp16RoundsLikeItsValue) {
  for (int code = 0; code <= 0xFFFF; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    const Dl16 sign = static_cast<Dl16>(bits & 0x8000);
    Dl16 expected = static_cast<Dl16>(nearest_by_search(fp16_value(bits)) | sign);
    if (fp16_is_infinite(bits)) expected = static_cast<Dl16>(sign | wire::kDl16Infinity);
    if (fp16_is_nan(bits)) expected = static_cast<Dl16>(sign | wire::kDl16Nan);
    ASSERT_EQ(wire::dl16_from_fp16(bits), expected) << code;
  }
}

TEST(Dl16, Fp16SubnormalsAndZerosRoundTripExactly) {
  for (int code = 0; code < 0x0400; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    EXPECT_EQ(wire::fp16_from_dl16(wire::dl16_from_fp16(bits)), bits);
    const auto negative = static_cast<std::uint16_t>(bits | 0x8000);
    EXPECT_EQ(wire::fp16_from_dl16(wire::dl16_from_fp16(negative)), negative);
  }
}

TEST(Dl16, Fp16NumbersWithNineFractionBitsRoundTripExactly) {
  for (int code = 0x0400; code < 0x7C00; code += 2) {
    const auto bits = static_cast<std::uint16_t>(code);
    EXPECT_EQ(wire::fp16_from_dl16(wire::dl16_from_fp16(bits)), bits);
  }
  EXPECT_EQ(wire::fp16_from_dl16(wire::dl16_from_fp16(wire::kFp16Max)), wire::kFp16Max);
}

TEST(Dl16, InfinitiesAndNanComeBackFromTheCardAsTheyWere) {
  for (const unsigned code : {0x7C00u, 0xFC00u, 0x7E00u, 0xFE00u}) {
    const auto bits = static_cast<std::uint16_t>(code);
    EXPECT_EQ(wire::fp16_from_dl16(wire::dl16_from_fp16(bits)), bits);
    const std::uint32_t single = wire::fp32_bits_from_fp16(bits);
    EXPECT_EQ(wire::fp32_bits_from_dl16(wire::dl16_from_fp32_bits(single)), single);
    const auto half = static_cast<std::uint16_t>(single >> 16);
    EXPECT_EQ(wire::fp32_bits_from_dl16(wire::dl16_from_bf16(half)), single);
  }
}

TEST(Dl16, IntoFp16IsNearestEvenAndInfiniteBeyondItsRange) {
  for (int code = 0; code <= 0x7FFF; ++code) {
    const auto value = static_cast<Dl16>(code);
    const std::uint16_t bits = wire::fp16_from_dl16(value);
    ASSERT_EQ(wire::fp16_from_dl16(static_cast<Dl16>(value | 0x8000)), bits | 0x8000);
    if (wire::dl16_is_nan(value)) {
      ASSERT_EQ(bits, 0x7E00);
      continue;
    }
    const double exact = wire::fp64_from_dl16(value);
    if (exact >= 65504) {
      ASSERT_EQ(bits, exact == 65536 ? wire::kFp16Max : wire::kFp16Infinity) << code;
      continue;
    }
    const double error = std::fabs(fp16_value(bits) - exact);
    const double above = std::fabs(fp16_value(static_cast<std::uint16_t>(bits + 1)) - exact);
    ASSERT_TRUE(error < above || (error == above && (bits & 1) == 0)) << code;
    if (bits > 0) {
      const double below = std::fabs(fp16_value(static_cast<std::uint16_t>(bits - 1)) - exact);
      ASSERT_TRUE(error < below || (error == below && (bits & 1) == 0)) << code;
    }
  }
}

TEST(Dl16, Bf16GoesThroughTheSameRounding) {
  for (int code = 0; code <= 0xFFFF; ++code) {
    const auto single = std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16);
    if (std::isnan(single)) {
      ASSERT_EQ(wire::dl16_from_bf16(static_cast<std::uint16_t>(code)) & 0x7FFF, wire::kDl16Nan);
    } else {
      ASSERT_EQ(wire::dl16_from_bf16(static_cast<std::uint16_t>(code)), nearest_by_search(single));
    }
  }
}

}  // namespace
