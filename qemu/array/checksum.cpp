// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/checksum.hpp"

#include <cstring>

#include "shared/crc32c.hpp"

namespace svp::array {
namespace {

#if defined(__x86_64__)
bool has_instruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

[[gnu::target("sse4.2")]] std::uint32_t by_instruction(std::uint32_t crc, const std::byte* data, std::size_t bytes) {
  std::uint64_t value = static_cast<std::uint32_t>(~crc);
  for (; bytes >= sizeof(std::uint64_t); bytes -= sizeof(std::uint64_t), data += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, sizeof word);
    value = __builtin_ia32_crc32di(value, word);
  }
  auto rest = static_cast<std::uint32_t>(value);
  for (; bytes > 0; --bytes, ++data) rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(*data));
  return ~rest;
}
#else
bool has_instruction() { return false; }
std::uint32_t by_instruction(std::uint32_t crc, const std::byte* data, std::size_t bytes) {
  return wire::crc32c(crc, data, bytes);
}
#endif

}  // namespace

std::uint32_t checksum(std::uint32_t crc, const std::byte* data, std::size_t bytes) {
  return has_instruction() ? by_instruction(crc, data, bytes) : wire::crc32c(crc, data, bytes);
}

}  // namespace svp::array
