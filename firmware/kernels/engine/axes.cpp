// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/axes.hpp"

#include <bit>
#include <numeric>

namespace kernel::engine {

Axes::Axes(const Work& work) : rank_(work.operation.rank), operands_(work.operation.operand_count) {
  for (unsigned d = 0; d < rank_; ++d) extent_[d] = work.operation.extent[d];
  for (unsigned o = 0; o < operands_; ++o) {
    const Operand& operand = work.operation.operand[o];
    base_[o] = work.address(operand);
    for (unsigned d = 0; d < rank_; ++d) {
      Axis& axis = axis_[o][d];
      if ((operand.present >> d & 1) != 0) axis.stride = operand.stride[d];
      if (operand.stick_dim == d) {
        axis.item = program::item_bytes(operand.format);
        axis.lane_bits = static_cast<std::uint32_t>(std::countr_zero(program::lanes_of(operand.format)));
      }
      if (operand.base == program::Base::Scratchpad && operand.split[d] > 1) {
        axis.part = extent_[d] / operand.split[d];
        axis.part_step = std::uint64_t{operand.split_stride[d]} * work.header.scratchpad_bytes;
      }
    }
  }
}

std::uint32_t Axes::unit(unsigned d) const {
  std::uint32_t unit = extent_[d];
  for (unsigned o = 0; o < operands_; ++o) {
    if (axis_[o][d].stride != 0 || axis_[o][d].item != 0) return 1;
    if (axis_[o][d].part != 0) unit = std::gcd(unit, axis_[o][d].part);
  }
  return unit;
}

}  // namespace kernel::engine
