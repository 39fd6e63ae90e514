// SPDX-License-Identifier: Apache-2.0
// Addresses of single elements: for families whose operands are visited in an order of their own (reductions, MatMul,
// TopK, Gather, Scatter). An address is a base plus one term for each dimension, so that a family can keep the terms of
// the dimensions that do not change.
#pragma once

#include <cstdint>

#include "firmware/kernels/engine/work.hpp"

namespace kernel::engine {

// How one operand lies along one dimension. Of a weight only sticks can be addressed, not elements.
struct Axis {
  std::uint64_t stride = 0;     // bytes from one element, or from one stick, to the next; 0 when not present
  std::uint64_t part_step = 0;  // bytes from one part of a scratchpad operand to the next
  std::uint32_t part = 0;       // elements of one part; 0: not split
  std::uint32_t lane_bits = 0;  // logarithm of the elements of one stick
  std::uint32_t item = 0;       // bytes from one lane to the next; 0 unless it is the stick dimension

  // Bytes from index 0 to the stick that has index n.
  std::uint64_t stick(std::uint32_t n) const {
    std::uint64_t bytes = 0;
    if (part != 0) {
      bytes = n / part * part_step;
      n %= part;
    }
    return bytes + (n >> lane_bits) * stride;
  }
  // To the element itself.
  std::uint64_t element(std::uint32_t n) const {
    const std::uint32_t lane = (part != 0 ? n % part : n) & ((1u << lane_bits) - 1);
    return stick(n) + lane * item;
  }
  // To its stick, from the beginning of the part that has it.
  std::uint64_t in_part(std::uint32_t n) const { return ((part != 0 ? n % part : n) >> lane_bits) * stride; }
  // Another index may have another address.
  bool moves() const { return stride != 0 || part != 0 || item != 0; }
};

class Axes {
 public:
  explicit Axes(const Work& work);

  std::uint64_t base(unsigned operand) const { return base_[operand]; }
  const Axis& of(unsigned operand, unsigned d) const { return axis_[operand][d]; }
  bool moves(unsigned operand, unsigned d) const { return extent_[d] > 1 && axis_[operand][d].moves(); }
  std::uint32_t extent(unsigned d) const { return extent_[d]; }
  unsigned rank() const { return rank_; }
  unsigned operands() const { return operands_; }
  unsigned output() const { return operands_ - 1; }

 private:
  unsigned rank_;
  unsigned operands_;
  std::uint32_t extent_[program::kMaxRank]{};
  std::uint64_t base_[program::kMaxOperands]{};
  Axis axis_[program::kMaxOperands][program::kMaxRank]{};
};

// All combinations of the indices of some dimensions, as numbers from 0 up; the dimension that was added first changes
// fastest.
class Combinations {
 public:
  // Indices 0, unit, 2 * unit … below extent.
  void add(unsigned d, std::uint32_t extent, std::uint32_t unit = 1) {
    const std::uint64_t steps = (std::uint64_t{extent} + unit - 1) / unit;
    if (steps == 1) return;  // index 0 alone
    dimension_[count_] = d;
    unit_[count_] = unit;
    extent_[count_] = extent;
    steps_[count_++] = steps;
    total_ *= steps;
  }
  std::uint64_t total() const { return total_; }

  // The dimension that changes fastest; none when there is one combination only.
  struct Dimension {
    unsigned d;
    std::uint32_t unit;
    std::uint64_t steps;
  };
  bool has_dimensions() const { return count_ != 0; }
  Dimension fastest() const { return {dimension_[0], unit_[0], steps_[0]}; }
  Combinations without_fastest() const {
    Combinations others;
    for (unsigned i = 1; i < count_; ++i) others.add(dimension_[i], extent_[i], unit_[i]);
    return others;
  }

