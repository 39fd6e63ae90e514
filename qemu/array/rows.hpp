// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Requests of the kind Rows: checked as a whole, then executed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "qemu/array/answer.hpp"
#include "qemu/array/card_memory.hpp"
#include "shared/array.hpp"

namespace svp::array {

// Sticks whose operands lie in one page each.
struct Stretch {
  std::array<std::byte*, wire::array::kMaxInputs + 1> at;
  std::uint64_t count;
};

struct RowsPlan {
  wire::array::Request request;  // a copy: what the kernel writes meanwhile changes nothing
  const std::byte* table = nullptr;
  std::uint64_t stretches = 0;
  std::array<Stretch, wire::array::kMaxSticks> stretch;
};

// Finds all memory of the request's first kMaxSticks sticks, for a hart in U-mode under the page table at `root`.
// Nothing of it has been read or written when this returns.
Answer prepare(const CardMemory& memory, std::uint64_t root, RowsPlan& plan);

// Of a plan whose answer was Done.
void execute(const RowsPlan& plan);

}  // namespace svp::array
