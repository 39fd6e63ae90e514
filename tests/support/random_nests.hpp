// SPDX-License-Identifier: Apache-2.0
// Nests of a strided DMA at random, and what they do, element by element: the model that cards are held against.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "shared/control_block.hpp"

namespace svp::test {

struct Nest {
  std::uint32_t element_bytes = 1;
  std::vector<wire::StridedLevel> levels{};
  // Where the indices 0, 0, … lie, from the start of the memory of each end.
  std::uint64_t source = 0;
  std::uint64_t destination = 0;

  std::uint64_t elements() const;
  std::uint64_t bytes() const { return elements() * element_bytes; }
  // As `block` has them.
  static Nest of(const wire::ControlBlock& block);
};

struct NestLimits {
  std::uint64_t elements = 4096;
  std::uint64_t memory_bytes = 64 * 1024;  // of each end: all elements lie inside
  unsigned depth = wire::kStridedLevels;
};

// A nest that the card takes: strides of all signs, 0 at the source, levels of one step with strides that mean nothing,
// dense runs, gaps, transposes.
Nest random_nest(std::mt19937_64& random, const NestLimits& limits);

// Visits (source, destination) of each element, in bytes from the start of the memories, in the order of the loops.
template <typename Visit>
void for_each_element(const Nest& nest, Visit visit) {
  std::vector<std::uint64_t> index(nest.levels.size(), 0);
  for (std::uint64_t n = nest.elements(); n > 0; --n) {
    std::uint64_t from = nest.source;
    std::uint64_t to = nest.destination;
    for (std::size_t i = 0; i < index.size(); ++i) {
      from += index[i] * static_cast<std::uint64_t>(nest.levels[i].source_stride) * nest.element_bytes;
      to += index[i] * static_cast<std::uint64_t>(nest.levels[i].destination_stride) * nest.element_bytes;
    }
    visit(from, to);
    for (std::size_t i = 0; i < index.size() && ++index[i] == nest.levels[i].count; ++i) index[i] = 0;
  }
}

// Byte by byte.
void move(const Nest& nest, std::span<const std::byte> source, std::span<std::byte> destination);
// CRC32C over the elements of the source.
std::uint32_t sum(const Nest& nest, std::span<const std::byte> source);

}  // namespace svp::test
