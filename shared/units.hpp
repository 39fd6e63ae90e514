// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Units of the contract: sticks, granules, and the overflow-safe arithmetic that every check is built from.
#pragma once

#include <cstdint>
#include <type_traits>

namespace wire {

// One stick: the unit of device memory transfers and of every contract structure (RFC "tiled tensors": 128 bytes).
inline constexpr std::uint64_t kStickBytes = 128;
inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

// Regions are granted, tracked as dirty or populated, and mapped in granules of this size (protocol §6).
inline constexpr std::uint64_t kGranuleBytes = 2 * kMiB;

// The device timer that stamps completions and counts DMA budgets (QEMU virt: 10 MHz mtime).
inline constexpr std::uint64_t kTicksPerSecond = 10'000'000;
inline constexpr std::uint64_t kTicksPerMicrosecond = kTicksPerSecond / 1'000'000;

template <typename T>
constexpr T align_up(T value, std::type_identity_t<T> alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

constexpr bool is_aligned(std::uint64_t value, std::uint64_t alignment) { return value % alignment == 0; }

// True when [offset, offset + size) lies inside [0, limit); cannot overflow.
constexpr bool range_inside(std::uint64_t offset, std::uint64_t size, std::uint64_t limit) {
  return size <= limit && offset <= limit - size;
}

}  // namespace wire
