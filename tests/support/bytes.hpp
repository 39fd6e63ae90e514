// SPDX-License-Identifier: Apache-2.0
// Looking at whole memories: by memcmp, because tests are not optimised and a loop over 64 MiB takes seconds there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace svp::test {

// True of no bytes.
inline bool all_bytes_are(std::span<const std::byte> bytes, std::byte value) {
  return bytes.empty() || (bytes[0] == value && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// Of bytes.size() when they are equal; both have that size.
inline std::size_t first_difference(std::span<const std::byte> bytes, std::span<const std::byte> others) {
  if (bytes.empty() || std::memcmp(bytes.data(), others.data(), bytes.size()) == 0) return bytes.size();
  return static_cast<std::size_t>(std::ranges::mismatch(bytes, others).in1 - bytes.begin());
}

}  // namespace svp::test
