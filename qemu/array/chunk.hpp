// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Requests of the kind Chunk: checked as a whole, then executed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "qemu/array/answer.hpp"
#include "qemu/array/card_memory.hpp"
#include "shared/array.hpp"

namespace svp::array {

struct ChunkPlan {
  wire::array::ChunkRequest request;                        // a copy: what the kernel writes meanwhile changes nothing
  std::array<const std::byte*, wire::array::kMaxRows> row;  // sticks of the first chunk's rows, then of the second's
  std::array<const std::byte*, wire::array::kMaxFewDepth> panel;
  std::array<std::array<std::byte*, 2>, wire::array::kMaxRows> sums;  // of each row, its halves
};

// Finds all memory of the request, for a hart in U-mode under the page table at `root`. The lists have been read,
// nothing else has been read or written when this returns.
Answer prepare(const CardMemory& memory, std::uint64_t root, ChunkPlan& plan);

// Of a plan whose answer was Done. Returns how many positions of k are done. 0: in the first chunk a number is not
// finite, or too many sums are wide; no sum has changed.
std::uint32_t execute(const ChunkPlan& plan);

inline bool is_dl16(const wire::array::ChunkRequest& request) {
  return request.format == static_cast<std::uint32_t>(wire::program::Format::Dl16);
}
inline std::uint32_t chunks_of(const wire::array::ChunkRequest& request) {
  return (request.depth + wire::array::kMaxDepth - 1) / wire::array::kMaxDepth;
}

}  // namespace svp::array
