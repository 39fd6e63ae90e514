// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/clip_loops.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace svp {
namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;  // source, destination

std::vector<Pair> moves_of(std::span<const StridedLoops> nests) {
  std::vector<Pair> moves;
  for (const StridedLoops& nest : nests) {
    for (std::int64_t i = 0; i < nest.element_count(); ++i) {
      Pair move{nest.src_offset, nest.dst_offset};
      std::int64_t rest = i;
      for (std::size_t d = 0; d < nest.size.size(); ++d) {
        const std::int64_t index = rest % nest.size[d];
        rest /= nest.size[d];
        move.first += index * nest.src_stride[d];
        move.second += index * nest.dst_stride[d];
      }
      moves.push_back(move);
    }
  }
  std::ranges::sort(moves);
  return moves;
}

TEST(ClipLoops, PartsMoveExactlyWhatLiesInTheRange) {
  std::mt19937 random(std::random_device{}());
  const auto below = [&](int bound) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(bound)); };
  for (int round = 0; round < 500; ++round) {
    std::vector<StridedLoops> nests(1 + static_cast<std::size_t>(below(3)));
    for (StridedLoops& nest : nests) {
      for (std::int64_t depth = below(5); depth > 0; --depth) {
        nest.size.push_back(below(8));
        nest.src_stride.push_back(below(40) - 10);
        nest.dst_stride.push_back(below(40) - 10);
      }
      nest.src_offset = 100 + below(100);
      nest.dst_offset = 100 + below(100);
    }
    const LoopSide side = below(2) == 0 ? LoopSide::Source : LoopSide::Destination;
    const std::int64_t first = below(300);
    const std::int64_t end = first + 1 + below(300);
    auto expected = moves_of(nests);
    std::erase_if(expected, [&](const Pair& move) {
      const std::int64_t at = side == LoopSide::Source ? move.first : move.second;
      return at < first || at >= end;
    });
    for (Pair& move : expected) (side == LoopSide::Source ? move.first : move.second) -= first;
    ASSERT_EQ(moves_of(clipped(nests, side, first, end)), expected) << round;
  }
}

TEST(ClipLoops, AChunkOfALargeTensorTakesFewLoops) {
  // [R, C] in default layout: lanes, rows, tiles. A chunk of 8 MiB begins and ends inside of a tile.
  constexpr std::int64_t kRows = 40'000;
  const StridedLoops nest{.size = {64, kRows, 64}, .src_stride = {1, 4096, 64}, .dst_stride = {1, 64, 64 * kRows}};
  constexpr std::int64_t kChunk = 4 * 1024 * 1024;
  std::int64_t elements = 0;
  std::size_t most = 0;
  for (std::int64_t at = 0; at < nest.element_count(); at += kChunk) {
    const auto parts = clipped({&nest, 1}, LoopSide::Destination, at, at + kChunk);
    for (const StridedLoops& part : parts) elements += part.element_count();
    most = std::max(most, parts.size());
  }
  EXPECT_EQ(elements, nest.element_count());
  EXPECT_LE(most, 64U);
}

}  // namespace
}  // namespace svp
