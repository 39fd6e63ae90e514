// SPDX-License-Identifier: Apache-2.0
// Elements as numbers. Every format's values are exact in fp64, so each conversion is one rounding.
#pragma once

#include <cstdint>

#include "shared/device_program.hpp"

namespace svp::program::golden {

// Exact. NaN for every NaN code.
double value_of(wire::program::Format format, std::uint32_t bits);

// One rounding. To floating point: to nearest, in DL16 ties away from zero, else to even; NaN becomes the format's one
// NaN (0x7FFE, 0x7FC00000, 0x7F, 0x7F); overflow becomes infinity, 448 in E4M3, with the sign. To
// integers: toward zero, saturating, NaN becomes 0.
std::uint32_t bits_of(wire::program::Format format, double value);

// Of DL16 and FP32. A float is widened exactly, so this is one rounding, too.
float fp32_of(wire::program::Format format, std::uint32_t bits);
std::uint32_t bits_of(wire::program::Format format, float value);

}  // namespace svp::program::golden
