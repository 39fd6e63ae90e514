// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/reduction.hpp"

#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/reductions.hpp"

namespace kernel::engine {
namespace {

bool masks_are_along(const Operation& operation, unsigned reduced) {
  for (unsigned i = 0; i < operation.mask_count; ++i) {
    if (operation.mask[i].dimension != reduced) return false;
  }
  return true;
}

}  // namespace

Reduction::Reduction(const Work& work)
    : reduced_(static_cast<unsigned>(std::countr_zero(work.operation.reduced))),
      axes_(work),
      axis_(axes_.of(0, reduced_)),
      extent_(axes_.extent(reduced_)),
      along_stick_(work.operation.operand[0].stick_dim == reduced_),
      spreads_(work.output().stick_dim == program::kNoDimension),
      spans_(work.operation, reduced_),
      copies_(work, axes_),
      lines_(output_sticks(work, axes_, work.operation.reduced)),
      stick_dim_(work.output().stick_dim),
      lanes_(program::lanes_of(work.output().format)),
      share_(work, lines_.total()) {
  const Operand& input = work.operation.operand[0];
  const bool sticks_match = along_stick_ ? spreads_ : input.stick_dim == work.output().stick_dim;
  if (!sticks_match || !masks_are_along(work.operation, reduced_)) refusal_ = work.refuse(Where::Unsupported);
}

Line Reduction::line(std::uint64_t number) const {
  return line_of(lines_.sticks(axes_, number), spreads_ ? 0 : lines_.index(stick_dim_, number));
}

Refusal reduction(const Work& work) {
  Reduction lines(work);
  if (!lines.refusal().ok()) return lines.refusal();
  const program::Format format = work.output().format;
  if (format != work.operation.operand[0].format) return work.refuse(Where::Format);
  const bool dl16 = format == program::Format::Dl16;
  if (!dl16 && format != program::Format::Fp32) return work.refuse(Where::Unsupported);
  switch (work.operation.opcode) {
    case Opcode::Sum:
    case Opcode::Mean:
      lines.skip(give_to_array(work, lines));
      dl16 ? sum_dl16(work, lines) : sum_fp32(work, lines);
      return {};
    case Opcode::Max:
    case Opcode::Min:
      lines.skip(give_to_array(work, lines));
      dl16 ? extreme_dl16(work, lines) : extreme_fp32(work, lines);
      return {};
    case Opcode::Prod: product(work, lines); return {};
    case Opcode::Exx2:
      lines.skip(give_to_array(work, lines));
      dl16 ? moments_dl16(work, lines) : moments_fp32(work, lines);
      return {};
    default: return work.refuse(Where::Unsupported);
  }
}

}  // namespace kernel::engine
