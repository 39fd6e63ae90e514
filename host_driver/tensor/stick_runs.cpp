// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/stick_runs.hpp"

#include <algorithm>
#include <utility>

namespace svp {
namespace {

// `count` sticks from `first`, with so many named elements in each.
struct StickUse {
  std::int64_t first;
  std::int64_t count;
  std::int64_t elements;
};

class StickList {
 public:
  explicit StickList(std::int64_t eps) : eps_(eps) {}

  // Elements from … from + count − 1.
  void add(std::int64_t from, std::int64_t count) {
    while (count > 0) {
      const std::int64_t lane = from % eps_;
      if (lane == 0 && count >= eps_) {
        uses_.push_back({from / eps_, count / eps_, eps_});
        from += count / eps_ * eps_;
        count %= eps_;
        continue;
      }
      const std::int64_t here = std::min(count, eps_ - lane);
      add_to_stick(from / eps_, here);
      from += here;
      count -= here;
    }
  }

  StickRuns runs() {
    // Loops mostly come in the order of the sticks.
    if (!std::ranges::is_sorted(uses_, {}, &StickUse::first)) std::ranges::sort(uses_, {}, &StickUse::first);
    StickRuns runs;
    for (std::size_t i = 0; i < uses_.size();) {
      StickUse use = uses_[i++];
      // Several uses of one stick; of several sticks only where elements are named more than once.
      for (; i < uses_.size() && uses_[i].first == use.first; ++i) {
        use.count = std::max(use.count, uses_[i].count);
        use.elements += uses_[i].elements;
      }
      append(runs.all, {use.first, use.count});
      if (use.elements < eps_) append(runs.partial, {use.first, use.count});
    }
    return runs;
  }

 private:
  void add_to_stick(std::int64_t stick, std::int64_t elements) {
    if (!uses_.empty() && uses_.back().first == stick && uses_.back().count == 1) {
      uses_.back().elements += elements;
    } else {
      uses_.push_back({stick, 1, elements});
    }
  }
  static void append(std::vector<StickRun>& runs, const StickRun& run) {
    if (runs.empty() || runs.back().first + runs.back().count < run.first) {
      runs.push_back(run);
      return;
    }
    StickRun& last = runs.back();
    last.count = std::max(last.first + last.count, run.first + run.count) - last.first;
  }

  const std::int64_t eps_;
  std::vector<StickUse> uses_;
};

struct SideLoop {
  std::int64_t count;
  std::int64_t step;
};

// Without what names the same elements again; the smallest step first.
std::vector<SideLoop> loops_of(const StridedLoops& nest, LoopSide side) {
  const auto& stride = side == LoopSide::Source ? nest.src_stride : nest.dst_stride;
  std::vector<SideLoop> loops;
  for (std::size_t d = 0; d < nest.size.size(); ++d) {
    if (nest.size[d] != 1 && stride[d] != 0) loops.push_back({nest.size[d], stride[d]});
  }
  std::ranges::sort(loops, {}, &SideLoop::step);
  return loops;
}

void add_nest(StickList& list, const StridedLoops& nest, LoopSide side) {
  if (nest.element_count() == 0) return;
  std::vector<SideLoop> loops = loops_of(nest, side);
  std::int64_t dense = 1;
  std::size_t inner = 0;
  while (inner < loops.size() && loops[inner].step == dense) dense *= loops[inner++].count;
  loops.erase(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(inner));

  std::int64_t at = side == LoopSide::Source ? nest.src_offset : nest.dst_offset;
  std::vector<std::int64_t> index(loops.size(), 0);
  for (bool more = true; more;) {
    list.add(at, dense);
    more = false;
    for (std::size_t d = 0; d < loops.size() && !more; ++d) {
      more = ++index[d] < loops[d].count;
      at += more ? loops[d].step : (1 - loops[d].count) * loops[d].step;
      if (!more) index[d] = 0;
    }
  }
}

}  // namespace

StickRuns sticks_of(std::span<const StridedLoops> nests, LoopSide side, std::int64_t eps) {
  StickList list(eps);
  for (const StridedLoops& nest : nests) add_nest(list, nest, side);
  return list.runs();
}

std::vector<StickRun> joined(std::span<const StickRun> runs, std::int64_t gap) {
  std::vector<StickRun> result;
  for (const StickRun& run : runs) {
    if (!result.empty() && run.first - (result.back().first + result.back().count) <= gap) {
      result.back().count = run.first + run.count - result.back().first;
    } else {
      result.push_back(run);
    }
  }
  return result;
}

}  // namespace svp
