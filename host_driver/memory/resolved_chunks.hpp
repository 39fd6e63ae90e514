// SPDX-License-Identifier: Apache-2.0
// Where an allocation of one or several chunks lies (FlexAllocator::resolve_chunks()). Chunks are in the order of the
// allocation's bytes: the first one holds byte 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "host_driver/memory/region.hpp"

namespace svp {

// One per region that tensors may lie in.
inline constexpr std::size_t kMaxChunks = wire::kRegionsPerFunction - 1;

struct ResolvedChunk {
  VirtualAddress address;
  std::uint64_t bytes = 0;              // as reserved: a multiple of 128
  std::uint32_t region_generation = 0;  // goes beside the address on the wire
  std::uint32_t region_ordinal = 0;     // 0…7
};

// No heap: transfers resolve into one on the stack.
struct ResolvedChunks {
  std::array<ResolvedChunk, kMaxChunks> list{};
  std::size_t count = 0;          // 1 and up
  std::uint64_t bytes = 0;        // as asked for, of all chunks
  std::uint64_t block_bytes = 0;  // as reserved
  RegionType type = RegionType::Tensor;

  std::span<const ResolvedChunk> chunks() const { return {list.data(), count}; }
};

// A byte of an allocation: its address, and how many bytes of the chunk follow from there on, it included.
struct ChunkPlace {
  VirtualAddress address;
  std::uint32_t region_generation = 0;
  std::uint64_t bytes_left = 0;
};

// `offset` < block_bytes.
constexpr ChunkPlace place_in(const ResolvedChunks& memory, std::uint64_t offset) {
  std::size_t i = 0;
  while (i + 1 < memory.count && offset >= memory.list[i].bytes) offset -= memory.list[i++].bytes;
  const ResolvedChunk& chunk = memory.list[i];
  return {.address = advanced(chunk.address, offset),
          .region_generation = chunk.region_generation,
          .bytes_left = chunk.bytes - offset};
}

}  // namespace svp
