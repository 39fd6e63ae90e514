// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/work.hpp"

namespace kernel::engine {

std::uint64_t Work::address(const Operand& operand) const {
  std::uint64_t base = 0;
  switch (operand.base) {
    case program::Base::None: break;
    case program::Base::Argument: base = places.argument[operand.argument]; break;
    case program::Base::Data: base = places.program + header.data_offset; break;
    case program::Base::Pool: base = places.pool; break;
    case program::Base::Scratchpad: base = places.scratchpads; break;
  }
  base += operand.offset;
  for (unsigned l = 0; l < depth; ++l) base += operand.loop_stride[l] * iteration[l];
  return base;
}

std::uint64_t sticks_of(const Operation& operation) {
  const Operand& output = operation.operand[operation.operand_count - 1];
  std::uint64_t sticks = 1;
  for (unsigned d = 0; d < operation.rank; ++d) {
    const bool in_lanes = d == output.stick_dim;
    const std::uint64_t lanes = in_lanes ? program::lanes_of(output.format) : 1;
    sticks *= (operation.extent[d] + lanes - 1) / lanes;
  }
  return sticks;
}

}  // namespace kernel::engine
