// SPDX-License-Identifier: Apache-2.0
// Floating-point formats as bit patterns, one number at a time: the reference that the fast conversions are tested
// against, and what `spyre convert` prints. Every function is exact or rounds once.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace svp {

enum class NumberFormat : std::uint8_t {
  Dl16,     // the card's: shared/dl16.hpp
  Fp16,     // IEEE 754 binary16
  Bf16,     // the upper half of binary32
  Fp32,     // IEEE 754 binary32
  Fp8E4m3,  // "e4m3fn": no infinity, 0x7F and 0xFF are NaN, largest 448
  Fp8E5m2,  // as IEEE 754 would have it: infinity 0x7C, largest 57344
};

// "dl16", "fp16", "bf16", "fp32", "fp8_e4m3", "fp8_e5m2".
std::string_view name(NumberFormat format);
std::optional<NumberFormat> number_format_named(std::string_view name);

unsigned bits_of(NumberFormat format);  // 8, 16 or 32

// Nearest; ties to even, but for DL16 away from zero. What is too small becomes zero with its sign. What is too large
// becomes infinity, or the largest number in a format that has none, with its sign.
std::uint32_t code_of(NumberFormat format, double value);

// Exact. The bits above those of the format are ignored.
double value_of(NumberFormat format, std::uint32_t code);

}  // namespace svp
