// SPDX-License-Identifier: Apache-2.0
#include "host_driver/program/golden/numbers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "shared/dl16.hpp"

namespace svp::program::golden {
namespace {

using wire::program::Format;

constexpr std::uint32_t kFp32Nan = 0x7FC00000;
constexpr std::uint32_t kFp8SignBit = 0x80;
constexpr std::uint32_t kFp8Nan = 0x7F;       // of both formats: what PyTorch writes
constexpr std::uint32_t kE4m3Largest = 0x7E;  // 448: what infinity and larger numbers become
constexpr std::uint32_t kE5m2Infinity = 0x7C;

struct Fp8Shape {
  int fraction_bits;
  int bias;
};
constexpr Fp8Shape shape_of(Format format) { return format == Format::Fp8E4m3 ? Fp8Shape{3, 7} : Fp8Shape{2, 15}; }

double value_of_fp8(Format format, std::uint32_t bits) {
  const auto [fraction_bits, bias] = shape_of(format);
  const double sign = (bits & kFp8SignBit) != 0 ? -1 : 1;
  const std::uint32_t magnitude = bits & 0x7F;
  if (format == Format::Fp8E4m3 ? magnitude == kFp8Nan : magnitude > kE5m2Infinity) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (format == Format::Fp8E5m2 && magnitude == kE5m2Infinity) return sign * std::numeric_limits<double>::infinity();
  const int field = static_cast<int>(magnitude >> fraction_bits);
  const int fraction = static_cast<int>(magnitude) & ((1 << fraction_bits) - 1);
  const int significand = field == 0 ? fraction : fraction + (1 << fraction_bits);
  return sign * std::ldexp(significand, std::max(field, 1) - bias - fraction_bits);
}

// The codes of one sign are in order of their values, so rounding up to the next code is adding one.
std::uint32_t fp8_from(Format format, double value) {
  if (std::isnan(value)) return kFp8Nan;
  const auto [fraction_bits, bias] = shape_of(format);
  const std::uint32_t sign = std::signbit(value) ? kFp8SignBit : 0;
  const std::uint32_t overflow = format == Format::Fp8E4m3 ? kE4m3Largest : kE5m2Infinity;
  const double magnitude = std::fabs(value);
  if (magnitude >= 0x1p17) return sign | overflow;
  const int smallest = 1 - bias;
  const int exponent = magnitude == 0 ? smallest : std::max(std::ilogb(magnitude), smallest);
  const double units = std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent));  // to even
  const auto code = static_cast<std::uint32_t>(((exponent - smallest) << fraction_bits) + static_cast<int>(units));
  return sign | std::min(code, overflow);
}

template <typename Integer>
std::uint32_t integer_from(double value) {
  if (std::isnan(value)) return 0;
  constexpr double kLow = std::numeric_limits<Integer>::min();
  constexpr double kHigh = std::numeric_limits<Integer>::max();
  return static_cast<std::uint32_t>(static_cast<Integer>(std::clamp(std::trunc(value), kLow, kHigh)));
}

}  // namespace

double value_of(Format format, std::uint32_t bits) {
  switch (format) {
    case Format::Dl16: return wire::fp64_from_dl16(static_cast<wire::Dl16>(bits));
    case Format::Fp32: return std::bit_cast<float>(bits);
    case Format::Int32: return static_cast<std::int32_t>(bits);
    case Format::Int16: return static_cast<std::int16_t>(bits);
    case Format::Int8: return static_cast<std::int8_t>(bits);
    case Format::Uint32: return bits;
    case Format::Fp8E4m3:
    case Format::Fp8E5m2: return value_of_fp8(format, bits);
  }
  return 0;
}

std::uint32_t bits_of(Format format, double value) {
  switch (format) {
    case Format::Dl16: return std::isnan(value) ? wire::kDl16Nan : wire::dl16_from_fp64(value);
    case Format::Fp32: return std::isnan(value) ? kFp32Nan : std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case Format::Int32: return integer_from<std::int32_t>(value);
    case Format::Int16: return integer_from<std::int16_t>(value);
    case Format::Int8: return integer_from<std::int8_t>(value);
    case Format::Uint32: return integer_from<std::uint32_t>(value);
    case Format::Fp8E4m3:
    case Format::Fp8E5m2: return fp8_from(format, value);
  }
  return 0;
}

float fp32_of(Format format, std::uint32_t bits) {
  return format == Format::Dl16 ? wire::fp32_from_dl16(static_cast<wire::Dl16>(bits)) : std::bit_cast<float>(bits);
}

std::uint32_t bits_of(Format format, float value) { return bits_of(format, static_cast<double>(value)); }

}  // namespace svp::program::golden
