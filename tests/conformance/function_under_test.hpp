// SPDX-License-Identifier: Apache-2.0
// Which function of its card a test program is run over: SPYRE_TEST_FUNCTION, set by ctest (spyre_test(… FUNCTIONS PF
// VF)).
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace svp::test {

inline constexpr const char* kFunctionVariable = "SPYRE_TEST_FUNCTION";

// 0: the physical function, also when the variable is not set; 1: virtual function 1.
inline unsigned function_under_test() {
  const char* named = std::getenv(kFunctionVariable);
  const std::string_view text = named != nullptr ? named : "PF";
  if (text == "PF") return 0;
  if (text == "VF") return 1;
  throw std::runtime_error(std::string(kFunctionVariable) + " is \"" + std::string(text) + "\"; set it to PF or VF");
}

}  // namespace svp::test
