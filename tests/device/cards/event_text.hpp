// SPDX-License-Identifier: Apache-2.0
// The bytes of a shared event as text, for arguments and lines of helper programs.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <spyre/event.hpp>
#include <string>
#include <string_view>

namespace svp::test {

inline std::string text_of(const spyre::SharedEvent& event) {
  std::string text;
  for (const std::byte byte : event.bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

// Bytes that are missing are 0.
inline spyre::SharedEvent event_of(std::string_view text) {
  spyre::SharedEvent event{};
  for (std::size_t i = 0; 2 * i + 1 < text.size() && i < event.bytes.size(); ++i) {
    unsigned byte = 0;
    (void)std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, byte, 16);
    event.bytes[i] = static_cast<std::byte>(byte);
  }
  return event;
}

}  // namespace svp::test
