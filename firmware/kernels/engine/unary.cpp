// SPDX-License-Identifier: Apache-2.0
// Abs, Neg, Relu, Clip, Floor, as integers.
#include "firmware/kernels/engine/elementwise.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/number.hpp"

namespace kernel::engine {
namespace {

template <typename V>
lanes::Element<V> constant(const Work& work, unsigned i) {
  return static_cast<lanes::Element<V>>(number::code_of_fp32(work.output().format, work.operation.constant[i]));
}

template <typename V>
Refusal on_lanes(const Work& work, RowWalk& walk) {
  switch (work.operation.opcode) {
    case Opcode::Abs: return apply<V>(walk, [](V a) { return lanes::magnitude(a); });
    case Opcode::Neg: return apply<V>(walk, [](V a) { return lanes::differing(a, lanes::kSignBit<V>); });
    case Opcode::Relu:
      return apply<V>(walk, [](V a) {
        return lanes::with_nan(lanes::nan_mask(a), lanes::both(a, lanes::inverted(lanes::sign_mask(a))));
      });
    case Opcode::Clip: {
      const auto low = constant<V>(work, 0);
      const auto high = constant<V>(work, 1);
      return apply<V>(walk, [low, high](V a) {
        return lanes::smaller_of(lanes::larger_of(a, lanes::splat_of(low)), lanes::splat_of(high));
      });
    }
    case Opcode::Floor: return apply<V>(walk, [](V a) { return lanes::floor_of(a); });
    default: return work.refuse(Where::Unsupported);
  }
}

}  // namespace

Refusal unary(const Work& work) {
  RowWalk walk(work, 1);
  switch (work.output().format) {
    case program::Format::Dl16: return on_lanes<vint16m1_t>(work, walk);
    case program::Format::Fp32: return on_lanes<vint32m1_t>(work, walk);
    default: return work.refuse(Where::Format, work.inputs());
  }
}

}  // namespace kernel::engine
