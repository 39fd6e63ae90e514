// SPDX-License-Identifier: Apache-2.0
// Max and Min, as integers: a code with its magnitude inverted when it is negative is in the order of the numbers, -0
// before +0. NaN is told by the largest magnitude. The smallest number is minus the largest of the negated ones.
#include "firmware/kernels/engine/aligned_sticks.hpp"
#include "firmware/kernels/engine/reductions.hpp"

namespace kernel::engine {
namespace {

// DL16.
struct Lanes16 {
  using Code = std::uint16_t;
  using V = vint16m1_t;
  using Fixed = FixedInt16;
  static constexpr std::size_t vl = kVector16;
  static constexpr int kTop = 15;
  static constexpr std::int16_t kMagnitude = 0x7FFF;
  static constexpr std::int16_t kSign = INT16_MIN;
  static constexpr std::int16_t kLargestNumber = 0x7FFE;
  static constexpr std::int16_t kInfinity = 0x7FFF;
  static constexpr std::int16_t kNan = wire::kDl16Nan;

  static V load(const void* from) { return __riscv_vreinterpret_v_u16m1_i16m1(load_stick(from)); }
  static V lanes_of(vuint16m1_t stick) { return __riscv_vreinterpret_v_u16m1_i16m1(stick); }
  static V splat(std::int16_t x) { return __riscv_vmv_v_x_i16m1(x, vl); }
  static V both(V a, V b) { return __riscv_vand_vv_i16m1(a, b, vl); }
  static V both(V a, std::int16_t b) { return __riscv_vand_vx_i16m1(a, b, vl); }
  static V either(V a, V b) { return __riscv_vor_vv_i16m1(a, b, vl); }
  static V differing(V a, V b) { return __riscv_vxor_vv_i16m1(a, b, vl); }
  static V differing(V a, std::int16_t b) { return __riscv_vxor_vx_i16m1(a, b, vl); }
  static V minus(V a, std::int16_t b) { return __riscv_vrsub_vx_i16m1(a, b, vl); }  // b - a
  static V sign(V a) { return __riscv_vsra_vx_i16m1(a, kTop, vl); }
  static V larger(V a, V b) { return __riscv_vmax_vv_i16m1(a, b, vl); }
  static std::int16_t largest_of(V v) { return __riscv_vmv_x_s_i16m1_i16(__riscv_vredmax_vs_i16m1_i16m1(v, v, vl)); }
};

// FP32.
struct Lanes32 {
  using Code = std::uint32_t;
  using V = vint32m1_t;
  using Fixed = FixedInt32;
  static constexpr std::size_t vl = kVector32;
  static constexpr int kTop = 31;
  static constexpr std::int32_t kMagnitude = 0x7FFFFFFF;
  static constexpr std::int32_t kSign = INT32_MIN;
  static constexpr std::int32_t kLargestNumber = 0x7F800000;  // infinity counts
  static constexpr std::int32_t kInfinity = 0x7F800000;
  static constexpr std::int32_t kNan = 0x7FC00000;

  static V load(const void* from) { return load_words(from); }
  static V lanes_of(vuint16m1_t stick) {
    return __riscv_vreinterpret_v_i16m1_i32m1(__riscv_vreinterpret_v_u16m1_i16m1(stick));
  }
  static V splat(std::int32_t x) { return __riscv_vmv_v_x_i32m1(x, vl); }
  static V both(V a, V b) { return __riscv_vand_vv_i32m1(a, b, vl); }
  static V both(V a, std::int32_t b) { return __riscv_vand_vx_i32m1(a, b, vl); }
  static V either(V a, V b) { return __riscv_vor_vv_i32m1(a, b, vl); }
  static V differing(V a, V b) { return __riscv_vxor_vv_i32m1(a, b, vl); }
  static V differing(V a, std::int32_t b) { return __riscv_vxor_vx_i32m1(a, b, vl); }
  static V minus(V a, std::int32_t b) { return __riscv_vrsub_vx_i32m1(a, b, vl); }
  static V sign(V a) { return __riscv_vsra_vx_i32m1(a, kTop, vl); }
  static V larger(V a, V b) { return __riscv_vmax_vv_i32m1(a, b, vl); }
  static std::int32_t largest_of(V v) { return __riscv_vmv_x_s_i32m1_i32(__riscv_vredmax_vs_i32m1_i32m1(v, v, vl)); }
};

// The order of codes and back: its own inverse.
template <typename L>
typename L::V in_order(typename L::V code) {
  return L::differing(code, L::both(L::sign(code), L::kMagnitude));
}

template <typename L>
class Extremes {
 public:
  Extremes(const Work& work, const Reduction& lines)
      : lines_(lines),
        m_(reinterpret_cast<Memory&>(work.working)),
        flip_(work.operation.opcode == Opcode::Min ? L::kSign : 0) {}

  void across(const Line& line) {
    auto best = worst();
    auto magnitude = L::splat(0);
    lines_.for_each_loaded(line, 0, lines_.extent(),
                           [&](vuint16m1_t stick) { take(L::lanes_of(stick), best, magnitude); });
    const auto codes = result(best, magnitude);
    if (!lines_.needs_finish(line)) {
      lines_.store(line, codes);
      return;
    }
    store_register(m_.code, codes);
    lines_.finish(line, m_.code);
  }

