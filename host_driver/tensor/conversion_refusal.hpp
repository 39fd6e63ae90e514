// SPDX-License-Identifier: Apache-2.0
// The refusal of a conversion that no copy between host and card makes.
#pragma once

#include <string>
#include <string_view>

namespace svp {

// Throws InvalidArgument of `field`; the next step is what the caller of a copy can do.
[[noreturn]] void refuse_conversion(const std::string& field, std::string_view from, std::string_view to);

}  // namespace svp
