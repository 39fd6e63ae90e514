// SPDX-License-Identifier: Apache-2.0
// What the helper programs of this folder share: a line for the test that started them, and an end with a reason.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <stdexcept>
#include <utility>

namespace svp::test {

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... arguments) {
  fmt::print("{}\n", fmt::format(format, std::forward<Args>(arguments)...));
  std::fflush(stdout);
}

inline void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

}  // namespace svp::test
