// SPDX-License-Identifier: Apache-2.0
// Transfers over memory of several chunks: a control block works on one region at each end, so a step that crosses from
// one chunk to the next becomes several blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/runtime/job.hpp"

namespace svp {

// A card's end of a transfer: from byte `offset` of an allocation on.
struct CardEnd {
  ResolvedChunks memory;
  std::uint64_t offset = 0;

  ChunkPlace at(std::uint64_t byte) const { return place_in(memory, offset + byte); }
};

// Calls f(at, bytes) for the parts of `size` bytes that lie in one chunk each, at this end and, unless it is null, at
// the other one. The ends hold `size` bytes.
template <typename F>
void for_each_piece(std::uint64_t size, const CardEnd& end, const CardEnd* other, F&& f) {
  for (std::uint64_t at = 0; at < size;) {
    std::uint64_t bytes = std::min(size - at, end.at(at).bytes_left);
    if (other != nullptr) bytes = std::min(bytes, other->at(at).bytes_left);
    f(at, bytes);
    at += bytes;
  }
}

// How many control blocks the step takes: 1, but for a DMA or Fill that crosses chunks. What a launch will refuse takes
// 1.
std::size_t blocks_of(const FlexAllocator& allocator, const Step& step);

}  // namespace svp
