// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/clip_loops.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace svp {
namespace {

struct ClipRange {
  LoopSide side;
  std::int64_t first;
  std::int64_t end;

  const std::vector<std::int64_t>& stride(const StridedLoops& nest) const {
    return side == LoopSide::Source ? nest.src_stride : nest.dst_stride;
  }
  std::int64_t& offset(StridedLoops& nest) const {
    return side == LoopSide::Source ? nest.src_offset : nest.dst_offset;
  }
};

// The loop that reaches farthest on the clipped side, and where the nest's elements lie there.
struct NestReach {
  std::int64_t low;
  std::int64_t high;  // of the last element
  std::size_t widest = 0;
};

NestReach reach_of(const StridedLoops& nest, const ClipRange& range) {
  const std::int64_t offset = range.side == LoopSide::Source ? nest.src_offset : nest.dst_offset;
  NestReach reach{offset, offset};
  std::int64_t widest = -1;
  for (std::size_t d = 0; d < nest.size.size(); ++d) {
    const std::int64_t step = (nest.size[d] - 1) * range.stride(nest)[d];
    (step < 0 ? reach.low : reach.high) += step;
    if (std::abs(step) > widest) {
      widest = std::abs(step);
      reach.widest = d;
    }
  }
  return reach;
}

// Halves the widest loop until each part lies on one side of each end of the range.
void clip(StridedLoops nest, const ClipRange& range, std::vector<StridedLoops>& parts) {
  const NestReach reach = reach_of(nest, range);
  if (reach.high < range.first || reach.low >= range.end) return;
  if (reach.low >= range.first && reach.high < range.end) {
    range.offset(nest) -= range.first;
    parts.push_back(std::move(nest));
    return;
  }
  const std::size_t d = reach.widest;
  StridedLoops second = nest;
  const std::int64_t half = nest.size[d] / 2;
  nest.size[d] = half;
  second.size[d] -= half;
  second.src_offset += half * nest.src_stride[d];
  second.dst_offset += half * nest.dst_stride[d];
  clip(std::move(nest), range, parts);
  clip(std::move(second), range, parts);
}

}  // namespace

std::vector<StridedLoops> clipped(std::span<const StridedLoops> nests, LoopSide side, std::int64_t first,
                                  std::int64_t end) {
  const ClipRange range{side, first, end};
  std::vector<StridedLoops> parts;
  for (const StridedLoops& nest : nests) {
    if (nest.element_count() != 0) clip(nest, range, parts);
  }
  return parts;
}

}  // namespace svp
