// SPDX-License-Identifier: Apache-2.0
// A line of text built without heap and without printf. Too long a line is cut, never overrun.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace riscv {

class TextLine {
 public:
  TextLine& text(const char* string) {
    for (; *string != 0; ++string) put(*string);
    return *this;
  }
  TextLine& decimal(std::uint64_t value) { return digits(value, 10); }
  TextLine& hex(std::uint64_t value) {
    text("0x");
    return digits(value, 16);
  }
  [[nodiscard]] const char* c_str() const { return buffer_.data(); }

 private:
  void put(char character) {
    if (length_ + 1 < buffer_.size()) buffer_[length_++] = character;
  }
  TextLine& digits(std::uint64_t value, unsigned base) {
    std::array<char, 20> reversed;
    std::size_t count = 0;
    do {
      reversed[count++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    while (count > 0) put(reversed[--count]);
    return *this;
  }

  std::array<char, 256> buffer_{};
  std::size_t length_ = 0;
};

}  // namespace riscv
