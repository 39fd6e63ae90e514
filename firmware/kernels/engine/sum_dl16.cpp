// SPDX-License-Identifier: Apache-2.0
// Sum and Mean on DL16: chunks of 64 positions are summed exactly in integers, each sum is rounded once to fp32, sums
// are added in fp32 in ascending order. Where the exponents of a chunk spread too far for 32-bit lanes, the elements
// concerned are summed one by one. A sum that an infinity or a NaN takes part in is that of these alone.
#include "firmware/kernels/dl16_vector.hpp"
#include "firmware/kernels/engine/aligned_sticks.hpp"
#include "firmware/kernels/engine/reductions.hpp"
#include "firmware/kernels/engine/stretch.hpp"
#include "firmware/kernels/matmul/exact.hpp"

namespace kernel::engine {
namespace {

constexpr unsigned kLanes = wire::kStickBytes / sizeof(wire::Dl16);
constexpr unsigned kBatch = kVector32;  // lines along the stick that are summed together: lanes of fp32

// The exponent of a unit in the place of an fp32 exponent.
constexpr std::int32_t fp32_exponent(unsigned low) {
  return (static_cast<std::int32_t>(low) + wire::kDl16UnitExponent) * (1 << 23);
}

struct Memory {
  alignas(wire::kStickBytes) std::uint16_t lane_mask[kLanes];
  alignas(wire::kStickBytes) std::uint16_t low[kLanes];
  alignas(wire::kStickBytes) std::uint16_t spread[kLanes];
  alignas(wire::kStickBytes) float chunk[2][kBatch];  // sums of one chunk: of even and odd lanes, or of lines
  alignas(wire::kStickBytes) std::int32_t units[kBatch];
  alignas(wire::kStickBytes) std::int32_t exponent[kBatch];
  alignas(wire::kStickBytes) std::uint16_t code[kLanes];
  Line line[kBatch];
  bool infinite[kBatch];  // an infinity or a NaN takes part
  bool exact[kBatch];
};
static_assert(sizeof(Memory) <= kWorkingBytes);

vfloat32m1_t load_floats(const float* from) { return __riscv_vreinterpret_v_i32m1_f32m1(load_words(from)); }

class Sums {
 public:
  Sums(const Work& work, const Reduction& lines)
      : lines_(lines),
        m_(reinterpret_cast<Memory&>(work.working)),
        mean_(work.operation.opcode == Opcode::Mean),
        factor_(std::bit_cast<float>(work.operation.constant[0])) {}

  void across(const Line& line);                    // lanes side by side
  void along(std::uint64_t first, unsigned count);  // lines along the stick

 private:
  struct Accumulators {
    FixedFloat32 even;
    FixedFloat32 odd;
    FixedUint16 infinite;  // all bits of lanes that have an infinity or a NaN
  };
  vuint16m1_t with_infinities(const Line& line, vuint16m1_t codes, vuint16m1_t lanes);
  void add_across(const Line& line, std::uint64_t first, Accumulators& sums);
  void repair_across(const Line& line, std::uint64_t first);

  void add_along(std::uint64_t first, unsigned count);
  bool set_lane_mask(std::uint64_t first);
  vuint16m1_t masked_stick(unsigned i, std::uint64_t offset, bool masked) const;
  void sum_line(unsigned i, vuint16m1_t stick, vuint16m1_t low, unsigned exponent);
  void sum_line_alone(unsigned i, vuint16m1_t stick);
  float exact_sum(const Line& line, std::uint64_t first) const;
  wire::Dl16 infinite_sum(const Line& line) const;

  vint32m1_t result(vfloat32m1_t sum) const {
    const vfloat32m1_t value = mean_ ? __riscv_vfmul_vf_f32m1(sum, factor_, kVector32) : sum;
    return dl16::from_fp32(__riscv_vreinterpret_v_f32m1_i32m1(value));
  }

  // Of a sum, a Mean's before it is multiplied.
  wire::Dl16 code_of(float sum) const {
    const float value = mean_ ? sum * factor_ : sum;
    return value != value ? wire::kDl16Nan : wire::dl16_from_fp32(value);
  }
  static float with_infinity(float sum, wire::Dl16 code) {
    return wire::dl16_is_finite(code) ? sum : sum + wire::fp32_from_dl16(code);
  }

