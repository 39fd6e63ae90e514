// SPDX-License-Identifier: Apache-2.0
// One element of any format as an fp64, which holds every value of every format, and back with one rounding.
#pragma once

#include <bit>
#include <cstdint>

#include "shared/device_program.hpp"
#include "shared/dl16.hpp"

namespace kernel::engine::number {

namespace program = wire::program;

namespace detail {

// A format of eight bits: the codes of numbers ascend with their magnitude; `infinity` is the first that is none.
struct Small {
  int fraction_bits;
  int bias;
  std::uint32_t infinity;
  std::uint32_t nan;
  std::uint32_t overflow;  // what infinity and a number that is too large become
};
inline constexpr Small kE4m3{.fraction_bits = 3, .bias = 7, .infinity = 0x7F, .nan = 0x7F, .overflow = 0x7E};
inline constexpr Small kE5m2{.fraction_bits = 2, .bias = 15, .infinity = 0x7C, .nan = 0x7F, .overflow = 0x7C};

inline constexpr std::uint64_t kFp64Infinity = std::uint64_t{0x7FF} << 52;
inline constexpr std::uint64_t kFp64Nan = std::uint64_t{0x7FF8} << 48;

constexpr double value_of_small(const Small& format, std::uint32_t code) {
  const std::uint64_t sign = std::uint64_t{code >> 7 & 1} << 63;
  const std::uint32_t magnitude = code & 0x7F;
  if (magnitude > format.infinity || magnitude == format.nan) return std::bit_cast<double>(kFp64Nan);
  if (magnitude == format.infinity) return std::bit_cast<double>(sign | kFp64Infinity);
  if (magnitude >> format.fraction_bits != 0) {
    const std::uint64_t bits = std::uint64_t{magnitude} << (52 - format.fraction_bits);
    return std::bit_cast<double>(sign | (bits + (std::uint64_t(1023 - format.bias) << 52)));
  }
  const std::uint64_t unit = std::uint64_t(1023 + 1 - format.bias - format.fraction_bits) << 52;
  return std::bit_cast<double>(sign | std::bit_cast<std::uint64_t>(std::bit_cast<double>(unit) * magnitude));
}

// Nearest, ties to even.
constexpr std::uint32_t code_of_small(const Small& format, double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint32_t>(bits >> 63 << 7);
  const std::uint64_t magnitude = bits & ~(std::uint64_t{1} << 63);
  if (magnitude > kFp64Infinity) return format.nan;
  if (magnitude == kFp64Infinity) return sign | format.overflow;
  const int smallest = 1 - format.bias;
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  const int unit = exponent > smallest ? exponent : smallest;
  const int shift = 52 - format.fraction_bits + (unit - exponent);
  if (shift > 53) return sign;  // below half of the smallest number
  const std::uint64_t significand = (magnitude & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  std::uint64_t code = significand >> shift;
  code += rest > half || (rest == half && (code & 1) != 0) ? 1 : 0;
  code += std::uint64_t(unit - smallest) << format.fraction_bits;
  return sign | (code >= format.infinity ? format.overflow : static_cast<std::uint32_t>(code));
}

// Toward zero, saturating; NaN becomes 0.
constexpr std::int64_t truncated(double value, std::int64_t smallest, std::int64_t largest) {
  if (value != value) return 0;
  if (value <= static_cast<double>(smallest)) return smallest;
  if (value >= static_cast<double>(largest)) return largest;
  return static_cast<std::int64_t>(value);
}

}  // namespace detail

// `code` holds the element in its low bits; the others are ignored.
[[gnu::always_inline]] constexpr double value_of(program::Format format, std::uint32_t code) {
  using program::Format;
  switch (format) {
    case Format::Dl16: return wire::fp64_from_dl16(static_cast<wire::Dl16>(code));
    case Format::Fp32: return static_cast<double>(std::bit_cast<float>(code));
    case Format::Int32: return static_cast<std::int32_t>(code);
    case Format::Int16: return static_cast<std::int16_t>(code);
    case Format::Int8: return static_cast<std::int8_t>(code);
    case Format::Uint32: return code;
    case Format::Fp8E4m3: return detail::value_of_small(detail::kE4m3, code);
    case Format::Fp8E5m2: return detail::value_of_small(detail::kE5m2, code);
  }
  return 0;
}

[[gnu::always_inline]] constexpr std::uint32_t code_of(program::Format format, double value) {
  using program::Format;
  const auto integer = [value](std::int64_t smallest, std::int64_t largest) {
    return static_cast<std::uint32_t>(detail::truncated(value, smallest, largest));
  };
  switch (format) {
    case Format::Dl16: return value != value ? wire::kDl16Nan : wire::dl16_from_fp64(value);
    case Format::Fp32: return value != value ? 0x7FC00000 : std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case Format::Int32: return integer(INT32_MIN, INT32_MAX);
    case Format::Int16: return integer(INT16_MIN, INT16_MAX) & 0xFFFF;
    case Format::Int8: return integer(INT8_MIN, INT8_MAX) & 0xFF;
    case Format::Uint32: return integer(0, UINT32_MAX);
    case Format::Fp8E4m3: return detail::code_of_small(detail::kE4m3, value);
    case Format::Fp8E5m2: return detail::code_of_small(detail::kE5m2, value);
  }
  return 0;
}

constexpr std::uint32_t code_of_fp32(program::Format format, std::uint32_t fp32_bits) {
  return code_of(format, static_cast<double>(std::bit_cast<float>(fp32_bits)));
}

}  // namespace kernel::engine::number
