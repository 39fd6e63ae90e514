// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Requests of the kind Convert: checked as a whole, then executed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "qemu/array/answer.hpp"
#include "qemu/array/card_memory.hpp"
#include "shared/array.hpp"

namespace svp::array {

inline constexpr unsigned kMaxUnitSticks = 4;  // of one side

// Units whose sticks of one number lie in one page each.
struct UnitStretch {
  std::array<const std::byte*, kMaxUnitSticks> from;
  std::array<std::byte*, kMaxUnitSticks> to;
  std::uint64_t count;
};

struct ConvertPlan {
  wire::array::ConvertRequest request;  // a copy: what the kernel writes meanwhile changes nothing
  std::uint64_t stretches = 0;
  std::array<UnitStretch, wire::array::kMaxConverted / (wire::kStickBytes / 4)> stretch;
};

// Finds all memory of as many of the request's units as one request does, for a hart in U-mode under the page table at
// `root`. Nothing of it has been read or written when this returns.
Answer prepare(const CardMemory& memory, std::uint64_t root, ConvertPlan& plan);

// Of a plan whose answer was Done.
void execute(const ConvertPlan& plan);

}  // namespace svp::array
