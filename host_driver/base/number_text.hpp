// SPDX-License-Identifier: Apache-2.0
// Text of a number with a fraction, for messages.
#pragma once

#include <string>

namespace svp {

// The shortest text that reads back as the same number: 0.5, 1e-12, inf, nan.
std::string text_of(double number);

}  // namespace svp
