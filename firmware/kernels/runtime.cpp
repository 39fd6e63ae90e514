// SPDX-License-Identifier: Apache-2.0
// The functions that a compiler calls on its own for block copies and clears, and what the C++ library calls. Compiled
// with -fno-builtin, or each loop would be turned into a call of itself. Kernels move tensors with vector instructions;
// this is for small structures.
#include <cstddef>
#include <cstdint>

namespace {

// Eight bytes at a time where both ends allow it.
template <typename Unit>
void copy_up(void* to, const void* from, std::size_t count) {
  auto* out = static_cast<Unit*>(to);
  const auto* in = static_cast<const Unit*>(from);
  for (std::size_t i = 0; i < count; ++i) out[i] = in[i];
}

template <typename Unit>
void copy_down(void* to, const void* from, std::size_t count) {
  auto* out = static_cast<Unit*>(to);
  const auto* in = static_cast<const Unit*>(from);
  for (std::size_t i = count; i > 0; --i) out[i - 1] = in[i - 1];
}

bool whole_words(const void* a, const void* b, std::size_t bytes) {
  return (reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) | bytes) % 8 == 0;
}

}  // namespace

extern "C" {

// A check of the C++ library failed, an index out of range: the kernel ends with an illegal instruction.
[[noreturn]] void fw_assert_failed(const char* message);
void fw_assert_failed(const char* /*message*/) { __builtin_trap(); }

void* memcpy(void* to, const void* from, std::size_t bytes) {
  if (whole_words(to, from, bytes)) {
    copy_up<std::uint64_t>(to, from, bytes / 8);
  } else {
    copy_up<std::uint8_t>(to, from, bytes);
  }
  return to;
}

void* memmove(void* to, const void* from, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(to) <= reinterpret_cast<std::uintptr_t>(from)) return memcpy(to, from, bytes);
  if (whole_words(to, from, bytes)) {
    copy_down<std::uint64_t>(to, from, bytes / 8);
  } else {
    copy_down<std::uint8_t>(to, from, bytes);
  }
  return to;
}

void* memset(void* to, int value, std::size_t bytes) {
  if (whole_words(to, to, bytes)) {
    constexpr std::uint64_t kEachByte = 0x0101010101010101;
    auto* out = static_cast<std::uint64_t*>(to);
    for (std::size_t i = 0; i < bytes / 8; ++i) out[i] = static_cast<std::uint8_t>(value) * kEachByte;
  } else {
    auto* out = static_cast<std::uint8_t*>(to);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::uint8_t>(value);
  }
  return to;
}
}
