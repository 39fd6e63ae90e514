// SPDX-License-Identifier: Apache-2.0
// Max and Min, as integers. The largest number is the largest code as signed integers, where one has no sign; else it
// is the smallest code as unsigned ones. The smallest number is minus the largest of the negated ones. What tells NaN
// is collected beside.
#include "firmware/kernels/engine/aligned_sticks.hpp"
#include "firmware/kernels/engine/reductions.hpp"

namespace kernel::engine {
namespace {

// DL16.
struct Lanes16 {
  using Code = std::uint16_t;
  using V = vint16m1_t;
  using U = vuint16m1_t;
  using Fixed = FixedInt16;
  static constexpr std::size_t vl = kVector16;
  static constexpr int kTop = 15;
  static constexpr std::int16_t kMagnitude = 0x7FFF;
  static constexpr std::int16_t kSign = INT16_MIN;
  static constexpr std::int16_t kInfinity = wire::kDl16Infinity;
  static constexpr std::int16_t kNan = wire::kDl16Nan;
  static constexpr std::int16_t kNumbers = 1;

  static bool is_nan(Code code) { return wire::dl16_is_nan(code); }
  static V distance_from_nan(V code) {
    const V differing_bits = differing(code, kNan);
    return __riscv_vadd_vv_i16m1(differing_bits, differing_bits, vl);
  }

  static V load(const void* from) { return __riscv_vreinterpret_v_u16m1_i16m1(load_stick(from)); }
  static V lanes_of(vuint16m1_t stick) { return __riscv_vreinterpret_v_u16m1_i16m1(stick); }
  static U as_unsigned(V v) { return __riscv_vreinterpret_v_i16m1_u16m1(v); }
  static V as_signed(U v) { return __riscv_vreinterpret_v_u16m1_i16m1(v); }
  static V splat(std::int16_t x) { return __riscv_vmv_v_x_i16m1(x, vl); }
  static V both(V a, V b) { return __riscv_vand_vv_i16m1(a, b, vl); }
  static V both(V a, std::int16_t b) { return __riscv_vand_vx_i16m1(a, b, vl); }
  static V either(V a, V b) { return __riscv_vor_vv_i16m1(a, b, vl); }
  static V differing(V a, V b) { return __riscv_vxor_vv_i16m1(a, b, vl); }
  static V differing(V a, std::int16_t b) { return __riscv_vxor_vx_i16m1(a, b, vl); }
  static V plus(V a, std::int16_t b) { return __riscv_vadd_vx_i16m1(a, b, vl); }
  static V half(V a) { return as_signed(__riscv_vsrl_vx_u16m1(as_unsigned(a), 1, vl)); }
  static V sign(V a) { return __riscv_vsra_vx_i16m1(a, kTop, vl); }
  static V larger(V a, V b) { return __riscv_vmax_vv_i16m1(a, b, vl); }
  static V smaller_unsigned(V a, V b) { return as_signed(__riscv_vminu_vv_u16m1(as_unsigned(a), as_unsigned(b), vl)); }
  static std::int16_t largest_of(V v) { return __riscv_vmv_x_s_i16m1_i16(__riscv_vredmax_vs_i16m1_i16m1(v, v, vl)); }
};

// FP32.
struct Lanes32 {
  using Code = std::uint32_t;
  using V = vint32m1_t;
  using U = vuint32m1_t;
  using Fixed = FixedInt32;
  static constexpr std::size_t vl = kVector32;
  static constexpr int kTop = 31;
  static constexpr std::int32_t kMagnitude = 0x7FFFFFFF;
  static constexpr std::int32_t kSign = INT32_MIN;
  static constexpr std::int32_t kInfinity = 0x7F800000;
  static constexpr std::int32_t kNan = 0x7FC00000;
  static constexpr std::int32_t kNumbers = kMagnitude - kInfinity;

  static bool is_nan(Code code) { return (code & kMagnitude) > kInfinity; }
  static V distance_from_nan(V code) { return differing(__riscv_vadd_vv_i32m1(code, code, vl), -1); }

