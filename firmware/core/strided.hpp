// SPDX-License-Identifier: Apache-2.0
// The loops of a strided transfer while it is under way: which element comes next and where it lies. The nest has been
// judged (control_block_check.cpp); offsets are bytes from where the indices 0, 0, … lie, and may be negative.
#pragma once

#include <array>
#include <cstdint>

#include "shared/control_block.hpp"

namespace fw {

// Rewrites loops so that there are fewer and longer rows, over the same elements in the same order: without levels of
// one step, with levels that go on where the one below ends made one, and with dense elements joined to larger ones as
// far as every place allows. `offsets`: of both ends, or-ed.
void merge_levels(wire::StridedPayload& loops, std::uint64_t offsets);

// Element after element in the order of the loops. A row is what is left of a pass of the innermost loop.
class StridedWalk {
 public:
  StridedWalk(const wire::StridedPayload& loops, std::uint64_t element);

  std::int64_t source() const { return source_; }
  std::int64_t destination() const { return destination_; }
  std::int64_t source_step() const { return levels_[0].source; }
  std::int64_t destination_step() const { return levels_[0].destination; }
  // Of a row: bytes that follow each other at both ends.
  bool dense() const { return dense_; }
  std::uint64_t row() const { return levels_[0].count - index_[0]; }
  // Whole rows from here on that are equally far apart; 1 in the middle of a row.
  std::uint64_t rows() const { return index_[0] == 0 ? levels_[1].count - index_[1] : 1; }
  std::int64_t source_row_step() const { return levels_[1].source; }
  std::int64_t destination_row_step() const { return levels_[1].destination; }
  // By at most row(). Behind the last element comes the first.
  void advance(std::uint64_t elements) {
    const Level& inner = levels_[0];
    source_ += static_cast<std::int64_t>(elements) * inner.source;
    destination_ += static_cast<std::int64_t>(elements) * inner.destination;
    index_[0] += elements;
    if (index_[0] == inner.count) next_row();
  }
  // By at most rows().
  void advance_rows(std::uint64_t rows);

 private:
  struct Level {
    std::uint64_t count;
    std::int64_t source;  // bytes a step
    std::int64_t destination;
  };
  void next_row();

  std::array<Level, wire::kStridedLevels> levels_;
  std::array<std::uint64_t, wire::kStridedLevels> index_;
  unsigned depth_;
  bool dense_;
  std::int64_t source_ = 0;
  std::int64_t destination_ = 0;
};

}  // namespace fw
