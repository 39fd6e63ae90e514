// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/number_format.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "shared/dl16.hpp"

namespace svp {
namespace {

struct Row {
  NumberFormat format;
  std::string_view name;
};
constexpr std::array<Row, 6> kNames{{
    {NumberFormat::Dl16, "dl16"},
    {NumberFormat::Fp16, "fp16"},
    {NumberFormat::Bf16, "bf16"},
    {NumberFormat::Fp32, "fp32"},
    {NumberFormat::Fp8E4m3, "fp8_e4m3"},
    {NumberFormat::Fp8E5m2, "fp8_e5m2"},
}};

// Of a format with subnormals. The codes of numbers ascend with their magnitude; `infinity` is the first that is none.
struct Ieee {
  int exponent_bits;
  int fraction_bits;
  std::uint32_t infinity;  // the code; that of NaN where a format has none
  std::uint32_t nan;
  std::uint32_t overflow;  // what infinity and a number that is too large become

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t sign_bit() const { return std::uint32_t{1} << (exponent_bits + fraction_bits); }
};

Ieee layout_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::Fp16: return {5, 10, 0x7C00, 0x7E00, 0x7C00};
    case NumberFormat::Bf16: return {8, 7, 0x7F80, 0x7FC0, 0x7F80};
    case NumberFormat::Fp8E4m3: return {4, 3, 0x7F, 0x7F, 0x7E};
    case NumberFormat::Fp8E5m2: return {5, 2, 0x7C, 0x7F, 0x7C};
    case NumberFormat::Fp32:
    case NumberFormat::Dl16: break;
  }
  return {8, 23, 0x7F800000, 0x7FC00000, 0x7F800000};
}

std::uint32_t ieee_code(const Ieee& ieee, double value) {
  const std::uint32_t sign = std::signbit(value) ? ieee.sign_bit() : 0;
  if (std::isnan(value)) return sign | ieee.nan;
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return sign | ieee.overflow;
  if (magnitude == 0) return sign;
  // In units of the last place of a number of this size; below the normals the unit stays.
  const int smallest_exponent = 1 - ieee.bias();
  const int exponent = std::max(std::ilogb(magnitude), smallest_exponent);
  // Exact: a double has more exponents than any of these formats, and scaling by a power of two does not round.
  const double units = std::nearbyint(std::ldexp(magnitude, ieee.fraction_bits - exponent));  // ties to even
  const auto significand = static_cast<std::uint64_t>(units);
  // A carry out of the fraction goes on into the exponent, as it should.
  const std::uint64_t code =
      (static_cast<std::uint64_t>(exponent - smallest_exponent) << ieee.fraction_bits) + significand;
  return sign | (code >= ieee.infinity ? ieee.overflow : static_cast<std::uint32_t>(code));
}

double ieee_value(const Ieee& ieee, std::uint32_t code) {
  const std::uint32_t magnitude = code & (ieee.sign_bit() - 1);
  const double sign = (code & ieee.sign_bit()) != 0 ? -1.0 : 1.0;
  if (magnitude == ieee.infinity && ieee.infinity != ieee.nan) return sign * std::numeric_limits<double>::infinity();
  if (magnitude >= ieee.infinity) return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  const int exponent = static_cast<int>(magnitude >> ieee.fraction_bits);
  const std::uint32_t fraction = magnitude & ((std::uint32_t{1} << ieee.fraction_bits) - 1);
  const std::uint32_t significand = exponent == 0 ? fraction : fraction | std::uint32_t{1} << ieee.fraction_bits;
  return sign * std::ldexp(significand, std::max(exponent, 1) - ieee.bias() - ieee.fraction_bits);
}

}  // namespace

std::string_view name(NumberFormat format) { return kNames[std::to_underlying(format)].name; }

std::optional<NumberFormat> number_format_named(std::string_view name) {
  for (const Row& row : kNames) {
    if (row.name == name) return row.format;
  }
  return std::nullopt;
}

unsigned bits_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::Fp32: return 32;
    case NumberFormat::Fp8E4m3:
    case NumberFormat::Fp8E5m2: return 8;
    default: return 16;
  }
}

std::uint32_t code_of(NumberFormat format, double value) {
  if (format == NumberFormat::Dl16) return wire::dl16_from_fp64(value);
  return ieee_code(layout_of(format), value);
}

double value_of(NumberFormat format, std::uint32_t code) {
  if (format == NumberFormat::Dl16) return wire::fp64_from_dl16(static_cast<wire::Dl16>(code));
  return ieee_value(layout_of(format), code);
}

}  // namespace svp
