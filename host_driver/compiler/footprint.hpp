// SPDX-License-Identifier: Apache-2.0
// Which memory a use reaches: what passes ask before they move or drop an operation. Answers are conservative: a range
// stands for all bytes from its first to its last, in all scratchpads, and arguments may be one storage.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "host_driver/compiler/tensor_program.hpp"

namespace svp::compiler {

// A dimension along which a use moves: `count` sticks or elements, `parts` of them in different scratchpads. What moves
// nothing is 0: `stride` when each part has one, `part_stride` when there is one part.
struct Walk {
  unsigned dimension = 0;
  std::uint32_t count = 1;
  std::int64_t stride = 0;
  std::uint32_t parts = 1;
  std::uint32_t part_stride = 0;

  bool same_way(const Walk& other) const;  // whatever the dimensions are called
};

// Along the dimensions with more than one stick or element. Empty: the use is of a kind that passes leave alone (parts
// of a stick, copies in several scratchpads).
std::optional<std::vector<Walk>> walks_of(const TensorUse& use, const std::vector<std::uint32_t>& extent);
// No place is reached twice.
bool are_apart(const std::vector<Walk>& walks);

// Whether writing the one may change the other. `extent`: of the operation that each belongs to.
bool may_touch(const TensorUse& a, const std::vector<std::uint32_t>& extent_of_a, const TensorUse& b,
               const std::vector<std::uint32_t>& extent_of_b);
// Whether the first one reaches every byte of the second one, as far as is seen at once.
bool covers(const TensorUse& a, const std::vector<std::uint32_t>& extent_of_a, const TensorUse& b,
            const std::vector<std::uint32_t>& extent_of_b);

}  // namespace svp::compiler
