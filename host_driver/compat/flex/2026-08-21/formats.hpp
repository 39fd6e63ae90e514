// SPDX-License-Identifier: Apache-2.0
// Number formats by torch-spyre's numbers, as the driver knows them.
#pragma once

#include <util/sendefs/sendefs.h>
#include <cstdint>
#include <optional>

#include "host_driver/tensor/element_format.hpp"

namespace flex::detail {

// Nothing: the driver converts no such elements.
std::optional<svp::ElementFormat> element_format(DataFormats format);
// "SEN169_FP16"; "INVALID" for what is none.
const char* name_of(DataFormats format);
// The value in this format, again and again in 64 bits: floats rounded once, integers toward zero and saturating.
// Throws InvalidArgument ("format"): elements that do not fill 64 bits, or that the card does not have.
std::uint64_t fill_pattern(double value, DataFormats format);

}  // namespace flex::detail
