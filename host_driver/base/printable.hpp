// SPDX-License-Identifier: Apache-2.0
// Text of files that may come from anybody, for a terminal.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace svp {

// Control characters become '?'. Other bytes stay: they may be UTF-8.
inline std::string printable(std::string_view text) {
  std::string result(text);
  std::ranges::replace_if(result, [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; }, '?');
  return result;
}

}  // namespace svp
