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
    case program::Base::Tables: base = places.tables; break;
  }
  base += operand.offset;
  for (unsigned l = 0; l < depth; ++l) base += operand.loop_stride[l] * iteration[l];
  return base;
}

namespace {

// Elements that the operation visits, in sticks of its output.
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

// Nanoseconds for a stick: kernel_engine_costs and kernel_engine_family_costs, 2026-11-25, rounded.
std::uint64_t cost_of_stick(const Operation& operation) {
  const program::Format format = operation.operand[operation.operand_count - 1].format;
  switch (operation.opcode) {
    case Opcode::Copy: return format == operation.operand[0].format ? 12 : 200;
    case Opcode::MatMul:
    case Opcode::MatMulFp8: return 30;
    case Opcode::Dl16ToFp32:
    case Opcode::Fp32ToDl16:
    case Opcode::Dl16ToFp8:
    case Opcode::Fp8ToDl16:
    case Opcode::Dl16ToFp8Weight:
    case Opcode::LayerNormNorm: return 1000;
    case Opcode::TopKValue:
    case Opcode::TopKIndex: return 2000;
    default: break;
  }
  if (operation.opcode < Opcode::Exp || operation.opcode > Opcode::Softplus) return 80;
  return format == program::Format::Fp32 ? 10'000 : 120;
}

}  // namespace

std::uint64_t cost_of(const Operation& operation) { return sticks_of(operation) * cost_of_stick(operation); }

}  // namespace kernel::engine
