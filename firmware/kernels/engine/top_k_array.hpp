// SPDX-License-Identifier: Apache-2.0
// Lists of merits by the compute array.
#pragma once

#include <cstddef>
#include <cstdint>

#include "firmware/kernels/engine/work.hpp"

namespace kernel::engine {

// In the working memory. The lists of a line's merits lie one behind the other; each has a word for each rank.
struct TopKMemory {
  static constexpr std::size_t kRestWords = wire::kStickBytes / sizeof(std::uint64_t);
  std::uint64_t row[wire::array::kMaxLines];  // addresses of the rows' first sticks
  std::uint64_t to[wire::array::kMaxLines];   // and of the rows of the output
  std::uint64_t rest[kRestWords];             // the first: of the sticks of a row that are left
  std::uint64_t merit[kWorkingBytes / sizeof(std::uint64_t) - 2 * wire::array::kMaxLines - kRestWords];
};
static_assert(sizeof(TopKMemory) == kWorkingBytes && offsetof(TopKMemory, merit) % wire::kStickBytes == 0);

// Rows of sticks that are searched: each is one line of `extent` elements, or its lanes are lines of their own.
struct TopKRows {
  program::Format format;
  std::uint32_t ranks;
  std::uint32_t extent;
  std::uint32_t in_stick;  // elements of one line in a stick; 1: lanes are lines of their own
  std::uint64_t step;      // bytes from one stick to the next; equal ones, when `even`
  bool even;
};

class TopKArray {
 public:
  TopKArray(const Work& work, const TopKRows& rows);

  // How many of `rows` rows of so many lines one request may have; 0: they are the engine's.
  std::uint32_t most_rows(std::uint64_t rows, std::uint32_t lines) const;
  std::uint32_t sticks_of_row() const { return sticks_; }
  // Of one line in so many sticks of a row.
  std::uint32_t elements(std::uint64_t sticks) const {
    return sticks == sticks_ ? rows_.extent : static_cast<std::uint32_t>(sticks) * rows_.in_stick;
  }
  // Of rows first … end - 1 of the working memory, each of so many lines, the lists get the merits of elements; those
  // of row `first` are the first ones. How many sticks they include, of the rows one after the other: at least a row,
  // or the array has refused.
  std::uint64_t include(std::uint32_t first, std::uint32_t end, std::uint32_t lines);

 private:
  // Whole rows, or the sticks of one row from `stick` on.
  struct Part {
    std::uint32_t row;
    std::uint32_t rows;
    std::uint32_t stick;
    std::uint32_t sticks;
  };
  Part part_behind(std::uint64_t done, std::uint32_t rows) const;
  wire::array::Outcome ask(const Part& part, std::uint32_t first, std::uint32_t lines);

  const Work& work_;
  TopKRows rows_;
  std::uint32_t sticks_;
  bool refused_;
};

}  // namespace kernel::engine
