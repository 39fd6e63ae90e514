// SPDX-License-Identifier: Apache-2.0
// What every fuzz target is written with: an input that is read from its front, and properties that end the program
// when they do not hold. A target defines fuzz::run(); it keeps nothing from one input to the next, so that an input
// that fails once fails again. The same target is built twice: with libFuzzer (preset fuzz, scripts/fuzz) and as a unit
// test that replays the corpus (every other preset).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <source_location>
#include <span>
#include <string_view>
#include <type_traits>

namespace fuzz {

// Bytes of the fuzzer, taken from the front, so that a recorded sequence is a valid input. What is missing is zero.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  std::size_t left() const { return bytes_.size(); }

  template <typename T>
    requires std::is_trivially_copyable_v<T>
  T take() {
    T value{};
    const std::size_t count = std::min(sizeof value, bytes_.size());
    if (count != 0) std::memcpy(&value, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return value;
  }
  // At most `count` bytes.
  std::span<const std::byte> bytes(std::size_t count) {
    const auto front = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(front.size());
    return front;
  }
  std::span<const std::byte> rest() { return bytes(bytes_.size()); }
  std::string_view rest_as_text() {
    const auto all = rest();
    return {reinterpret_cast<const char*>(all.data()), all.size()};
  }
  // 0 … bound - 1, bound at most 65536.
  unsigned below(std::uint64_t bound) {
    return static_cast<unsigned>(bound <= 256 ? take<std::uint8_t>() % bound : take<std::uint16_t>() % bound);
  }

 private:
  std::span<const std::byte> bytes_;
};

// Ends the program when a property does not hold: the fuzzer keeps the input, the replaying test fails.
inline void require(bool holds, const char* property, std::source_location at = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: broken property: %s\n", at.file_name(), static_cast<unsigned>(at.line()), property);
  std::abort();
}

// The target. Called with any bytes, one input at a time.
void run(Input input);

}  // namespace fuzz
