// SPDX-License-Identifier: Apache-2.0
// Uses every C++ library facility that the firmware relies on, so that a libc++ that stopped supporting one of them
// is found by name. Compiled with the firmware's options, never linked.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <expected>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace libcxx_check {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "wider atomics would call a library that is not there");
static_assert(std::atomic_ref<std::uint32_t>::is_always_lock_free);
static_assert(_LIBCPP_HARDENING_MODE == _LIBCPP_HARDENING_MODE_FAST, "spans and optionals are to be checked");
static_assert(sizeof(void*) == 8 && std::endian::native == std::endian::little);
#ifdef __riscv_flen
#error "firmware is compiled without floating point registers (toolchain/cmake/card_options.cmake)"
#endif
#ifdef __riscv_vector
#error "firmware is compiled without vector registers (toolchain/cmake/card_options.cmake)"
#endif

enum class Failure : std::uint8_t { Empty, TooLarge };

template <std::unsigned_integral T>
constexpr std::expected<T, Failure> largest(std::span<const T> values) {
  if (values.empty()) return std::unexpected(Failure::Empty);
  return *std::ranges::max_element(values);
}
static_assert(largest(std::span<const unsigned>(std::array{1u, 7u, 3u})).value_or(0) == 7);

std::atomic<std::uint64_t> counter{0};

std::uint64_t add_published(std::uint64_t& shared_word) {
  counter.fetch_add(1, std::memory_order_relaxed);
  return std::atomic_ref<std::uint64_t>(shared_word).fetch_add(1, std::memory_order_acq_rel);
}

std::expected<std::uint64_t, Failure> first_word(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(std::uint64_t)) return std::unexpected(Failure::TooLarge);
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return std::byteswap(std::rotl(word, 8));
}

std::optional<std::string_view> value_of(std::string_view words, std::string_view name) {
  const auto at = words.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  return words.substr(at + name.size());
}

// The index is checked: out of range ends in fw_assert_failed.
std::uint32_t checked(std::span<const std::uint32_t> values, std::size_t index) { return values[index]; }

std::variant<std::uint32_t, Failure> either(bool good) {
  if (good) return std::uint32_t{1};
  return Failure::Empty;
}

}  // namespace libcxx_check
