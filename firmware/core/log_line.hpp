// SPDX-License-Identifier: Apache-2.0
// One console line, put together without printf (which would bring long double arithmetic into a soft-float firmware).
// What does not fit is cut off.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fw {

class LogLine {
 public:
  LogLine& text(std::string_view text) {
    for (const char c : text) put(c);
    return *this;
  }
  LogLine& number(std::uint64_t value, unsigned base = 10) {
    std::array<char, 64> digits;
    std::size_t count = 0;
    do {
      digits[count++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    while (count != 0) put(digits[--count]);
    return *this;
  }
  const char* c_str() {
    line_[length_] = '\0';
    return line_.data();
  }

 private:
  void put(char c) {
    if (length_ + 1 < line_.size()) line_[length_++] = c;
  }
  std::array<char, 128> line_;
  std::size_t length_ = 0;
};

}  // namespace fw
