// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// CRC32C (Castagnoli, reflected polynomial 0x82F63B78), the checksum of control blocks, images and records. Eight bytes
// per step from tables that the compiler computes: no table of numbers to mistype, same code on both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace wire {

namespace crc_detail {

// Plain arrays: an index into std::array is a call in code that is not optimised.
struct Tables {
  std::uint32_t of[8][256];
};

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82F63B78u : 0u);
    tables.of[0][i] = value;
  }
  for (std::size_t t = 1; t < 8; ++t) {
    for (std::size_t i = 0; i < 256; ++i)
      tables.of[t][i] = tables.of[t - 1][i] >> 8 ^ tables.of[0][tables.of[t - 1][i] & 0xff];
  }
  return tables;
}
inline constexpr Tables kTables = make_tables();

}  // namespace crc_detail

// Continues `crc` (start with 0) over `bytes` bytes; crc32c(crc32c(0, a), b) == crc32c(0, a ++ b).
inline std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t bytes) {
  const auto& t = crc_detail::kTables.of;
  const auto* at = static_cast<const std::uint8_t*>(data);
  crc = ~crc;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = t[7][word & 0xff] ^ t[6][word >> 8 & 0xff] ^ t[5][word >> 16 & 0xff] ^ t[4][word >> 24 & 0xff] ^
          t[3][word >> 32 & 0xff] ^ t[2][word >> 40 & 0xff] ^ t[1][word >> 48 & 0xff] ^ t[0][word >> 56];
  }
  for (; bytes > 0; --bytes, ++at) crc = crc >> 8 ^ t[0][(crc ^ *at) & 0xff];
  return ~crc;
}

}  // namespace wire
