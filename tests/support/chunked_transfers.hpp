// SPDX-License-Identifier: Apache-2.0
// Random transfers of allocations in several chunks, against a model in host memory: DMA of pinned and pageable memory,
// inside the card, fills, strided nests. No test framework: what is wrong is a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/runtime.hpp"

namespace svp::test {

// Regions of the allocator's first region_bytes that are held afterwards, all free. Nothing was allocated before.
void hold_regions(FlexAllocator& allocator, std::size_t count, std::uint64_t region_bytes);

struct ChunkedCounts {
  std::size_t transfers = 0;
  std::size_t nests = 0;          // of them
  std::size_t blocks = 0;         // that the card executed for them
  std::size_t cut_nests = 0;      // that took several blocks
  std::size_t chunks = 0;         // of the allocations that had several
  std::size_t refused_nests = 0;  // that were too many blocks
};

class ChunkedTransfers {
 public:
  // Several regions are held. Both outlive this.
  ChunkedTransfers(Runtime& runtime, FlexStream& stream, std::uint64_t seed);
  ChunkedTransfers(const ChunkedTransfers&) = delete;
  ChunkedTransfers& operator=(const ChunkedTransfers&) = delete;

  // So many allocations, with a dozen transfers each. What was wrong first, if anything.
  std::optional<std::string> run(std::size_t rounds);
  const ChunkedCounts& counts() const { return counts_; }

 private:
  struct Memory;

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  Memory allocate(std::uint64_t bytes);
  void launch(const Job& job);
  void write(Memory& memory);
  void fill(Memory& memory);
  void copy(Memory& to, const Memory& from);
  void move_nest(Memory& to, const Memory& from);
  std::optional<std::string> check(const Memory& memory, const char* what);

  Runtime& runtime_;
  FlexStream& stream_;
  std::mt19937_64 random_;
  ChunkedCounts counts_;
};

}  // namespace svp::test
