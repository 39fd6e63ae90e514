// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Requests of the kind TopK: checked as a whole, then executed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "qemu/array/answer.hpp"
#include "qemu/array/card_memory.hpp"
#include "shared/array.hpp"

namespace svp::array {

inline constexpr std::size_t kMeritsInStick = wire::kStickBytes / sizeof(std::uint64_t);

struct TopKPlan {
  wire::array::TopKRequest request;  // a copy: what the kernel writes meanwhile changes nothing
  std::array<const std::byte*, wire::array::kMaxLineSticks> stick;  // of the rows one after the other
  // The sticks of the lists, and what they hold.
  std::array<std::byte*, wire::array::kMaxMerits / kMeritsInStick> list;
  std::array<std::uint64_t, wire::array::kMaxMerits> merit;
};

// How many lists of merits the request has.
inline std::uint64_t lines_of(const wire::array::TopKRequest& request) {
  return std::uint64_t{request.rows} * (request.across != 0 ? request.lanes : 1);
}

// Finds all memory of the request, for a hart in U-mode under the page table at `root`. The list of rows has been read,
// nothing else has been read or written when this returns.
Answer prepare(const CardMemory& memory, std::uint64_t root, TopKPlan& plan);

// Of a plan whose answer was Done. How many sticks the lists include now.
std::uint64_t execute(TopKPlan& plan);

}  // namespace svp::array
