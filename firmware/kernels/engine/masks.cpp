// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/masks.hpp"

#include "firmware/kernels/engine/lanes.hpp"
#include "firmware/kernels/engine/number.hpp"
#include "firmware/kernels/engine/splat.hpp"

namespace kernel::engine {
namespace {

class MaskWriter {
 public:
  MaskWriter(const Work& work, const LoopNest& nest) : work_(work), nest_(nest) {}
  void write(const Box& box, const program::Mask& mask);

 private:
  struct Buffers {
    std::byte value[wire::kStickBytes];
    std::byte lanes[wire::kStickBytes];
  };
  // The mask value into positions first … end - 1 of each stick of the box.
  void write_lanes(const Box& box, std::uint32_t first, std::uint32_t end);

  const Work& work_;
  const LoopNest& nest_;
};

void MaskWriter::write(const Box& box, const program::Mask& mask) {
  const unsigned d = mask.dimension;
  const std::uint32_t lanes = nest_.unit(d);
  const std::uint64_t end = std::uint64_t{mask.start} + mask.count;
  const auto part = [&](std::uint64_t first, std::uint64_t last) {
    return part_of(box, d, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last));
  };
  if (d != work_.output().stick_dim) {
    write_lanes(part(mask.start, end), 0, program::lanes_of(work_.output().format));
    return;
  }
  const std::uint64_t first_whole = (std::uint64_t{mask.start} + lanes - 1) / lanes;
  const std::uint64_t end_whole = end / lanes;
  const std::uint32_t head = mask.start % lanes;
  const auto tail = static_cast<std::uint32_t>(end % lanes);
  if (first_whole > end_whole) {  // within one stick
    write_lanes(part(end_whole, end_whole + 1), head, tail);
    return;
  }
  if (head != 0) write_lanes(part(first_whole - 1, first_whole), head, lanes);
  write_lanes(part(first_whole, end_whole), 0, lanes);
  if (tail != 0) write_lanes(part(end_whole, end_whole + 1), 0, tail);
}

void MaskWriter::write_lanes(const Box& box, std::uint32_t first, std::uint32_t end) {
  using V = vint8m1_t;
  const Operand& output = work_.output();
  const std::uint32_t code = number::code_of_fp32(output.format, work_.operation.mask_value);
  auto& buffers = reinterpret_cast<Buffers&>(work_.working);
  const unsigned item = program::item_bytes(output.format);
  splat(&code, buffers.value, item);
  for (std::uint32_t i = 0; i < wire::kStickBytes; ++i) {
    buffers.lanes[i] = i >= first * item && i < end * item ? std::byte{0xFF} : std::byte{0};
  }
  const auto value = lanes::load<V>(buffers.value);
  const auto chosen = lanes::load<V>(buffers.lanes);
  nest_.for_each_run(box, [&](const Run& run) {
    const unsigned o = work_.operation.operand_count - 1u;
    for (std::uint64_t n = 0; n < run.count; ++n) {
      auto* const stick = reinterpret_cast<std::byte*>(run.address[o] + n * run.step[o]);
      store_register(stick, lanes::select(chosen, value, lanes::load<V>(stick)));
    }
  });
}

}  // namespace

void write_masks(const Work& work, const LoopNest& nest, const Box& box) {
  MaskWriter writer(work, nest);
  for (unsigned m = 0; m < work.operation.mask_count; ++m) writer.write(box, work.operation.mask[m]);
}

}  // namespace kernel::engine
