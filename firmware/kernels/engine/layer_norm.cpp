// SPDX-License-Identifier: Apache-2.0
// LayerNormScale and LayerNormNorm: what is done with the moments that Exx2 leaves. Element-wise: lanes of padding are
// computed like others.
#include "firmware/kernels/dl16_vector.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/moments.hpp"
#include "firmware/kernels/engine/number.hpp"
#include "firmware/kernels/engine/rows.hpp"
#include "firmware/kernels/vector.hpp"

namespace kernel::engine {
namespace {

using F = vfloat32m1_t;
using W = vint32m1_t;
constexpr std::size_t vl = kVector32;

double square_root(double value) {
  double root;
  asm("fsqrt.d %0, %1" : "=f"(root) : "f"(value));
  return root;
}

// Of stick n of a row. Of a single element all lanes hold it.
W load(const Rows& rows, unsigned input, std::uint64_t n, bool is_dl16) {
  const std::byte* const from = rows.in[input] + n * rows.in_step[input];
  if (!rows.single[input]) return load_words(from);
  if (!is_dl16) return __riscv_vmv_v_x_i32m1(*reinterpret_cast<const std::int32_t*>(from), vl);
  const std::uint32_t code = *reinterpret_cast<const wire::Dl16*>(from);
  return __riscv_vmv_v_x_i32m1(static_cast<std::int32_t>(code << 16 | code), vl);
}
const Moments& moments_of(const Rows& rows, unsigned input, std::uint64_t n) {
  return *reinterpret_cast<const Moments*>(rows.in[input] + n * rows.in_step[input]);
}

bool formats_are_known(const Work& work) {
  const program::Format format = work.output().format;
  for (unsigned o = 0; o < work.inputs(); ++o) {
    if (work.operation.operand[o].format != format) return false;
  }
  return work.operation.mask_count == 0 && (format == program::Format::Dl16 || format == program::Format::Fp32);
}

F as_float(W bits) { return __riscv_vreinterpret_v_i32m1_f32m1(bits); }

enum Input : unsigned { kX, kPair, kScale, kWeight, kBias, kInputs };

// ((x - m) * scale) * weight + bias, each step an fp32 operation.
W normalized(W x, float mean, W scale, W weight, W bias) {
  F value = __riscv_vfsub_vf_f32m1(as_float(x), mean, vl);
  value = __riscv_vfmul_vv_f32m1(value, as_float(scale), vl);
  value = __riscv_vfmul_vv_f32m1(value, as_float(weight), vl);
  value = __riscv_vfadd_vv_f32m1(value, as_float(bias), vl);
  return __riscv_vreinterpret_v_f32m1_i32m1(value);
}

W even_codes(W stick) { return __riscv_vand_vx_i32m1(stick, 0xFFFF, vl); }
W odd_codes(W stick) { return dl16::unsigned_shift_right(stick, 16); }

// Of sticks of DL16: the even lanes, then the odd ones.
W normalized_dl16(W x, float mean, W scale, W weight, W bias) {
  using dl16::from_fp32;
  using dl16::to_fp32;
  const W even = normalized(to_fp32(even_codes(x)), mean, to_fp32(even_codes(scale)), to_fp32(even_codes(weight)),
                            to_fp32(even_codes(bias)));
  const W odd = normalized(to_fp32(odd_codes(x)), mean, to_fp32(odd_codes(scale)), to_fp32(odd_codes(weight)),
                           to_fp32(odd_codes(bias)));
  return __riscv_vor_vv_i32m1(from_fp32(even), __riscv_vsll_vx_i32m1(from_fp32(odd), 16, vl), vl);
}

}  // namespace

Refusal layer_norm_scale(const Work& work) {
  RowWalk walk(work, 1);
  if (!formats_are_known(work)) return work.refuse(Where::Unsupported);
  const auto epsilon = static_cast<double>(std::bit_cast<float>(work.operation.constant[0]));
  const program::Format format = work.output().format;
  return walk.for_each_given([&](const Rows& rows) {
    for (std::uint64_t n = 0; n < rows.count; ++n) {
      const Moments& moments = moments_of(rows, 0, n);
      const double difference = moments.square - moments.mean * moments.mean;
      const double variance = difference < 0 ? 0 : difference;  // NaN stays
      const std::uint32_t code = number::code_of(format, 1.0 / square_root(variance + epsilon));
      std::byte* const to = rows.out + n * rows.out_step;
      if (format == program::Format::Dl16) {
        store_register(to, __riscv_vmv_v_x_u16m1(static_cast<std::uint16_t>(code), kVector16));
      } else {
        store_register(to, __riscv_vmv_v_x_u32m1(code, kVector32));
      }
    }
  });
}

Refusal layer_norm(const Work& work) {
  RowWalk walk(work, kInputs);
  if (!formats_are_known(work)) return work.refuse(Where::Unsupported);
  const bool is_dl16 = work.output().format == program::Format::Dl16;
  return walk.for_each_given([&](const Rows& rows) {
    for (std::uint64_t n = 0; n < rows.count; ++n) {
      const W x = load(rows, kX, n, is_dl16);
      const W scale = load(rows, kScale, n, is_dl16);
      const W weight = load(rows, kWeight, n, is_dl16);
      const W bias = load(rows, kBias, n, is_dl16);
      const auto mean = static_cast<float>(moments_of(rows, kPair, n).mean);
      store_register(rows.out + n * rows.out_step, is_dl16 ? normalized_dl16(x, mean, scale, weight, bias)
                                                           : normalized(x, mean, scale, weight, bias));
    }
  });
}

}  // namespace kernel::engine
