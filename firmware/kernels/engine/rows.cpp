// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/rows.hpp"

#include "firmware/kernels/engine/lanes.hpp"
#include "firmware/kernels/engine/number.hpp"
#include "firmware/kernels/vector.hpp"

namespace kernel::engine {
namespace {

struct Units {
  std::uint32_t elements[kMaxRank];
};

// One stick of the output at a time.
Units stick_units(const Operation& operation) {
  const Operand& output = operation.operand[operation.operand_count - 1];
  Units units;
  for (unsigned d = 0; d < kMaxRank; ++d) {
    units.elements[d] = d == output.stick_dim ? program::lanes_of(output.format) : 1;
  }
  return units;
}

void splat(const void* from, void* to, unsigned item) {
  switch (item) {
    case 1: store_register(to, __riscv_vmv_v_x_u8m1(*static_cast<const std::uint8_t*>(from), 128)); break;
    case 2: store_register(to, __riscv_vmv_v_x_u16m1(*static_cast<const std::uint16_t*>(from), kVector16)); break;
    default: store_register(to, __riscv_vmv_v_x_u32m1(*static_cast<const std::uint32_t*>(from), kVector32)); break;
  }
}

}  // namespace

RowWalk::RowWalk(const Work& work, unsigned inputs)
    : work_(work),
      inputs_(inputs),
      item_(program::item_bytes(work.output().format)),
      nest_(work, stick_units(work.operation).elements) {
  const std::uint8_t stick_dim = work.output().stick_dim;
  for (unsigned i = 0; i < inputs; ++i) {
    const Operand& input = work.operation.operand[i];
    if (program::item_bytes(input.format) != item_) {
      refusal_ = work.refuse(Where::Format, i);
    } else if (input.stick_dim == stick_dim && stick_dim != program::kNoDimension) {
      continue;
    } else if (input.stick_dim != program::kNoDimension && work.operation.extent[input.stick_dim] > 1) {
      refusal_ = work.refuse(Where::Unsupported, i);  // lanes that lie elsewhere in the output
    } else if (stick_dim != program::kNoDimension && (input.present >> stick_dim & 1) != 0) {
      if (work.operation.extent[stick_dim] > 1) refusal_ = work.refuse(Where::Unsupported, i);
    }
    splat_[i] = true;
    any_splat_ = true;
  }
}

void RowWalk::take(const Run& run, std::uint64_t done, Rows& rows) {
  const unsigned output = work_.operation.operand_count - 1u;
  rows.out = reinterpret_cast<std::byte*>(run.address[output] + done * run.step[output]);
  rows.out_step = run.step[output];
  rows.count = run.count - done;
  auto& buffers = reinterpret_cast<Buffers&>(work_.working);
  for (unsigned i = 0; i < inputs_; ++i) {
    if (splat_[i] && run.step[i] != 0) rows.count = std::min<std::uint64_t>(rows.count, kSplats);
  }
  for (unsigned i = 0; i < inputs_; ++i) {
    const auto* from = reinterpret_cast<const std::byte*>(run.address[i] + done * run.step[i]);
    rows.in[i] = from;
    rows.in_step[i] = run.step[i];
    if (!splat_[i]) continue;
    rows.in[i] = buffers.stick[i][0];
    const std::uint64_t sticks = run.step[i] == 0 ? 1 : rows.count;
    if (run.step[i] != 0) rows.in_step[i] = wire::kStickBytes;
    for (std::uint64_t n = 0; n < sticks; ++n) splat(from + n * run.step[i], buffers.stick[i][n], item_);
  }
}

// ---- masks ----------------------------------------------------------------------------------------------------------

// The part of `box` in which dimension d has the units first … end - 1.
Box part_of(Box box, unsigned d, std::uint32_t first, std::uint32_t end) {
  const std::uint32_t box_end = box.first[d] + box.count[d];
  box.first[d] = std::clamp(first, box.first[d], box_end);
  box.count[d] = std::clamp(end, box.first[d], box_end) - box.first[d];
  return box;
}

void RowWalk::write_masks(const Box& box) {
  for (unsigned m = 0; m < work_.operation.mask_count; ++m) write_mask(box, work_.operation.mask[m]);
}

void RowWalk::write_mask(const Box& box, const program::Mask& mask) {
  const unsigned d = mask.dimension;
  const std::uint32_t lanes = nest_.unit(d);
  const std::uint32_t end = mask.start + mask.count;
  if (d != work_.output().stick_dim) {
    write_lanes(part_of(box, d, mask.start, end), 0, program::lanes_of(work_.output().format));
    return;
  }
  const std::uint32_t first_whole = (mask.start + lanes - 1) / lanes;
  const std::uint32_t end_whole = end / lanes;
  if (first_whole > end_whole) {  // within one stick
    write_lanes(part_of(box, d, end_whole, end_whole + 1), mask.start % lanes, end % lanes);
    return;
  }
  if (mask.start % lanes != 0) {
    write_lanes(part_of(box, d, first_whole - 1, first_whole), mask.start % lanes, lanes);
  }
  write_lanes(part_of(box, d, first_whole, end_whole), 0, lanes);
  if (end % lanes != 0) write_lanes(part_of(box, d, end_whole, end_whole + 1), 0, end % lanes);
}

void RowWalk::write_lanes(const Box& box, std::uint32_t first, std::uint32_t end) {
  using V = vint8m1_t;
  const Operand& output = work_.output();
  const std::uint32_t code = number::code_of_fp32(output.format, work_.operation.mask_value);
  auto& buffers = reinterpret_cast<Buffers&>(work_.working);
  splat(&code, buffers.stick[0][0], item_);
  std::byte* const lanes = buffers.stick[0][1];
  for (std::uint32_t i = 0; i < wire::kStickBytes; ++i) {
    lanes[i] = i >= first * item_ && i < end * item_ ? std::byte{0xFF} : std::byte{0};
  }
  const auto value = lanes::load<V>(buffers.stick[0][0]);
  const auto chosen = lanes::load<V>(lanes);
  nest_.for_each_run(box, [&](const Run& run) {
    const unsigned o = work_.operation.operand_count - 1u;
    for (std::uint64_t n = 0; n < run.count; ++n) {
      auto* const stick = reinterpret_cast<std::byte*>(run.address[o] + n * run.step[o]);
      store_register(stick, lanes::select(chosen, value, lanes::load<V>(stick)));
    }
  });
}

}  // namespace kernel::engine
