// SPDX-License-Identifier: Apache-2.0
// Add, Sub, Mul, Div: fp32 operations, on DL16 rounded once more to DL16.
#include <algorithm>

#include "firmware/kernels/dl16_vector.hpp"
#include "firmware/kernels/engine/elementwise.hpp"
#include "firmware/kernels/engine/families.hpp"

namespace kernel::engine {
namespace {

using F = vfloat32m1_t;
using W = vint32m1_t;

F as_float(W bits) { return __riscv_vreinterpret_v_i32m1_f32m1(bits); }
W as_bits(F value) { return __riscv_vreinterpret_v_f32m1_i32m1(value); }

using dl16::V;

constexpr std::uint64_t kSome = 64;  // sticks of which infinities are looked for at a time
constexpr std::uint64_t kFewest = 16;

bool overlap(const std::byte* a, std::uint64_t a_step, const std::byte* b, std::uint64_t b_step, std::uint64_t count) {
  return a < b + (count - 1) * b_step + wire::kStickBytes && b < a + (count - 1) * a_step + wire::kStickBytes;
}

Rows part_of(const Rows& rows, std::uint64_t first, std::uint64_t count) {
  Rows part = rows;
  for (unsigned i = 0; i < 2; ++i) part.in[i] += first * part.in_step[i];
  part.out += first * part.out_step;
  part.count = count;
  return part;
}

// False: there are infinities or NaN, and the results are not right.
template <typename OfNumbers>
bool only_numbers(const Rows& rows, OfNumbers of_numbers) {
  V largest = __riscv_vmv_v_x_i16m1(0, kVector16);
  for_each_stick<V, 0, 1>(rows, [&](V a, V b) {
    largest = __riscv_vmax_vv_i16m1(largest, dl16::larger_magnitude(a, b), kVector16);
    return of_numbers(a, b);
  });
  return __riscv_vmv_x_s_i16m1_i16(__riscv_vredmax_vs_i16m1_i16m1(largest, largest, kVector16)) <= wire::kDl16Max;
}

// Most operands are numbers, of which arithmetic is quicker. Where others are met the sticks are computed again, which
// needs the operands as they were.
template <typename OfNumbers, typename OfAll>
Refusal apply_to_numbers(RowWalk& walk, OfNumbers of_numbers, OfAll of_all) {
  return walk.for_each_given([&](const Rows& given) {
    const Rows rows = given;
    bool quick = rows.count >= kFewest;
    for (unsigned i = 0; i < 2; ++i) {
      quick = quick && !overlap(rows.in[i], rows.in_step[i], rows.out, rows.out_step, rows.count);
    }
    std::uint64_t done = 0;
    for (; quick && done < rows.count; done += kSome) {
      quick = only_numbers(part_of(rows, done, std::min(kSome, rows.count - done)), of_numbers);
      if (!quick) break;
    }
    if (done < rows.count) for_each_stick<V, 0, 1>(part_of(rows, done, rows.count - done), of_all);
  });
}

Refusal on_dl16(const Work& work, RowWalk& walk) {
  switch (work.operation.opcode) {
    case Opcode::Add:
      return apply_to_numbers(
          walk, [](V a, V b) { return dl16::sum_of_numbers(a, b); }, [](V a, V b) { return dl16::sum_of(a, b); });
    case Opcode::Sub:
      return apply_to_numbers(
          walk, [](V a, V b) { return dl16::sum_of_numbers(a, lanes::differing(b, lanes::kSignBit<V>)); },
          [](V a, V b) { return dl16::sum_of(a, lanes::differing(b, lanes::kSignBit<V>)); });
    case Opcode::Mul:
      return apply_to_numbers(
          walk, [](V a, V b) { return dl16::product_of_numbers(a, b); },
          [](V a, V b) { return dl16::product_of(a, b); });
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