  // `visit` gets dimension and index, for each dimension.
  template <typename Visit>
  void for_each(std::uint64_t number, Visit visit) const {
    for (unsigned i = 0; i < count_; ++i) {
      visit(dimension_[i], static_cast<std::uint32_t>(number % steps_[i]) * unit_[i]);
      number /= steps_[i];
    }
  }
  // Bytes of an operand for a combination: to the stick, or to the element.
  std::uint64_t stick(const Axes& axes, unsigned operand, std::uint64_t number) const {
    std::uint64_t bytes = 0;
    for_each(number, [&](unsigned d, std::uint32_t n) { bytes += axes.of(operand, d).stick(n); });
    return bytes;
  }
  // Addresses of the sticks of all operands.
  struct Addresses {
    std::uint64_t of[program::kMaxOperands];
  };
  Addresses sticks(const Axes& axes, std::uint64_t number) const {
    Addresses addresses;
    for (unsigned o = 0; o < axes.operands(); ++o) addresses.of[o] = axes.base(o);
    for_each(number, [&](unsigned d, std::uint32_t n) {
      for (unsigned o = 0; o < axes.operands(); ++o) addresses.of[o] += axes.of(o, d).stick(n);
    });
    return addresses;
  }
  std::uint64_t element(const Axes& axes, unsigned operand, std::uint64_t number) const {
    std::uint64_t bytes = 0;
    for_each(number, [&](unsigned d, std::uint32_t n) { bytes += axes.of(operand, d).element(n); });
    return bytes;
  }
  std::uint32_t index(unsigned d, std::uint64_t number) const {
    std::uint32_t index = 0;
    for_each(number, [&](unsigned at, std::uint32_t n) { index = at == d ? n : index; });
    return index;
  }

  // The combinations from `number` on, one after the other: without the divisions of for_each.
  class Walk {
   public:
    Walk(const Combinations& combinations, const Axes& axes, std::uint64_t number);
    const Addresses& sticks() const { return sticks_; }
    std::uint32_t index(unsigned d) const {
      for (unsigned i = 0; i < combinations_.count_; ++i) {
        if (combinations_.dimension_[i] == d) return index_[i];
      }
      return 0;
    }
    void next() {
      const std::uint64_t to = std::uint64_t{index_[0]} + unit_;
      if (to >= cut_) return carry();
      for (unsigned o = 0; o < axes_.operands(); ++o) sticks_.of[o] += step_[o];
      index_[0] = static_cast<std::uint32_t>(to);
    }

   private:
    void carry();
    void move(unsigned i, std::uint32_t to);
    void find_cut();

    const Combinations& combinations_;
    const Axes& axes_;
    Addresses sticks_;
    std::uint32_t index_[program::kMaxRank]{};
    // Of the dimension that changes fastest: bytes from one index to the next, below `cut_`, which is the extent or the
    // next multiple of `piece_`.
    std::uint32_t unit_ = 0;
    std::uint64_t step_[program::kMaxOperands];
    std::uint32_t piece_ = 0;  // 0: all of it
    std::uint64_t cut_ = 0;
  };

 private:
  unsigned count_ = 0;
  std::uint64_t total_ = 1;
  unsigned dimension_[program::kMaxRank]{};
  std::uint32_t unit_[program::kMaxRank]{};
  std::uint32_t extent_[program::kMaxRank]{};
  std::uint64_t steps_[program::kMaxRank]{};
};

// Sticks of the output: every dimension that it has, but those of `without` (bits).
Combinations output_sticks(const Work& work, const Axes& axes, std::uint8_t without);

// Where the copies of an output lie that has parts along dimensions which it does not have. What is copied is computed
// for index 0 of these dimensions.
struct Copies {
  Copies(const Work& work, const Axes& axes);
  unsigned count = 1;
  std::uint64_t offset[program::kMaxSlices]{};  // bytes
};

// Items first … end - 1 of `total` belong to this core.
struct CoreShare {
  CoreShare(const Work& work, std::uint64_t total)
      : first(total * work.core / work.cores), end(total * (work.core + 1) / work.cores) {}
  std::uint64_t first;
  std::uint64_t end;
};

}  // namespace kernel::engine