  static V load(const void* from) { return load_words(from); }
  static V lanes_of(vuint16m1_t stick) {
    return __riscv_vreinterpret_v_i16m1_i32m1(__riscv_vreinterpret_v_u16m1_i16m1(stick));
  }
  static U as_unsigned(V v) { return __riscv_vreinterpret_v_i32m1_u32m1(v); }
  static V as_signed(U v) { return __riscv_vreinterpret_v_u32m1_i32m1(v); }
  static V splat(std::int32_t x) { return __riscv_vmv_v_x_i32m1(x, vl); }
  static V both(V a, V b) { return __riscv_vand_vv_i32m1(a, b, vl); }
  static V both(V a, std::int32_t b) { return __riscv_vand_vx_i32m1(a, b, vl); }
  static V either(V a, V b) { return __riscv_vor_vv_i32m1(a, b, vl); }
  static V differing(V a, V b) { return __riscv_vxor_vv_i32m1(a, b, vl); }
  static V differing(V a, std::int32_t b) { return __riscv_vxor_vx_i32m1(a, b, vl); }
  static V plus(V a, std::int32_t b) { return __riscv_vadd_vx_i32m1(a, b, vl); }
  static V half(V a) { return as_signed(__riscv_vsrl_vx_u32m1(as_unsigned(a), 1, vl)); }
  static V sign(V a) { return __riscv_vsra_vx_i32m1(a, kTop, vl); }
  static V larger(V a, V b) { return __riscv_vmax_vv_i32m1(a, b, vl); }
  static V smaller_unsigned(V a, V b) { return as_signed(__riscv_vminu_vv_u32m1(as_unsigned(a), as_unsigned(b), vl)); }
  static std::int32_t largest_of(V v) { return __riscv_vmv_x_s_i32m1_i32(__riscv_vredmax_vs_i32m1_i32m1(v, v, vl)); }
};

// The order of codes and back: its own inverse.
template <typename L>
typename L::V in_order(typename L::V code) {
  return L::differing(code, L::both(L::sign(code), L::kMagnitude));
}

// Half of a distance from NaN is below kNumbers where the code is NaN.
template <typename L>
class Extremes {
 public:
  Extremes(const Work& work, const Reduction& lines)
      : lines_(lines),
        m_(reinterpret_cast<Memory&>(work.working)),
        flip_(work.operation.opcode == Opcode::Min ? L::kSign : 0) {}

  void across(const Line& line) {
    V top = L::splat(L::kSign);
    V bottom = L::splat(-1);
    V distance = L::splat(-1);
    bool any = false;
    lines_.for_each_loaded(line, 0, lines_.extent(), [&](vuint16m1_t stick) {
      include(top, bottom, L::lanes_of(stick));
      distance = nearer(distance, L::lanes_of(stick));
      any = true;
    });
    const V codes = any ? codes_of(top, bottom, distance) : L::splat(code_of_nothing());
    if (!lines_.needs_finish(line)) {
      lines_.store(line, codes);
      return;
    }
    store_register(m_.code, codes);
    lines_.finish(line, m_.code);
  }

  void along(const Line& line) {
    V top = L::splat(L::kSign);
    V bottom = L::splat(-1);
    V distance = L::splat(-1);
    bool any = false;
    for (std::uint64_t at = 0; at < lines_.extent(); at += L::vl) {
      V codes = bottom;
      if (lines_.spans().hold(at, at + L::vl)) {
        codes = L::load(stick_of(line, at));
      } else if (copy_part(line, at, m_.code)) {
        codes = L::load(m_.code);
      } else {
        continue;
      }
      include(top, bottom, codes);
      distance = nearer(distance, codes);
      any = true;
    }
    const V order = in_order<L>(largest(top, bottom));
    const V nan = nan_mask(distance);
    // A NaN is above infinity, or beside it.
    const auto best = L::largest_of(L::either(L::both(order, L::differing(nan, -1)), L::both(nan, L::kMagnitude)));
    const bool has_nan = best >= L::kInfinity && any && holds_nan(line);
    finish(line, has_nan ? L::kNan : code_of(best), any);
  }