  const Reduction& lines_;
  Memory& m_;
  bool mean_;
  float factor_;
};

// ---- lanes side by side ---------------------------------------------------------------------------------------------

void Sums::across(const Line& line) {
  const vfloat32m1_t zero = __riscv_vfmv_v_f_f32m1(0, kVector32);
  Accumulators sums{zero, zero, __riscv_vmv_v_x_u16m1(0, kVector16)};
  for (std::uint64_t first = 0; first < lines_.extent(); first += kSumChunk) add_across(line, first, sums);
  vuint16m1_t codes = joined(result(sums.even), result(sums.odd));
  if (largest_lane(sums.infinite) != 0) codes = with_infinities(line, codes, sums.infinite);
  if (!lines_.needs_finish(line)) {
    lines_.store(line, codes);
    return;
  }
  store_register(m_.code, codes);
  lines_.finish(line, m_.code);
}

// The codes of `lanes` become those of the sums of what is not finite in them.
[[gnu::noinline]] vuint16m1_t Sums::with_infinities(const Line& line, vuint16m1_t codes, vuint16m1_t lanes) {
  store_register(m_.code, codes);
  store_register(m_.lane_mask, lanes);
  for (unsigned lane = 0; lane < line.lanes; ++lane) {
    if (m_.lane_mask[lane] == 0) continue;
    float sum = 0;
    lines_.for_each_stick(line, 0, lines_.extent(), [&](const void* stick) {
      sum = with_infinity(sum, static_cast<const wire::Dl16*>(stick)[lane]);
    });
    m_.code[lane] = code_of(sum);
  }
  return load_stick(m_.code);
}

void Sums::add_across(const Line& line, std::uint64_t first, Accumulators& sums) {
  const std::uint64_t end = lines_.end_of(first, kSumChunk);
  Codes codes = Codes::none();
  lines_.for_each_stretch(line, first, end, [&](const Stretch& sticks) { include(codes, sticks); });
  const vuint16m1_t low = __riscv_vand_vx_u16m1(
      __riscv_vsrl_vx_u16m1(__riscv_vadd_vx_u16m1(codes.below_smallest, 1, kVector16), 9, kVector16), 0x3F, kVector16);
  const vuint16m1_t spread = __riscv_vsub_vv_u16m1(__riscv_vsrl_vx_u16m1(codes.largest, 9, kVector16), low, kVector16);
  const vint16m1_t infinite = __riscv_vsra_vx_i16m1(
      __riscv_vreinterpret_v_u16m1_i16m1(__riscv_vadd_vx_u16m1(codes.largest, 0x7FFF - wire::kDl16Max, kVector16)), 15,
      kVector16);
  sums.infinite = __riscv_vor_vv_u16m1(sums.infinite, __riscv_vreinterpret_v_i16m1_u16m1(infinite), kVector16);

  const vint32m1_t zero = __riscv_vmv_v_x_i32m1(0, kVector32);
  Halves units{zero, zero};
  lines_.for_each_stretch(line, first, end, [&](const Stretch& sticks) { add_in_units(units, sticks, low); });
  const vint32m1_t pair = __riscv_vreinterpret_v_u32m1_i32m1(__riscv_vreinterpret_v_u16m1_u32m1(low));
  const auto exponents = [](vint32m1_t lows) {
    return __riscv_vsll_vx_i32m1(__riscv_vadd_vx_i32m1(lows, wire::kDl16UnitExponent, kVector32), 23, kVector32);
  };
  vfloat32m1_t even_sum = to_fp32(units.even, exponents(__riscv_vand_vx_i32m1(pair, 0xFFFF, kVector32)));
  vfloat32m1_t odd_sum = to_fp32(units.odd, exponents(__riscv_vsra_vx_i32m1(pair, 16, kVector32)));
  if (largest_lane(spread) > kSpread) {
    store_register(m_.spread, spread);
    store_register(m_.chunk[0], even_sum);
    store_register(m_.chunk[1], odd_sum);
    repair_across(line, first);
    even_sum = load_floats(m_.chunk[0]);
    odd_sum = load_floats(m_.chunk[1]);
  }
  sums.even = __riscv_vfadd_vv_f32m1(sums.even, even_sum, kVector32);
  sums.odd = __riscv_vfadd_vv_f32m1(sums.odd, odd_sum, kVector32);
}

void Sums::repair_across(const Line& line, std::uint64_t first) {
  for (unsigned lane = 0; lane < line.lanes; ++lane) {
    if (m_.spread[lane] <= kSpread) continue;
    matmul::ExactSum exact;
    lines_.for_each_stick(line, first, lines_.end_of(first, kSumChunk), [&](const void* stick) {
      const wire::Dl16 code = static_cast<const wire::Dl16*>(stick)[lane];
      if (wire::dl16_is_finite(code)) exact.add(code);
    });
    m_.chunk[lane % 2][lane / 2] = exact.to_fp32();
  }
}

// ---- along the stick ------------------------------------------------------------------------------------------------

void Sums::along(std::uint64_t first, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    m_.line[i] = lines_.line(first + i);
    m_.infinite[i] = false;
    m_.exact[i] = false;
  }
  vfloat32m1_t sums = __riscv_vfmv_v_f_f32m1(0, kVector32);
  for (std::uint64_t at = 0; at < lines_.extent(); at += kSumChunk) {
    add_along(at, count);
    sums = __riscv_vfadd_vv_f32m1(sums, load_floats(m_.chunk[0]), kVector32);
  }
  store_register(m_.units, result(sums));
  for (unsigned i = 0; i < count; ++i) {
    const auto code = m_.infinite[i] ? infinite_sum(m_.line[i]) : static_cast<std::uint16_t>(m_.units[i]);
    lines_.store(m_.line[i], __riscv_vmv_v_x_u16m1(code, kVector16));
  }
}

// The sums of one chunk of each line, into m_.chunk[0].
void Sums::add_along(std::uint64_t first, unsigned count) {
  const bool masked = set_lane_mask(first);
  const std::uint64_t offset = lines_.offset(first);
  Codes codes = Codes::none();
  for (unsigned i = 0; i < count; ++i) codes.include(masked_stick(i, offset, masked));
  const Window window = Window::of(codes);
  if (window.finite && window.spread <= kSpread) {
    const vuint16m1_t low = __riscv_vmv_v_x_u16m1(static_cast<std::uint16_t>(window.low), kVector16);
    for (unsigned i = 0; i < count; ++i) sum_line(i, masked_stick(i, offset, masked), low, window.low);
  } else {
    for (unsigned i = 0; i < count; ++i) sum_line_alone(i, masked_stick(i, offset, masked));
  }
  store_register(m_.chunk[0], to_fp32(load_words(m_.units), load_words(m_.exponent)));
  for (unsigned i = 0; i < count; ++i) {
    if (!m_.exact[i]) continue;
    m_.chunk[0][i] = exact_sum(m_.line[i], first);
    m_.exact[i] = false;
  }
}

// False: all lanes of the chunk take part.
bool Sums::set_lane_mask(std::uint64_t first) {
  if (lines_.spans().hold(first, first + kSumChunk)) return false;
  std::fill_n(m_.lane_mask, kLanes, std::uint16_t{0});
  lines_.spans().within(first, lines_.end_of(first, kSumChunk), [&](const Span& span) {
    std::fill(m_.lane_mask + (span.first - first), m_.lane_mask + (span.end - first), std::uint16_t{0xFFFF});
  });
  return true;
}

vuint16m1_t Sums::masked_stick(unsigned i, std::uint64_t offset, bool masked) const {
  const vuint16m1_t stick = load_stick(reinterpret_cast<const void*>(m_.line[i].from + offset));
  return masked ? __riscv_vand_vv_u16m1(stick, load_stick(m_.lane_mask), kVector16) : stick;
}

void Sums::sum_line(unsigned i, vuint16m1_t stick, vuint16m1_t low, unsigned exponent) {
  m_.units[i] = sum_of(in_units(stick, low));
  m_.exponent[i] = fp32_exponent(exponent);
}

// A line that does not have its exponents where the others have them.
void Sums::sum_line_alone(unsigned i, vuint16m1_t stick) {
  Codes codes = Codes::none();
  codes.include(stick);
  const Window window = Window::of(codes);
  m_.infinite[i] = m_.infinite[i] || !window.finite;
  m_.exact[i] = window.finite && window.spread > kSpread;
  if (!window.finite || m_.exact[i]) {
    m_.units[i] = 0;
    m_.exponent[i] = 0;
  } else {
    sum_line(i, stick, __riscv_vmv_v_x_u16m1(static_cast<std::uint16_t>(window.low), kVector16), window.low);
  }
}

// Of a line in which not all is finite.
[[gnu::noinline]] wire::Dl16 Sums::infinite_sum(const Line& line) const {
  float sum = 0;
  for (std::uint64_t at = 0; at < lines_.extent(); at += kSumChunk) {
    const auto* stick = reinterpret_cast<const wire::Dl16*>(lines_.stick(line, at));
    lines_.spans().within(at, lines_.end_of(at, kSumChunk), [&](const Span& span) {
      for (std::uint64_t p = span.first; p < span.end; ++p) sum = with_infinity(sum, stick[p - at]);
    });
  }
  return code_of(sum);
}

float Sums::exact_sum(const Line& line, std::uint64_t first) const {
  const auto* stick = reinterpret_cast<const std::uint16_t*>(lines_.stick(line, first));
  matmul::ExactSum exact;
  lines_.spans().within(first, lines_.end_of(first, kSumChunk), [&](const Span& span) {
    for (std::uint64_t p = span.first; p < span.end; ++p) exact.add(stick[p - first]);
  });
  return exact.to_fp32();
}

}  // namespace

void sum_dl16(const Work& work, const Reduction& lines) {
  Sums sums(work, lines);
  if (!lines.along_stick()) {
    for (std::uint64_t i = lines.first(); i < lines.end(); ++i) sums.across(lines.line(i));
    return;
  }
  for (std::uint64_t i = lines.first(); i < lines.end(); i += kBatch) {
    sums.along(i, static_cast<unsigned>(std::min<std::uint64_t>(kBatch, lines.end() - i)));
  }
}

}  // namespace kernel::engine
