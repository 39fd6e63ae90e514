// SPDX-License-Identifier: Apache-2.0
// Add, Sub, Mul, Div: fp32 operations, on DL16 rounded once more to DL16.
#include "firmware/kernels/dl16_vector.hpp"
#include "firmware/kernels/engine/elementwise.hpp"
#include "firmware/kernels/engine/families.hpp"

namespace kernel::engine {
namespace {

using F = vfloat32m1_t;
using W = vint32m1_t;

F as_float(W bits) { return __riscv_vreinterpret_v_i32m1_f32m1(bits); }
W as_bits(F value) { return __riscv_vreinterpret_v_f32m1_i32m1(value); }

Refusal on_dl16(const Work& work, RowWalk& walk) {
  using dl16::V;
  switch (work.operation.opcode) {
    case Opcode::Add: return apply<V>(walk, [](V a, V b) { return dl16::sum_of(a, b); });
    case Opcode::Sub:
      return apply<V>(walk, [](V a, V b) { return dl16::sum_of(a, lanes::differing(b, lanes::kSignBit<V>)); });
    case Opcode::Mul: return apply<V>(walk, [](V a, V b) { return dl16::product_of(a, b); });
    case Opcode::Div: return apply<V>(walk, [](V a, V b) { return dl16::quotient_of(a, b); });
    default: return work.refuse(Where::Unsupported);
  }
}

// The emulator's NaN results are 0x7FC00000, as the instruction set says.
Refusal on_fp32(const Work& work, RowWalk& walk) {
  constexpr std::size_t vl = kVector32;
  switch (work.operation.opcode) {
    case Opcode::Add:
      return apply<W>(walk, [](W a, W b) { return as_bits(__riscv_vfadd(as_float(a), as_float(b), vl)); });
    case Opcode::Sub:
      return apply<W>(walk, [](W a, W b) { return as_bits(__riscv_vfsub(as_float(a), as_float(b), vl)); });
    case Opcode::Mul:
      return apply<W>(walk, [](W a, W b) { return as_bits(__riscv_vfmul(as_float(a), as_float(b), vl)); });
    case Opcode::Div:
      return apply<W>(walk, [](W a, W b) { return as_bits(__riscv_vfdiv(as_float(a), as_float(b), vl)); });
    default: return work.refuse(Where::Unsupported);
  }
}

}  // namespace

Refusal arithmetic(const Work& work) {
  RowWalk walk(work, 2);
  switch (work.output().format) {
    case program::Format::Dl16: return on_dl16(work, walk);
    case program::Format::Fp32: return on_fp32(work, walk);
    default: return work.refuse(Where::Format, work.inputs());
  }
}

}  // namespace kernel::engine
