// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Requests of the kind Lines: checked as a whole, then executed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "qemu/array/answer.hpp"
#include "qemu/array/card_memory.hpp"
#include "shared/array.hpp"

namespace svp::array {

struct LinesPlan {
  wire::array::LinesRequest request;  // a copy: what the kernel writes meanwhile changes nothing
  std::array<const std::byte*, wire::array::kMaxLineSticks> stick;  // of the lines one after the other
  std::array<std::byte*, wire::array::kMaxLines> result;
};

// Finds all memory of the request, for a hart in U-mode under the page table at `root`. The lists have been read,
// nothing else has been read or written when this returns.
Answer prepare(const CardMemory& memory, std::uint64_t root, LinesPlan& plan);

// Of a plan whose answer was Done.
void execute(const LinesPlan& plan);

}  // namespace svp::array
