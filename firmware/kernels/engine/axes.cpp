// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/axes.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "shared/device_program_places.hpp"

namespace kernel::engine {

Axes::Axes(const Work& work) : rank_(work.operation.rank), operands_(work.operation.operand_count) {
  const program::OpcodeRow& row = *program::find_opcode(work.operation.opcode);  // it was checked
  for (unsigned d = 0; d < rank_; ++d) extent_[d] = work.operation.extent[d];
  for (unsigned o = 0; o < operands_; ++o) {
    const Operand& operand = work.operation.operand[o];
    base_[o] = work.address(operand);
    for (unsigned d = 0; d < rank_; ++d) {
      Axis& axis = axis_[o][d];
      if ((operand.present >> d & 1) != 0) axis.stride = operand.stride[d];
      if (operand.stick_dim == d) {
        axis.item = program::item_bytes(operand.format);
      }
      axis.lane_bits =
          static_cast<std::uint32_t>(std::countr_zero(program::positions_per_step(row, work.operation, o, d)));
      if (operand.base == program::Base::Scratchpad && operand.split[d] > 1) {
        axis.part = extent_[d] / operand.split[d];
        axis.part_step = std::uint64_t{operand.split_stride[d]} * program::kScratchpadStride;
      }
    }
  }
}

Combinations::Walk::Walk(const Combinations& combinations, const Axes& axes, std::uint64_t number)
    : combinations_(combinations), axes_(axes), sticks_(combinations.sticks(axes, number)) {
  if (combinations.count_ == 0) return;  // there is one only
  unsigned i = 0;
  combinations.for_each(number, [&](unsigned, std::uint32_t n) { index_[i++] = n; });
  unit_ = combinations.unit_[0];
  for (unsigned o = 0; o < axes.operands(); ++o) {
    const Axis& axis = axes.of(o, combinations.dimension_[0]);
    const bool is_whole = unit_ % (1u << axis.lane_bits) == 0;
    piece_ = std::gcd(piece_, is_whole ? axis.part : unit_);  // gcd(0, n) is n
    step_[o] = (unit_ >> axis.lane_bits) * axis.stride;
  }
  find_cut();
}

void Combinations::Walk::carry() {
  for (unsigned i = 0; i < combinations_.count_; ++i) {
    const std::uint64_t to = std::uint64_t{index_[i]} + combinations_.unit_[i];
    const bool is_inside = to < combinations_.extent_[i];
    move(i, is_inside ? static_cast<std::uint32_t>(to) : 0);
    if (is_inside) break;
  }
  find_cut();
}

void Combinations::Walk::move(unsigned i, std::uint32_t to) {
  for (unsigned o = 0; o < axes_.operands(); ++o) {
    const Axis& axis = axes_.of(o, combinations_.dimension_[i]);
    sticks_.of[o] += axis.stick(to) - axis.stick(index_[i]);
  }
  index_[i] = to;
}

void Combinations::Walk::find_cut() {
  const std::uint64_t end = combinations_.extent_[0];
  cut_ = piece_ == 0 ? end : std::min(end, (std::uint64_t{index_[0]} / piece_ + 1) * piece_);
}

Combinations output_sticks(const Work& work, const Axes& axes, std::uint8_t without) {
  const Operand& output = work.output();
  Combinations sticks;
  const auto add = [&](unsigned d, std::uint32_t unit) {
    if ((output.present & ~without & 1u << d) != 0) sticks.add(d, axes.extent(d), unit);
  };
  // Neighbours along the stick first.
  if (output.stick_dim != program::kNoDimension) add(output.stick_dim, program::lanes_of(output.format));
  for (unsigned d = 0; d < axes.rank(); ++d) {
    if (d != output.stick_dim) add(d, 1);
  }
  return sticks;
}

Copies::Copies(const Work& work, const Axes& axes) {
  for (unsigned d = 0; d < axes.rank(); ++d) {
    const Axis& axis = axes.of(axes.output(), d);
    if ((work.output().present >> d & 1) != 0 || axis.part == 0) continue;
    const unsigned known = count;
    for (std::uint32_t part = 1; part < axes.extent(d) / axis.part; ++part) {
      for (unsigned i = 0; i < known && count < program::kMaxSlices; ++i) {
        offset[count++] = offset[i] + part * axis.part_step;
      }
    }
  }
}

}  // namespace kernel::engine
