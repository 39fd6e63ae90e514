// SPDX-License-Identifier: Apache-2.0
// What the emulator's monitor prints for "info registers -a", as registers.
#pragma once

#include <string_view>
#include <vector>

#include "host_driver/debug/core_file.hpp"

namespace svp {

// One entry per hart, in order. Empty when the text is of another form.
std::vector<HartRegisters> parse_register_dump(std::string_view text);

}  // namespace svp
