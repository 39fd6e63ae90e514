// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a strided transfer's loops (control_block.hpp), for both sides: the card judges blocks by it, the
// driver refuses by it what the card would refuse. No number here wraps: what does not fit ends the calculation.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "shared/control_block.hpp"

namespace wire {

// Of all levels: elements of the transfer. Nothing: 2^64 or more, or a count of 0; `bad` is the level where.
inline std::optional<std::uint64_t> element_count(const StridedPayload& loops, unsigned& bad) {
  std::uint64_t count = 1;
  for (bad = 0; bad < loops.depth; ++bad) {
    if (loops.levels[bad].count == 0) return std::nullopt;
    if (__builtin_mul_overflow(count, loops.levels[bad].count, &count)) return std::nullopt;
  }
  return count;
}

// What one end touches: bytes from `below` before the place of the indices 0, 0, … up to `above` behind it. A level of
// one step does not move anything, whatever its strides are.
struct StridedReach {
  std::uint64_t below;
  std::uint64_t above;  // at least the element itself
  std::uint64_t bytes() const { return below + above; }
  // Whether all of it lies behind 0 and before 2^64 when the indices 0, 0, … lie at `offset`.
  bool fits(std::uint64_t offset) const {
    std::uint64_t end;
    return offset >= below && !__builtin_add_overflow(offset, above, &end);
  }
};

constexpr bool is_element_size(std::uint32_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8; }

// Nothing: 2^62 bytes or more, which no memory has, or what is no nest of levels and elements at all.
inline std::optional<StridedReach> reach_of(const StridedPayload& loops, std::int64_t StridedLevel::* stride) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  if (loops.depth > kStridedLevels || !is_element_size(loops.element_bytes)) return std::nullopt;
  std::uint64_t way[2] = {0, 1};  // elements down and up
  for (unsigned i = 0; i < loops.depth; ++i) {
    const StridedLevel& level = loops.levels[i];
    const std::int64_t step = level.*stride;
    const std::uint64_t size = step < 0 ? -static_cast<std::uint64_t>(step) : static_cast<std::uint64_t>(step);
    std::uint64_t& sum = way[step < 0 ? 0 : 1];
    std::uint64_t reach;
    if (level.count == 0) return std::nullopt;
    if (__builtin_mul_overflow(level.count - 1, size, &reach) || __builtin_add_overflow(sum, reach, &sum)) {
      return std::nullopt;
    }
  }
  for (std::uint64_t& sum : way) {
    if (__builtin_mul_overflow(sum, std::uint64_t{loops.element_bytes}, &sum) || sum >= kMost) return std::nullopt;
  }
  return StridedReach{way[0], way[1]};
}

// Whether no two tuples of indices name the same element of the destination. Sufficient, not necessary: of the levels
// with more than one step, in the order of their strides' sizes, each must step over all that the smaller ones span.
// Dense, padded, sliced, transposed and reversed tensors pass; nests whose elements interleave (counts 3 and 2 with
// strides 2 and 3) do not, although they may be distinct. For loops of which reach_of() gives something.
inline bool elements_distinct(const StridedPayload& loops) {
  struct Step {
    std::uint64_t size;
    std::uint64_t count;
  };
  std::array<Step, kStridedLevels> steps;
  unsigned used = 0;
  for (unsigned i = 0; i < loops.depth; ++i) {
    const StridedLevel& level = loops.levels[i];
    if (level.count == 1) continue;
    const std::int64_t step = level.destination_stride;
    const Step own{step < 0 ? -static_cast<std::uint64_t>(step) : static_cast<std::uint64_t>(step), level.count};
    unsigned at = used++;
    for (; at > 0 && steps[at - 1].size > own.size; --at) steps[at] = steps[at - 1];
    steps[at] = own;
  }
  std::uint64_t span = 1;
  for (unsigned i = 0; i < used; ++i) {
    if (steps[i].size < span) return false;
    span += (steps[i].count - 1) * steps[i].size;
  }
  return true;
}

}  // namespace wire
