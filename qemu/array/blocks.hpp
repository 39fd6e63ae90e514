// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Requests of the kind Blocks: checked as a whole, then executed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "qemu/array/answer.hpp"
#include "qemu/array/card_memory.hpp"
#include "shared/array.hpp"

namespace svp::array {

struct BlocksPlan {
  wire::array::BlocksRequest request;  // a copy: what the kernel writes meanwhile changes nothing
  // Of the blocks one after the other, each `rows` and `columns` of them.
  std::array<const std::byte*, wire::array::kMaxSticks> row;
  std::array<std::byte*, wire::array::kMaxSticks> column;
};

// Finds all memory of the request, for a hart in U-mode under the page table at `root`. Nothing of it has been read or
// written when this returns.
Answer prepare(const CardMemory& memory, std::uint64_t root, BlocksPlan& plan);

// Of a plan whose answer was Done.
void execute(const BlocksPlan& plan);

}  // namespace svp::array
