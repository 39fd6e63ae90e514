// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/axes.hpp"

#include <bit>

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
