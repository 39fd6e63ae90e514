// SPDX-License-Identifier: Apache-2.0
// Operations that move elements and change their format.
#include <bit>

#include "host_driver/program/golden/families.hpp"
#include "host_driver/program/golden/numbers.hpp"

namespace svp::program::golden {
namespace {

using namespace wire::program;

std::uint32_t converted(Format from, Format to, std::uint32_t bits) {
  return from == to ? bits : bits_of(to, value_of(from, bits));
}

// DL16 and FP32: one DL16 stick holds groups of four of two FP32 sticks in alternation.
Index staggered_fp32(Index n, unsigned d, bool to_fp32) {
  const std::uint32_t position = n[d];
  if (to_fp32) {  // position of FP32 -> of DL16
    const std::uint32_t stick = position / 32, lane = position % 32;
    n[d] = stick / 2 * 64 + lane / 4 * 8 + stick % 2 * 4 + lane % 4;
  } else {
    const std::uint32_t stick = position / 64, lane = position % 64;
    n[d] = (stick * 2 + lane % 8 / 4) * 32 + lane / 8 * 4 + lane % 4;
  }
  return n;
}

// DL16 and FP8: one FP8 stick holds groups of eight of two DL16 sticks in alternation.
Index staggered_fp8(Index n, unsigned d, bool to_fp8) {
  const std::uint32_t position = n[d];
  if (to_fp8) {  // position of FP8 -> of DL16
    const std::uint32_t stick = position / 128, lane = position % 128;
    n[d] = (stick * 2 + lane % 16 / 8) * 64 + lane / 16 * 8 + lane % 8;
  } else {
    const std::uint32_t stick = position / 64, lane = position % 64;
    n[d] = stick / 2 * 128 + lane / 8 * 16 + stick % 2 * 8 + lane % 8;
  }
  return n;
}

// The position of the input that becomes position n of the output.
Index origin(Opcode opcode, const Index& n, unsigned stick_dim) {
  switch (opcode) {
    case Opcode::Dl16ToFp32: return staggered_fp32(n, stick_dim, true);
    case Opcode::Fp32ToDl16: return staggered_fp32(n, stick_dim, false);
    case Opcode::Dl16ToFp8: return staggered_fp8(n, stick_dim, true);
    case Opcode::Fp8ToDl16: return staggered_fp8(n, stick_dim, false);
    default: return n;  // the lanes of a weight: in the address of the output
  }
}

}  // namespace

void run_copy(const Step& step) {
  const View input(step, 0);
  const View output(step, 1);
  const std::uint32_t masked = bits_of(output.format(), std::bit_cast<float>(step.operation.mask_value));
  for_each_index(step.order, counts(step, output, output.operand().present, true), [&](const Index& n) {
    const std::uint32_t bits = input.has_lane(n) ? converted(input.format(), output.format(), input.bits(n)) : 0;
    output.set(n, is_masked(step.operation, n) ? masked : bits);
  });
}

void run_restickify(const Step& step) {
  const View input(step, 0);
  const View output(step, 1);
  zero_pad_lanes(step, output);
  for_each_index(step.order, counts(step, output, output.operand().present, false),
                 [&](const Index& n) { output.set(n, input.bits(n)); });
}

void run_stagger(const Step& step) {
  const View input(step, 0);
  const View output(step, 1);
  const std::uint8_t stick_dim = output.operand().stick_dim;
  for_each_index(step.order, counts(step, output, output.operand().present, true), [&](const Index& n) {
    const Index from = origin(step.operation.opcode, n, stick_dim);
    bool exists = input.has_lane(from);
    for (unsigned d = 0; d < step.operation.rank; ++d) {
      // A weight stick has a place for one row more when their number is odd.
      exists = exists && (d == stick_dim || from[d] < step.operation.extent[d]);
    }
    output.set(n, exists ? converted(input.format(), output.format(), input.bits(from)) : 0);
  });
}

}  // namespace svp::program::golden
