// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace svp::campaign {

// page.html, a Mustache template. page.cpp names its values.
extern const std::string_view kPageTemplate;

}  // namespace svp::campaign
