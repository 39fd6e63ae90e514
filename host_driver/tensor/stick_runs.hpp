// SPDX-License-Identifier: Apache-2.0
// Which sticks of the card a transfer needs: linear DMA moves whole sticks, the loops of a transfer name elements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "host_driver/tensor/strided_loops.hpp"

namespace svp {

struct StickRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const StickRun&, const StickRun&) = default;
};

// In order, and no two runs adjacent.
struct StickRuns {
  std::vector<StickRun> all;
  // Of those the sticks of which the loops name some elements and not others. Only for loops that name each element
  // once.
  std::vector<StickRun> partial;
};

enum class LoopSide : std::uint8_t { Source, Destination };

// Of the card's side of loops of describe_transfer(); `eps`: elements per stick.
StickRuns sticks_of(std::span<const StridedLoops> nests, LoopSide side, std::int64_t eps);

// Joins runs that are `gap` sticks or less apart.
std::vector<StickRun> joined(std::span<const StickRun> runs, std::int64_t gap);

}  // namespace svp
