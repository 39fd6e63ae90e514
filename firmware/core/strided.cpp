// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/strided.hpp"

namespace fw {

using wire::StridedLevel;
using wire::StridedPayload;

namespace {

constexpr unsigned kLargestElement = 8;

// a · count is what the next level steps by at both ends. Strides are below 2^62 bytes times counts: nothing wraps that
// was judged; what wraps in a level of one step has been left out.
bool goes_on(const StridedLevel& below, const StridedLevel& above) {
  const auto count = static_cast<std::int64_t>(below.count);
  return above.source_stride == below.source_stride * count &&
         above.destination_stride == below.destination_stride * count;
}

// Two elements in one: everything else must step over whole pairs.
bool pairs(const StridedPayload& loops, std::uint64_t offsets) {
  const StridedLevel& inner = loops.levels[0];
  if (loops.element_bytes >= kLargestElement || inner.source_stride != 1 || inner.destination_stride != 1) return false;
  if (inner.count % 2 != 0 || offsets % (2 * loops.element_bytes) != 0) return false;
  std::int64_t strides = 0;
  for (unsigned i = 1; i < loops.depth; ++i) {
    strides |= loops.levels[i].source_stride | loops.levels[i].destination_stride;
  }
  return strides % 2 == 0;
}

void drop_and_join(StridedPayload& loops) {
  unsigned kept = 0;
  for (unsigned i = 0; i < loops.depth; ++i) {
    const StridedLevel level = loops.levels[i];
    if (level.count == 1) continue;
    if (kept != 0 && goes_on(loops.levels[kept - 1], level)) {
      loops.levels[kept - 1].count *= level.count;
    } else {
      loops.levels[kept++] = level;
    }
  }
  if (kept == 0) loops.levels[kept++] = {1, 1, 1};
  loops.depth = kept;
}

}  // namespace

void merge_levels(StridedPayload& loops, std::uint64_t offsets) {
  drop_and_join(loops);
  while (pairs(loops, offsets)) {
    loops.element_bytes *= 2;
    loops.levels[0].count /= 2;
    for (unsigned i = 1; i < loops.depth; ++i) {
      loops.levels[i].source_stride /= 2;
      loops.levels[i].destination_stride /= 2;
    }
    if (loops.levels[0].count == 1) drop_and_join(loops);
  }
}

StridedWalk::StridedWalk(const StridedPayload& loops, std::uint64_t element) : depth_(loops.depth) {
  levels_[1] = {1, 0, 0};  // of a nest of one level
  index_[1] = 0;
  const auto bytes = static_cast<std::int64_t>(loops.element_bytes);
  for (unsigned i = 0; i < depth_; ++i) {
    const StridedLevel& level = loops.levels[i];
    levels_[i] = {level.count, level.source_stride * bytes, level.destination_stride * bytes};
    index_[i] = element % level.count;
    element /= level.count;
    source_ += static_cast<std::int64_t>(index_[i]) * levels_[i].source;
    destination_ += static_cast<std::int64_t>(index_[i]) * levels_[i].destination;
  }
  dense_ = loops.levels[0].source_stride == 1 && loops.levels[0].destination_stride == 1;
}

void StridedWalk::advance_rows(std::uint64_t rows) {
  const auto before = static_cast<std::int64_t>(rows - 1);
  source_ += before * levels_[1].source;
  destination_ += before * levels_[1].destination;
  index_[1] += rows - 1;
  advance(row());
}

void StridedWalk::next_row() {
  for (unsigned i = 0;; ++i) {  // bounded: the nest has depth_ levels
    const Level& done = levels_[i];
    const auto count = static_cast<std::int64_t>(done.count);
    source_ -= count * done.source;
    destination_ -= count * done.destination;
    index_[i] = 0;
    if (i + 1 == depth_) return;
    source_ += levels_[i + 1].source;
    destination_ += levels_[i + 1].destination;
    if (++index_[i + 1] != levels_[i + 1].count) return;
  }
}

}  // namespace fw
