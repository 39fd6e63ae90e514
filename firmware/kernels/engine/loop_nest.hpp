// SPDX-License-Identifier: Apache-2.0
// The operands of one operation as nested loops over addresses. The iteration space is counted in units: a family says
// how many elements of each dimension it handles at a time (one, or those of a stick). What a family sees are runs: the
// address of each operand, how far it goes from one unit to the next, and how many units follow at these distances.
//
// Only dimensions of the output are counted. Scratchpad operands are cut at the borders of their parts; within such a
// segment all addresses are linear.
#pragma once

#include <algorithm>
#include <cstdint>

#include "firmware/kernels/engine/work.hpp"

namespace kernel::engine {

using program::kMaxOperands;
using program::kMaxRank;

// A part of the iteration space, in units.
struct Box {
  std::uint32_t first[kMaxRank];
  std::uint32_t count[kMaxRank];

  bool empty(unsigned rank) const {
    return std::any_of(count, count + rank, [](std::uint32_t n) { return n == 0; });
  }
};

// The part in which dimension d has the units first … end - 1.
Box part_of(Box box, unsigned d, std::uint32_t first, std::uint32_t end);

struct Run {
  std::uint64_t address[kMaxOperands];
  std::uint64_t step[kMaxOperands];  // bytes
  std::uint64_t count;
};

// One stick of an operand at a time.
struct StickUnits {
  explicit StickUnits(const Operand& operand) {
    for (unsigned d = 0; d < kMaxRank; ++d) elements[d] = d == operand.stick_dim ? lanes_of(operand.format) : 1;
  }
  std::uint32_t elements[kMaxRank];
};

class LoopNest {
 public:
  // unit[d]: elements of dimension d in one unit, 1 or a multiple of the lanes of every operand that has its sticks
  // along d. Of Dl16ToFp8Weight a multiple of what a stick of the weight holds.
  // Operands in front of `first_operand` are left out: runs say nothing of them.
  LoopNest(const Work& work, const std::uint32_t (&unit)[kMaxRank], unsigned first_operand = 0);

  // A scratchpad operand is cut within a unit.
  Refusal refusal() const { return refusal_; }

  unsigned rank() const { return rank_; }
  std::uint32_t unit(unsigned d) const { return unit_[d]; }
  Box whole() const;
  // The part of this core. The parts of all cores do not write to the same sticks.
  Box share() const;

  template <typename Visit>
  void for_each_run(const Box& box, Visit visit) const {
    Walk walk(*this, box);
    Run run;
    while (walk.next(run)) visit(run);
  }

  // The runs of a box, one after the other.
  class Walk {
   public:
    Walk(const LoopNest& nest, const Box& box);
    bool next(Run& run);

   private:
    struct Loop {
      std::uint32_t count;
      std::uint64_t step[kMaxOperands];
    };
    bool begin_segment();
    bool advance_segment();
    void build_loops();
    void add_loop(unsigned d, std::uint32_t count);
    void merge_loops();
    void choose_innermost();
    bool before(unsigned d, const Loop& loop) const;

    const LoopNest& nest_;
    const Box& box_;
    std::uint32_t at_[kMaxRank];    // where the segment begins
    std::uint32_t size_[kMaxRank];  // of the segment
    std::uint64_t address_[kMaxOperands];
    Loop loop_[kMaxRank];  // [0] is the innermost
    std::uint32_t iteration_[kMaxRank];
    unsigned loops_;
    bool in_segment_;
    bool ended_;
  };

 private:
  void add_operand(unsigned o);
  void cut(unsigned o, unsigned d);
  std::uint64_t place(unsigned o, unsigned d, std::uint32_t index) const;

  const Work& work_;
  unsigned rank_;
  unsigned first_operand_;
  unsigned operands_;
  Refusal refusal_;
  std::uint32_t unit_[kMaxRank];
  std::uint32_t count_[kMaxRank];
  std::uint32_t segment_[kMaxRank];  // units between two cuts
  std::uint64_t address_[kMaxOperands];
  std::uint64_t stride_[kMaxOperands][kMaxRank];     // bytes from one unit to the next
  std::uint32_t part_[kMaxOperands][kMaxRank];       // units of one part; 0: not split
  std::uint64_t part_step_[kMaxOperands][kMaxRank];  // bytes from one part to the next
};

}  // namespace kernel::engine