  void along(const Line& line) {
    V best = worst();
    V magnitude = L::splat(0);
    for (std::uint64_t at = 0; at < lines_.extent(); at += L::vl) {
      if (lines_.spans().hold(at, at + L::vl)) {
        take(L::load(stick_of(line, at)), best, magnitude);
      } else {
        take_part(line, at, best, magnitude);
      }
    }
    finish(line, best, magnitude);
  }

  // Lines whose sticks lie one behind the other.
  void along_together(const Line* lines) {
    typename L::Fixed best[kLinesTogether];
    typename L::Fixed magnitude[kLinesTogether];
#pragma clang loop unroll(full)
    for (unsigned i = 0; i < kLinesTogether; ++i) {
      best[i] = worst();
      magnitude[i] = L::splat(0);
    }
    for (std::uint64_t at = 0; at < lines_.extent(); at += L::vl) {
      if (lines_.spans().hold(at, at + L::vl)) {
        take_eight(load_sticks8(stick_of(lines[0], at)), best, magnitude);
        continue;
      }
#pragma clang loop unroll(full)
      for (unsigned i = 0; i < kLinesTogether; ++i) take_part(lines[i], at, best[i], magnitude[i]);
    }
#pragma clang loop unroll(full)
    for (unsigned i = 0; i < kLinesTogether; ++i) finish(lines[i], best[i], magnitude[i]);
  }

 private:
  using V = typename L::V;
  struct Memory {
    alignas(wire::kStickBytes) typename L::Code code[L::vl];
  };

  // Minus infinity, in the order.
  static V worst() { return in_order<L>(L::splat(static_cast<decltype(L::kSign)>(L::kInfinity | L::kSign))); }
  const void* stick_of(const Line& line, std::uint64_t at) const {
    return reinterpret_cast<const void*>(lines_.stick(line, at));
  }

  template <typename Register>
  void take(V code, Register& best, Register& magnitude) const {
    magnitude = L::larger(magnitude, L::both(code, L::kMagnitude));
    best = L::larger(best, in_order<L>(L::differing(code, flip_)));
  }
  void take_eight(vuint16m8_t sticks, typename L::Fixed* best, typename L::Fixed* magnitude) const {
    take(L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 0)), best[0], magnitude[0]);
    take(L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 1)), best[1], magnitude[1]);
    take(L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 2)), best[2], magnitude[2]);
    take(L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 3)), best[3], magnitude[3]);
    take(L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 4)), best[4], magnitude[4]);
    take(L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 5)), best[5], magnitude[5]);
    take(L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 6)), best[6], magnitude[6]);
    take(L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 7)), best[7], magnitude[7]);
  }
  template <typename Register>
  void take_part(const Line& line, std::uint64_t at, Register& best, Register& magnitude) {
    if (copy_part(line, at)) take(L::load(m_.code), best, magnitude);
  }

  // The largest of the lanes. NaN is the largest of the order for the time of the comparison.
  void finish(const Line& line, V best, V magnitude) const {
    const V nan = nan_of(magnitude);
    const auto largest = L::largest_of(L::either(L::both(best, L::differing(nan, -1)), L::both(nan, L::kMagnitude)));
    lines_.store(line, result(L::splat(largest), L::splat(largest == L::kMagnitude ? L::kMagnitude : 0)));
  }
  // All bits set where the magnitude is that of a NaN.
  static V nan_of(V magnitude) { return L::sign(L::minus(magnitude, L::kLargestNumber)); }

  V result(V best, V magnitude) const {
    const V nan = nan_of(magnitude);
    const V code = L::differing(in_order<L>(best), flip_);
    return L::either(L::both(code, L::differing(nan, -1)), L::both(nan, L::kNan));
  }

  // The elements of a stick that take part, into m_.code; the first of them in place of the others. False: there is
  // none.
  bool copy_part(const Line& line, std::uint64_t at) {
    const auto* from = static_cast<const typename L::Code*>(stick_of(line, at));
    bool any = false;
    lines_.spans().within(at, lines_.end_of(at, L::vl), [&](const Span& span) {
      if (!any) std::fill_n(m_.code, L::vl, from[span.first - at]);
      any = true;
      std::copy(from + (span.first - at), from + (span.end - at), m_.code + (span.first - at));
    });
    return any;
  }

  const Reduction& lines_;
  Memory& m_;
  decltype(L::kSign) flip_;
};

template <typename L>
void reduce_along(Extremes<L>& extremes, const Reduction& lines) {
  Line together[kLinesTogether];
  std::uint64_t i = lines.first();
  for (; i + kLinesTogether <= lines.end(); i += kLinesTogether) {
    for (unsigned n = 0; n < kLinesTogether; ++n) together[n] = lines.line(i + n);
    if (are_adjacent(together)) {
      extremes.along_together(together);
    } else {
      for (const Line& line : together) extremes.along(line);
    }
  }
  for (; i < lines.end(); ++i) extremes.along(lines.line(i));
}

template <typename L>
void reduce(const Work& work, const Reduction& lines) {
  Extremes<L> extremes(work, lines);
  if (lines.along_stick()) {
    reduce_along(extremes, lines);
  } else {
    for (std::uint64_t i = lines.first(); i < lines.end(); ++i) extremes.across(lines.line(i));
  }
}

}  // namespace

void extreme_dl16(const Work& work, const Reduction& lines) { reduce<Lanes16>(work, lines); }
void extreme_fp32(const Work& work, const Reduction& lines) { reduce<Lanes32>(work, lines); }

}  // namespace kernel::engine
