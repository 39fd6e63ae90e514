// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/streamed_copy.hpp"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace svp::array {
namespace {

// What every host stores at once.
using Vector = std::uint64_t __attribute__((vector_size(16)));
constexpr std::size_t kLine = 64;
constexpr std::size_t kVectors = kLine / sizeof(Vector);

void stream_line(std::byte* to, const std::byte* from) {
  Vector parts[kVectors];
  std::memcpy(parts, from, sizeof parts);
  auto* const target = reinterpret_cast<Vector*>(to);
  for (std::size_t i = 0; i < kVectors; ++i) __builtin_nontemporal_store(parts[i], target + i);
}

}  // namespace

void streamed_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t head = std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, head);
  to += head, from += head, bytes -= head;
  for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) stream_line(to, from);
  std::memcpy(to, from, bytes);
  hwy::FlushStream();
}

}  // namespace svp::array
