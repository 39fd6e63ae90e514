// SPDX-License-Identifier: Apache-2.0
// Max and Min, as integers: a code with its magnitude inverted when it is negative is in the order of the numbers, -0
// before +0. Less the number of NaN of one sign, the order wraps around: every NaN is above all numbers then. The
// smallest number is minus the largest of the negated ones.
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
  static V plus(V a, std::int16_t b) { return __riscv_vadd_vx_i16m1(a, b, vl); }
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
  static V plus(V a, std::int32_t b) { return __riscv_vadd_vx_i32m1(a, b, vl); }
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
    V best = lowest();
    bool any = false;
    lines_.for_each_loaded(line, 0, lines_.extent(), [&](vuint16m1_t stick) {
      best = larger(best, L::lanes_of(stick));
      any = true;
    });
    const V codes = any ? codes_of(best) : L::splat(code_of_nothing());
    if (!lines_.needs_finish(line)) {
      lines_.store(line, codes);
      return;
    }
    store_register(m_.code, codes);
    lines_.finish(line, m_.code);
  }

  void along(const Line& line) {
    V best = lowest();
    bool any = false;
    for (std::uint64_t at = 0; at < lines_.extent(); at += L::vl) {
      if (lines_.spans().hold(at, at + L::vl)) {
        best = larger(best, L::load(stick_of(line, at)));
      } else if (copy_part(line, at, m_.code)) {
        best = larger(best, L::load(m_.code));
      } else {
        continue;
      }
      any = true;
    }
    finish(line, best, any);
  }

  // Lines whose sticks lie one behind the other. Each has a register of its own in a loop without calls: the compiler
  // keeps an array, and what is used behind a call, in memory.
  void along_together(const Line* lines) {
    bool any = take_parts(lines);
    const vuint16m8_t before = load_sticks8(m_.best);
    V best0 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(before, 0));
    V best1 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(before, 1));
    V best2 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(before, 2));
    V best3 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(before, 3));
    V best4 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(before, 4));
    V best5 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(before, 5));
    V best6 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(before, 6));
    V best7 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(before, 7));
    for (std::uint64_t at = 0; at < lines_.extent(); at += L::vl) {
      if (!lines_.spans().hold(at, at + L::vl)) continue;
      const vuint16m8_t sticks = load_sticks8(stick_of(lines[0], at));
      best0 = larger(best0, L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 0)));
      best1 = larger(best1, L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 1)));
      best2 = larger(best2, L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 2)));
      best3 = larger(best3, L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 3)));
      best4 = larger(best4, L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 4)));
      best5 = larger(best5, L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 5)));
      best6 = larger(best6, L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 6)));
      best7 = larger(best7, L::lanes_of(__riscv_vget_v_u16m8_u16m1(sticks, 7)));
      any = true;
    }
    finish(lines[0], best0, any);
    finish(lines[1], best1, any);
    finish(lines[2], best2, any);
    finish(lines[3], best3, any);
    finish(lines[4], best4, any);
    finish(lines[5], best5, any);
    finish(lines[6], best6, any);
    finish(lines[7], best7, any);
  }

 private:
  using V = typename L::V;
  using Signed = decltype(L::kSign);
  struct Memory {
    alignas(wire::kStickBytes) typename L::Code code[L::vl];
    typename L::Code best[kLinesTogether][L::vl];  // of lines, in the order of larger()
  };

  // NaN of one sign.
  static constexpr Signed kNans = L::kMagnitude - L::kLargestNumber;

  static V lowest() { return L::splat(L::kSign); }
  // What there is of no positions: minus infinity of the largest, plus infinity of the smallest.
  Signed code_of_nothing() const { return static_cast<Signed>(L::kInfinity | (L::kSign ^ flip_)); }
  const void* stick_of(const Line& line, std::uint64_t at) const {
    return reinterpret_cast<const void*>(lines_.stick(line, at));
  }

  V larger(V best, V code) const {
    return L::larger(best, L::plus(in_order<L>(L::differing(code, flip_)), static_cast<Signed>(-kNans)));
  }
  // Of the sticks of which not all takes part, into m_.best. False: there are none.
  [[gnu::noinline]] bool take_parts(const Line* lines) {
    bool any = false;
    for (unsigned i = 0; i < kLinesTogether; ++i) store_register(m_.best[i], lowest());
    for (std::uint64_t at = 0; at < lines_.extent(); at += L::vl) {
      if (lines_.spans().hold(at, at + L::vl)) continue;
      for (unsigned i = 0; i < kLinesTogether; ++i) {
        if (!copy_part(lines[i], at, m_.code)) continue;
        store_register(m_.best[i], larger(L::load(m_.best[i]), L::load(m_.code)));
        any = true;
      }
    }
    return any;
  }

  void finish(const Line& line, V best, bool any) const {
    lines_.store(line, L::splat(any ? code_of(L::largest_of(best)) : code_of_nothing()));
  }

  Signed code_of(Signed best) const {
    const auto order = static_cast<Signed>(static_cast<typename L::Code>(best) + static_cast<typename L::Code>(kNans));
    const auto code = static_cast<Signed>((order < 0 ? order ^ L::kMagnitude : order) ^ flip_);
    return (code & L::kMagnitude) > L::kLargestNumber ? L::kNan : code;
  }
  V codes_of(V best) const {
    const V code = L::differing(in_order<L>(L::plus(best, kNans)), flip_);
    const V nan = L::sign(L::minus(L::both(code, L::kMagnitude), L::kLargestNumber));
    return L::either(L::both(code, L::differing(nan, -1)), L::both(nan, L::kNan));
  }

  // The elements of a stick that take part, into `to`; the first of them in place of the others. False: there is none.
  bool copy_part(const Line& line, std::uint64_t at, typename L::Code* to) const {
    const auto* from = static_cast<const typename L::Code*>(stick_of(line, at));
    bool any = false;
    lines_.spans().within(at, lines_.end_of(at, L::vl), [&](const Span& span) {
      if (!any) std::fill_n(to, L::vl, from[span.first - at]);
      any = true;
      std::copy(from + (span.first - at), from + (span.end - at), to + (span.first - at));
    });
    return any;
  }

  const Reduction& lines_;
  Memory& m_;
  Signed flip_;
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
