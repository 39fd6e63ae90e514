// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/loop_nest.hpp"

#include <numeric>

namespace kernel::engine {
namespace {

// A run is preferably along the smallest step of the output; shorter than this, along the longest loop.
constexpr std::uint32_t kLongRun = 16;

// Positions along a dimension that share one step of its stride.
std::uint32_t positions_of_step(const Operation& operation, const Operand& operand, bool is_weight, unsigned d) {
  if (is_weight && (operation.reduced >> d & 1) != 0) return 2;
  if (operand.stick_dim != d) return 1;
  return program::lanes_of(operand.format) / (is_weight ? 2 : 1);
}

}  // namespace

Box part_of(Box box, unsigned d, std::uint32_t first, std::uint32_t end) {
  const std::uint32_t box_end = box.first[d] + box.count[d];
  box.first[d] = std::clamp(first, box.first[d], box_end);
  box.count[d] = std::clamp(end, box.first[d], box_end) - box.first[d];
  return box;
}

LoopNest::LoopNest(const Work& work, const std::uint32_t (&unit)[kMaxRank], unsigned first_operand)
    : work_(work), rank_(work.operation.rank), first_operand_(first_operand), operands_(work.operation.operand_count) {
  for (unsigned d = 0; d < rank_; ++d) {
    unit_[d] = unit[d];
    const std::uint32_t extent = work.operation.extent[d];
    count_[d] = extent / unit[d] + (extent % unit[d] != 0 ? 1 : 0);  // a sum could overflow
    segment_[d] = count_[d];
  }
  for (unsigned o = first_operand; o < operands_; ++o) add_operand(o);
}

void LoopNest::add_operand(unsigned o) {
  const Operand& operand = work_.operation.operand[o];
  address_[o] = work_.address(operand);
  // The output has copies along what it has not; all come from the first position.
  const unsigned counted = o == operands_ - 1 ? 0xFFu : work_.output().present;
  const bool is_weight = work_.operation.opcode == Opcode::Dl16ToFp8Weight && o == operands_ - 1;
  const bool may_be_split = operand.base == program::Base::Scratchpad;
  for (unsigned d = 0; d < rank_; ++d) {
    part_[o][d] = 0;
    stride_[o][d] = 0;
    if ((counted >> d & 1) == 0) continue;
    if ((operand.present >> d & 1) != 0) {
      stride_[o][d] = operand.stride[d] * (unit_[d] / positions_of_step(work_.operation, operand, is_weight, d));
    }
    if (may_be_split && operand.split[d] > 1) cut(o, d);
  }
}

void LoopNest::cut(unsigned o, unsigned d) {
  const Operand& operand = work_.operation.operand[o];
  const std::uint32_t elements = work_.operation.extent[d] / operand.split[d];
  if (elements % unit_[d] != 0) {
    refusal_ = work_.refuse(Where::Unsupported, o);
    return;
  }
  part_[o][d] = elements / unit_[d];
  part_step_[o][d] = std::uint64_t{operand.split_stride[d]} * program::kScratchpadStride;
  segment_[d] = std::gcd(segment_[d], part_[o][d]);
}

std::uint64_t LoopNest::place(unsigned o, unsigned d, std::uint32_t index) const {
  const std::uint32_t part = part_[o][d];
  if (part == 0) return index * stride_[o][d];
  return index / part * part_step_[o][d] + index % part * stride_[o][d];
}

Box LoopNest::whole() const {
  Box box;
  for (unsigned d = 0; d < rank_; ++d) {
    box.first[d] = 0;
    box.count[d] = count_[d];
  }
  return box;
}

Box LoopNest::share() const {
  Box box = whole();
  if (work_.cores == 1) return box;
  const unsigned output = operands_ - 1;
  // The dimension that gives the busiest core the smallest part.
  unsigned chosen = rank_;
  std::uint32_t size = 1;
  std::uint64_t pieces = 1;
  std::uint64_t busiest = 1;
  for (unsigned d = 0; d < rank_; ++d) {
    const bool absent = stride_[output][d] == 0;
    if (absent && part_[output][d] == 0) continue;  // all of it goes to one place
    const std::uint32_t piece = absent ? part_[output][d] : segment_[d] < count_[d] ? segment_[d] : 1;
    const std::uint64_t n = count_[d] / piece;
    const std::uint64_t most = (n + work_.cores - 1) / work_.cores;
    if (n * busiest <= pieces * most) continue;
    chosen = d;
    size = piece;
    pieces = n;
    busiest = most;
  }
  if (chosen == rank_) {
    if (work_.core != 0) box.count[0] = 0;
    return box;
  }
  const auto first = static_cast<std::uint32_t>(pieces * work_.core / work_.cores);
  const auto end = static_cast<std::uint32_t>(pieces * (work_.core + 1) / work_.cores);
  box.first[chosen] = first * size;
  box.count[chosen] = (end - first) * size;
  return box;
}

// ---- the walk -------------------------------------------------------------------------------------------------------

LoopNest::Walk::Walk(const LoopNest& nest, const Box& box)
    : nest_(nest), box_(box), loops_(0), in_segment_(false), ended_(box.empty(nest.rank_)) {
  for (unsigned d = 0; d < nest.rank_; ++d) {
    at_[d] = box.first[d];
    size_[d] = std::min(box.count[d], nest.segment_[d] - box.first[d] % nest.segment_[d]);
  }
}

bool LoopNest::Walk::next(Run& run) {
  if (ended_) return false;
  if (!in_segment_) {
    build_loops();
    in_segment_ = true;
  } else {
    unsigned l = 1;
    while (l < loops_ && ++iteration_[l] == loop_[l].count) {
      for (unsigned o = nest_.first_operand_; o < nest_.operands_; ++o)
        address_[o] -= loop_[l].step[o] * (loop_[l].count - 1);
      iteration_[l++] = 0;
    }
    if (l < loops_) {
      for (unsigned o = nest_.first_operand_; o < nest_.operands_; ++o) address_[o] += loop_[l].step[o];
    } else if (advance_segment()) {
      build_loops();
    } else {
      ended_ = true;
      return false;
    }
  }
  for (unsigned o = nest_.first_operand_; o < nest_.operands_; ++o) {
    run.address[o] = address_[o];
    run.step[o] = loop_[0].step[o];
  }
  run.count = loop_[0].count;
  return true;
}

// To the next segment, if there is one: the dimensions count like the digits of a number.
bool LoopNest::Walk::advance_segment() {
  for (unsigned d = 0; d < nest_.rank_; ++d) {
    const std::uint32_t end = box_.first[d] + box_.count[d];
    at_[d] += size_[d];
    if (at_[d] < end) {
      size_[d] = std::min(nest_.segment_[d], end - at_[d]);
      return true;
    }
    at_[d] = box_.first[d];
    size_[d] = std::min(box_.count[d], nest_.segment_[d] - at_[d] % nest_.segment_[d]);
  }
  return false;
}

void LoopNest::Walk::build_loops() {
  loops_ = 0;
  for (unsigned o = nest_.first_operand_; o < nest_.operands_; ++o) {
    address_[o] = nest_.address_[o];
    for (unsigned d = 0; d < nest_.rank_; ++d) address_[o] += nest_.place(o, d, at_[d]);
  }
  for (unsigned d = 0; d < nest_.rank_; ++d) {
    if (size_[d] > 1) add_loop(d, size_[d]);
  }
  if (loops_ == 0) {
    loop_[0].count = 1;
    for (unsigned o = nest_.first_operand_; o < nest_.operands_; ++o) loop_[0].step[o] = 0;
    loops_ = 1;
  }
  merge_loops();
  choose_innermost();
  std::fill_n(iteration_, loops_, 0u);
}

// Sorted by the step of the output. A dimension that no operand has is left out: its iterations are all the same.
void LoopNest::Walk::add_loop(unsigned d, std::uint32_t count) {
  std::uint64_t any = 0;
  for (unsigned o = nest_.first_operand_; o < nest_.operands_; ++o) any |= nest_.stride_[o][d];
  if (any == 0) return;
  unsigned at = loops_++;
  for (; at > 0 && before(d, loop_[at - 1]); --at) loop_[at] = loop_[at - 1];
  loop_[at].count = count;
  for (unsigned o = nest_.first_operand_; o < nest_.operands_; ++o) loop_[at].step[o] = nest_.stride_[o][d];
}

// Dimension d belongs inside of the loop. Outputs decide; what the output does not have goes outside.
bool LoopNest::Walk::before(unsigned d, const Loop& loop) const {
  const unsigned output = nest_.operands_ - 1;
  const std::uint64_t step = nest_.stride_[output][d];
  if (step != loop.step[output]) return step - 1 < loop.step[output] - 1;
  return nest_.stride_[nest_.first_operand_][d] < loop.step[nest_.first_operand_];
}

void LoopNest::Walk::merge_loops() {
  unsigned kept = 0;
  for (unsigned l = 1; l < loops_; ++l) {
    Loop& inner = loop_[kept];
    const Loop& outer = loop_[l];
    bool follows = true;
    for (unsigned o = nest_.first_operand_; o < nest_.operands_; ++o)
      follows = follows && outer.step[o] == inner.step[o] * inner.count;
    if (follows) {
      inner.count *= outer.count;
    } else {
      loop_[++kept] = outer;
    }
  }
  loops_ = kept + 1;
}

void LoopNest::Walk::choose_innermost() {
  unsigned longest = 0;
  for (unsigned l = 0; l < loops_ && loop_[longest].count < kLongRun; ++l) {
    if (loop_[l].count > loop_[longest].count) longest = l;
  }
  if (longest != 0) std::swap(loop_[0], loop_[longest]);
}

}  // namespace kernel::engine
