// SPDX-License-Identifier: Apache-2.0
// LayerNormScale and LayerNormNorm: what is done with the moments that Exx2 leaves. Element-wise: lanes of padding are
// computed like others.
#include "firmware/kernels/dl16_vector.hpp"
#include "firmware/kernels/engine/axes.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/moments.hpp"
#include "firmware/kernels/engine/number.hpp"
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

const Moments& moments_at(std::uint64_t address) { return *reinterpret_cast<const Moments*>(address); }

// The sticks of the output that belong to this core.
class Sticks {
 public:
  explicit Sticks(const Work& work)
      : work_(work),
        axes_(work),
        sticks_(output_sticks(work, axes_, 0)),
        copies_(work, axes_),
        share_(work, sticks_.total()) {
    for (unsigned o = 0; o < axes_.output(); ++o) {
      const Operand& operand = work.operation.operand[o];
      const bool same = operand.stick_dim == work.output().stick_dim;
      splat_[o] = operand.stick_dim == program::kNoDimension;
      if (!same && !splat_[o]) refusal_ = work.refuse(Where::Unsupported, o);
    }
  }

  Refusal refusal() const { return refusal_; }
  std::uint64_t first() const { return share_.first; }
  std::uint64_t end() const { return share_.end; }

  using Addresses = Combinations::Addresses;
  Addresses addresses(std::uint64_t number) const { return sticks_.sticks(axes_, number); }

  // Of an operand without a stick dimension all lanes hold its element.
  W load(unsigned operand, const Addresses& addresses) const {
    const std::uint64_t from = addresses.of[operand];
    if (!splat_[operand]) return load_words(reinterpret_cast<const void*>(from));
    if (work_.output().format == program::Format::Fp32) {
      return __riscv_vmv_v_x_i32m1(*reinterpret_cast<const std::int32_t*>(from), vl);
    }
    const std::uint32_t code = *reinterpret_cast<const wire::Dl16*>(from);
    return __riscv_vmv_v_x_i32m1(static_cast<std::int32_t>(code << 16 | code), vl);
  }
  template <typename V>
  void store(const Addresses& addresses, V stick) const {
    const std::uint64_t to = addresses.of[axes_.output()];
    for (unsigned i = 0; i < copies_.count; ++i) store_register(reinterpret_cast<void*>(to + copies_.offset[i]), stick);
  }

 private:
  const Work& work_;
  Axes axes_;
  Combinations sticks_;
  Copies copies_;
  CoreShare share_;
  Refusal refusal_;
  bool splat_[program::kMaxOperands]{};
};

bool formats_are_known(const Work& work) {
  const program::Format format = work.output().format;
  for (unsigned o = 0; o < work.inputs(); ++o) {
    if (work.operation.operand[o].format != format) return false;
  }
  return work.operation.mask_count == 0 && (format == program::Format::Dl16 || format == program::Format::Fp32);
}

F as_float(W bits) { return __riscv_vreinterpret_v_i32m1_f32m1(bits); }

enum Input : unsigned { kX, kPair, kScale, kWeight, kBias };

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
  const Sticks sticks(work);
  if (!sticks.refusal().ok()) return sticks.refusal();
  if (!formats_are_known(work)) return work.refuse(Where::Unsupported);
  const auto epsilon = static_cast<double>(std::bit_cast<float>(work.operation.constant[0]));
  const program::Format format = work.output().format;
  for (std::uint64_t i = sticks.first(); i < sticks.end(); ++i) {
    const Sticks::Addresses at = sticks.addresses(i);
    const Moments& moments = moments_at(at.of[0]);
    const double difference = moments.square - moments.mean * moments.mean;
    const double variance = difference < 0 ? 0 : difference;  // NaN stays
    const std::uint32_t code = number::code_of(format, 1.0 / square_root(variance + epsilon));
    if (format == program::Format::Dl16) {
      sticks.store(at, __riscv_vmv_v_x_u16m1(static_cast<std::uint16_t>(code), kVector16));
    } else {
      sticks.store(at, __riscv_vmv_v_x_u32m1(code, kVector32));
    }
  }
  return {};
}

Refusal layer_norm(const Work& work) {
  const Sticks sticks(work);
  if (!sticks.refusal().ok()) return sticks.refusal();
  if (!formats_are_known(work)) return work.refuse(Where::Unsupported);
  const bool is_dl16 = work.output().format == program::Format::Dl16;
  for (std::uint64_t i = sticks.first(); i < sticks.end(); ++i) {
    const Sticks::Addresses at = sticks.addresses(i);
    const W x = sticks.load(kX, at);
    const W scale = sticks.load(kScale, at);
    const W weight = sticks.load(kWeight, at);
    const W bias = sticks.load(kBias, at);
    const auto mean = static_cast<float>(moments_at(at.of[kPair]).mean);
    sticks.store(at,
                 is_dl16 ? normalized_dl16(x, mean, scale, weight, bias) : normalized(x, mean, scale, weight, bias));
  }
  return {};
}

}  // namespace kernel::engine
