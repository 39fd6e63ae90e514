// SPDX-License-Identifier: Apache-2.0
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
  wire::array::ChunkRequest request;  // a copy: what the kernel writes meanwhile changes nothing
  std::array<const std::byte*, wire::array::kMaxRows> row;
  std::array<const std::byte*, wire::array::kMaxDepth> panel;
  std::array<std::array<std::byte*, 2>, wire::array::kMaxRows> sums;  // of each row, its halves
};

// Finds all memory of the request, for a hart in U-mode under the page table at `root`. The lists have been read,
// nothing else has been read or written when this returns.
Answer prepare(const CardMemory& memory, std::uint64_t root, ChunkPlan& plan);

// Of a plan whose answer was Done. False: a number is not finite, or too many sums are wide; no sum has changed.
bool execute(const ChunkPlan& plan);

}  // namespace svp::array
