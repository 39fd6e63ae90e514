// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/number_text.hpp"

#include <array>
#include <charconv>

namespace svp {

std::string text_of(double number) {
  std::array<char, 32> digits{};  // the longest, of a double, has 24 characters
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {digits.data(), end};
}

}  // namespace svp
