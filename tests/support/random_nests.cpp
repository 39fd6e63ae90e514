// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_nests.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "shared/crc32c.hpp"

namespace svp::test {
namespace {

std::uint64_t below(std::mt19937_64& random, std::uint64_t bound) { return bound == 0 ? 0 : random() % bound; }

// Of one end: each level steps over what those before it span, in an order of its own. `gaps`: in between.
void step_over(std::mt19937_64& random, Nest& nest, std::int64_t wire::StridedLevel::* stride, bool gaps, bool signs,
               bool shuffled) {
  std::vector<std::size_t> order(nest.levels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (shuffled) std::ranges::shuffle(order, random);
  std::int64_t span = 1;
  for (const std::size_t i : order) {
    wire::StridedLevel& level = nest.levels[i];
    std::int64_t step = span;
    if (gaps && below(random, 3) == 0) step += static_cast<std::int64_t>(1 + below(random, 5));
    span += static_cast<std::int64_t>(level.count - 1) * step;
    level.*stride = signs && below(random, 3) == 0 ? -step : step;
  }
}

// Strides that name elements several times are the source's right.
void step_anyhow(std::mt19937_64& random, Nest& nest) {
  for (wire::StridedLevel& level : nest.levels) {
    if (below(random, 4) == 0) level.source_stride = static_cast<std::int64_t>(below(random, 7)) - 3;
  }
}

void forget_single_steps(std::mt19937_64& random, Nest& nest) {
  constexpr auto kFar = std::numeric_limits<std::int64_t>::min();
  for (wire::StridedLevel& level : nest.levels) {
    if (level.count != 1) continue;
    level.source_stride = below(random, 2) == 0 ? kFar : static_cast<std::int64_t>(random());
    level.destination_stride = below(random, 2) == 0 ? kFar : static_cast<std::int64_t>(random());
  }
}

struct Box {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
Box box_of(const Nest& nest, std::int64_t wire::StridedLevel::* stride) {
  Box box;
  for (const wire::StridedLevel& level : nest.levels) {
    if (level.count == 1) continue;
    const std::int64_t reach = static_cast<std::int64_t>(level.count - 1) * level.*stride;
    (reach < 0 ? box.first : box.last) += reach;
  }
  return box;
}

// False: the box does not fit.
bool place(std::mt19937_64& random, const Nest& nest, const Box& box, std::uint64_t memory, std::uint64_t& at) {
  const std::uint64_t places = memory / nest.element_bytes;
  const auto span = static_cast<std::uint64_t>(box.last - box.first) + 1;
  if (span > places) return false;
  at = (below(random, places - span + 1) + static_cast<std::uint64_t>(-box.first)) * nest.element_bytes;
  return true;
}

Nest draw(std::mt19937_64& random, const NestLimits& limits) {
  Nest nest;
  nest.element_bytes = 1u << below(random, 4);
  std::uint64_t left = limits.elements;
  for (std::uint64_t depth = 1 + below(random, limits.depth); depth > 0; --depth) {
    constexpr std::uint64_t kShort = 9;
    const std::uint64_t most = below(random, 4) == 0 ? left : std::min(left, kShort);
    const std::uint64_t count = 1 + below(random, most);
    nest.levels.push_back({count, 0, 0});
    left /= count;
  }
  std::ranges::shuffle(nest.levels, random);
  const bool shuffled = below(random, 2) == 0;
  step_over(random, nest, &wire::StridedLevel::destination_stride, below(random, 2) == 0, below(random, 2) == 0,
            shuffled);
  step_over(random, nest, &wire::StridedLevel::source_stride, below(random, 2) == 0, below(random, 2) == 0,
            below(random, 2) == 0);
  if (below(random, 3) == 0) step_anyhow(random, nest);
  forget_single_steps(random, nest);
  return nest;
}

}  // namespace

std::uint64_t Nest::elements() const {
  std::uint64_t count = 1;
  for (const wire::StridedLevel& level : levels) count *= level.count;
  return count;
}

Nest Nest::of(const wire::ControlBlock& block) {
  const wire::StridedDmaPayload& strided = block.payload.strided;
  const wire::StridedLevel* levels = strided.loops.levels;
  return {strided.loops.element_bytes,
          {levels, levels + strided.loops.depth},
          strided.dma.source.offset,
          strided.dma.destination.offset};
}

Nest random_nest(std::mt19937_64& random, const NestLimits& limits) {
  for (;;) {  // most fit; one of a single element fits every memory
    Nest nest = draw(random, limits);
    const Box from = box_of(nest, &wire::StridedLevel::source_stride);
    const Box to = box_of(nest, &wire::StridedLevel::destination_stride);
    if (place(random, nest, from, limits.memory_bytes, nest.source) &&
        place(random, nest, to, limits.memory_bytes, nest.destination)) {
      return nest;
    }
  }
}

void move(const Nest& nest, std::span<const std::byte> source, std::span<std::byte> destination) {
  for_each_element(nest, [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint32_t i = 0; i < nest.element_bytes; ++i) destination[to + i] = source[from + i];
  });
}

std::uint32_t sum(const Nest& nest, std::span<const std::byte> source) {
  std::uint32_t crc = 0;
  for_each_element(nest, [&](std::uint64_t from, std::uint64_t) {
    crc = wire::crc32c(crc, source.data() + from, nest.element_bytes);
  });
  return crc;
}

}  // namespace svp::test