  // Lines whose sticks lie one behind the other. Each has registers of its own in a loop without calls: the compiler
  // keeps an array, and what is used behind a call, in memory.
  void along_together(const Line* lines) {
    bool any = take_parts(lines);
    const vuint16m8_t tops = load_sticks8(m_.top);
    const vuint16m8_t bottoms = load_sticks8(m_.bottom);
    V distance = L::load(m_.distance);
    V top0 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(tops, 0));
    V bottom0 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(bottoms, 0));
    V top1 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(tops, 1));
    V bottom1 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(bottoms, 1));
    V top2 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(tops, 2));
    V bottom2 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(bottoms, 2));
    V top3 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(tops, 3));
    V bottom3 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(bottoms, 3));
    V top4 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(tops, 4));
    V bottom4 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(bottoms, 4));
    V top5 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(tops, 5));
    V bottom5 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(bottoms, 5));
    V top6 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(tops, 6));
    V bottom6 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(bottoms, 6));
    V top7 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(tops, 7));
    V bottom7 = L::lanes_of(__riscv_vget_v_u16m8_u16m1(bottoms, 7));
    for (std::uint64_t at = 0; at < lines_.extent(); at += L::vl) {
      if (!lines_.spans().hold(at, at + L::vl)) continue;
      const vuint16m8_t sticks = load_sticks8(stick_of(lines[0], at));
      const auto take = [&](V& top, V& bottom, vuint16m1_t stick) {
        include(top, bottom, L::lanes_of(stick));
        distance = nearer(distance, L::lanes_of(stick));
      };
      take(top0, bottom0, __riscv_vget_v_u16m8_u16m1(sticks, 0));
      take(top1, bottom1, __riscv_vget_v_u16m8_u16m1(sticks, 1));
      take(top2, bottom2, __riscv_vget_v_u16m8_u16m1(sticks, 2));
      take(top3, bottom3, __riscv_vget_v_u16m8_u16m1(sticks, 3));
      take(top4, bottom4, __riscv_vget_v_u16m8_u16m1(sticks, 4));
      take(top5, bottom5, __riscv_vget_v_u16m8_u16m1(sticks, 5));
      take(top6, bottom6, __riscv_vget_v_u16m8_u16m1(sticks, 6));
      take(top7, bottom7, __riscv_vget_v_u16m8_u16m1(sticks, 7));
      any = true;
    }
    if (L::largest_of(L::both(nan_mask(distance), L::kMagnitude)) != 0) {
      for (unsigned i = 0; i < kLinesTogether; ++i) along(lines[i]);
      return;
    }
    finish(lines[0], top0, bottom0, any);
    finish(lines[1], top1, bottom1, any);
    finish(lines[2], top2, bottom2, any);
    finish(lines[3], top3, bottom3, any);
    finish(lines[4], top4, bottom4, any);
    finish(lines[5], top5, bottom5, any);
    finish(lines[6], top6, bottom6, any);
    finish(lines[7], top7, bottom7, any);
  }

 private:
  using V = typename L::V;
  using Signed = decltype(L::kSign);
  struct Memory {
    alignas(wire::kStickBytes) typename L::Code code[L::vl];
    typename L::Code top[kLinesTogether][L::vl];  // of lines
    typename L::Code bottom[kLinesTogether][L::vl];
    typename L::Code distance[L::vl];
  };

  // What there is of no positions: minus infinity of the largest, plus infinity of the smallest.
  Signed code_of_nothing() const { return static_cast<Signed>(L::kInfinity | (L::kSign ^ flip_)); }
  const void* stick_of(const Line& line, std::uint64_t at) const {
    return reinterpret_cast<const void*>(lines_.stick(line, at));
  }

  void include(V& top, V& bottom, V codes) const {
    const V turned = L::differing(codes, flip_);
    top = L::larger(top, turned);
    bottom = L::smaller_unsigned(bottom, turned);
  }
  static V nearer(V distance, V codes) { return L::smaller_unsigned(distance, L::distance_from_nan(codes)); }
  static V nan_mask(V distance) { return L::sign(L::plus(L::half(distance), static_cast<Signed>(-L::kNumbers))); }
  static V largest(V top, V bottom) { return L::differing(top, L::both(L::differing(top, bottom), L::sign(top))); }

  // Of the sticks of which not all takes part, into m_. False: there are none.
  [[gnu::noinline]] bool take_parts(const Line* lines) {
    bool any = false;
    store_register(m_.distance, L::splat(-1));
    for (unsigned i = 0; i < kLinesTogether; ++i) {
      store_register(m_.top[i], L::splat(L::kSign));
      store_register(m_.bottom[i], L::splat(-1));
    }
    for (std::uint64_t at = 0; at < lines_.extent(); at += L::vl) {
      if (lines_.spans().hold(at, at + L::vl)) continue;
      for (unsigned i = 0; i < kLinesTogether; ++i) {
        if (!copy_part(lines[i], at, m_.code)) continue;
        V top = L::load(m_.top[i]);
        V bottom = L::load(m_.bottom[i]);
        include(top, bottom, L::load(m_.code));
        store_register(m_.top[i], top);
        store_register(m_.bottom[i], bottom);
        store_register(m_.distance, nearer(L::load(m_.distance), L::load(m_.code)));
        any = true;
      }
    }
    return any;
  }

  // Of a line without NaN.
  void finish(const Line& line, V top, V bottom, bool any) const {
    finish(line, code_of(L::largest_of(in_order<L>(largest(top, bottom)))), any);
  }
  void finish(const Line& line, Signed code, bool any) const {
    lines_.store(line, L::splat(any ? code : code_of_nothing()));
  }

  [[gnu::noinline]] bool holds_nan(const Line& line) const {
    bool found = false;
    for (std::uint64_t at = 0; at < lines_.extent(); at += L::vl) {
      const auto* codes = static_cast<const typename L::Code*>(stick_of(line, at));
      lines_.spans().within(at, lines_.end_of(at, L::vl), [&](const Span& span) {
        for (std::uint64_t p = span.first; p < span.end; ++p) found = found || L::is_nan(codes[p - at]);
      });
    }
    return found;
  }

  Signed code_of(Signed order) const {
    return static_cast<Signed>((order < 0 ? order ^ L::kMagnitude : order) ^ flip_);
  }
  V codes_of(V top, V bottom, V distance) const {
    const V code = L::differing(largest(top, bottom), flip_);
    const V nan = nan_mask(distance);
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
