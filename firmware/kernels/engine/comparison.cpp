// SPDX-License-Identifier: Apache-2.0
// Maximum, Minimum, compares and Where, as integers.
#include "firmware/kernels/engine/elementwise.hpp"
#include "firmware/kernels/engine/families.hpp"

namespace kernel::engine {
namespace {

// 1.0 or 0.0; a NaN makes every ordered compare false.
template <typename V>
V truth(V mask) {
  return lanes::both(mask, lanes::Kind<V>::kOne);
}
template <typename V>
V ordered(V a, V b) {
  return lanes::inverted(lanes::either_nan_mask(a, b));
}

template <typename V>
V equal(V a, V b) {
  return truth(lanes::both(lanes::inverted(lanes::differ_mask(a, b)), ordered(a, b)));
}
template <typename V>
V not_equal(V a, V b) {
  return truth(lanes::either(lanes::differ_mask(a, b), lanes::either_nan_mask(a, b)));
}
template <typename V>
V less(V a, V b) {
  return truth(lanes::both(lanes::less_mask(a, b), ordered(a, b)));
}
template <typename V>
V less_equal(V a, V b) {
  return truth(lanes::both(lanes::inverted(lanes::less_mask(b, a)), ordered(a, b)));
}

template <typename V>
Refusal compare(const Work& work, RowWalk& walk) {
  switch (work.operation.opcode) {
    case Opcode::Maximum: return apply<V>(walk, [](V a, V b) { return lanes::larger_of(a, b); });
    case Opcode::Minimum: return apply<V>(walk, [](V a, V b) { return lanes::smaller_of(a, b); });
    case Opcode::Equal: return apply<V>(walk, [](V a, V b) { return equal(a, b); });
    case Opcode::NotEqual: return apply<V>(walk, [](V a, V b) { return not_equal(a, b); });
    case Opcode::Greater: return apply<V>(walk, [](V a, V b) { return less(b, a); });
    case Opcode::GreaterEqual: return apply<V>(walk, [](V a, V b) { return less_equal(b, a); });
    case Opcode::Less: return apply<V>(walk, [](V a, V b) { return less(a, b); });
    case Opcode::LessEqual: return apply<V>(walk, [](V a, V b) { return less_equal(a, b); });
    default: return work.refuse(Where::Unsupported);
  }
}

bool has_signed_zero(program::Format format) {
  return format == program::Format::Dl16 || format == program::Format::Fp32 || format == program::Format::Fp8E4m3 ||
         format == program::Format::Fp8E5m2;
}

template <typename V>
Refusal choose(const Work& work, RowWalk& walk) {
  if (has_signed_zero(work.operation.operand[0].format)) {
    return apply<V>(walk, [](V condition, V a, V b) {
      return lanes::select(lanes::nonzero_mask(lanes::magnitude(condition)), a, b);
    });
  }
  return apply<V>(walk, [](V condition, V a, V b) { return lanes::select(lanes::nonzero_mask(condition), a, b); });
}

}  // namespace

Refusal comparison(const Work& work) {
  if (work.operation.opcode == Opcode::Where) {
    RowWalk walk(work, 3);
    switch (program::item_bytes(work.output().format)) {
      case 1: return choose<vint8m1_t>(work, walk);
      case 2: return choose<vint16m1_t>(work, walk);
      default: return choose<vint32m1_t>(work, walk);
    }
  }
  RowWalk walk(work, 2);
  switch (work.output().format) {
    case program::Format::Dl16: return compare<vint16m1_t>(work, walk);
    case program::Format::Fp32: return compare<vint32m1_t>(work, walk);
    default: return work.refuse(Where::Format, work.inputs());
  }
}

}  // namespace kernel::engine
