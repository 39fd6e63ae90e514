// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/crc32c.hpp"

#include <isa-l/crc.h>

#include <algorithm>

namespace svp {

namespace {

// The library takes the length as an int.
constexpr std::size_t kLongestCall = std::size_t{1} << 30;

}  // namespace

std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
  // The library neither inverts at the start nor at the end, and does not write through its pointer.
  crc = ~crc;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kLongestCall));
    auto* const data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(part.data()));
    crc = crc32_iscsi(data, static_cast<int>(part.size()), crc);
    bytes = bytes.subspan(part.size());
  }
  return ~crc;
}

}  // namespace svp
