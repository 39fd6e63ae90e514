// SPDX-License-Identifier: Apache-2.0
// Exx2: Σx and Σx², times a constant, as fp64. DL16: chunks of 64 positions are summed exactly and rounded once to
// fp64, in integers where the exponents of a chunk allow; FP32: fp64 additions in ascending order.
#include "firmware/kernels/engine/moments.hpp"

#include "firmware/kernels/engine/aligned_sticks.hpp"
#include "firmware/kernels/engine/reductions.hpp"
#include "firmware/kernels/matmul/exact.hpp"

namespace kernel::engine {
namespace {

constexpr double kNan = __builtin_nan("");
constexpr unsigned kDl16Lanes = kVector16;

struct Memory {
  alignas(wire::kStickBytes) wire::Dl16 code[kDl16Lanes];
  MomentsStick result;
};

double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52); }

// Squares of 32-bit lanes, added in pairs to 64 bits. Magnitudes come apart with logical shifts: the arithmetic one is
// a helper on some hosts.
vuint64m1_t squares_of(vint32m1_t v) {
  constexpr std::size_t vl = kVector64;
  const vint32m1_t sign = __riscv_vsra_vx_i32m1(v, 31, kVector32);
  const vint32m1_t magnitude = __riscv_vsub_vv_i32m1(__riscv_vxor_vv_i32m1(v, sign, kVector32), sign, kVector32);
  const vuint64m1_t pairs = __riscv_vreinterpret_v_i64m1_u64m1(__riscv_vreinterpret_v_i32m1_i64m1(magnitude));
  const vuint64m1_t lower = __riscv_vand_vx_u64m1(pairs, 0xFFFFFFFF, vl);
  const vuint64m1_t upper = __riscv_vsrl_vx_u64m1(pairs, 32, vl);
  return __riscv_vadd_vv_u64m1(__riscv_vmul_vv_u64m1(lower, lower, vl), __riscv_vmul_vv_u64m1(upper, upper, vl), vl);
}

class Dl16Moments {
 public:
  Dl16Moments(const Reduction& lines, Memory& memory) : lines_(lines), m_(memory) {}

  Moments of(const Line& line) {
    Moments sums{0, 0};
    for (std::uint64_t at = 0; at < lines_.extent(); at += kSumChunk) {
      add(chunk(line, at), sums);
      if (nan_) return {kNan, kNan};
    }
    return sums;
  }
  void begin() { nan_ = false; }

 private:
  // The chunk as a stick, 0 where a position takes no part.
  const wire::Dl16* chunk(const Line& line, std::uint64_t at) {
    const auto* stick = reinterpret_cast<const wire::Dl16*>(lines_.stick(line, at));
    if (lines_.along_stick() && lines_.spans().hold(at, at + kSumChunk)) return stick;
    std::fill_n(m_.code, kDl16Lanes, wire::Dl16{0});
    lines_.spans().within(at, lines_.end_of(at, kSumChunk), [&](const Span& span) {
      for (std::uint64_t p = span.first; p < span.end; ++p) {
        m_.code[p - at] = lines_.along_stick() ? stick[p - at] : first_lane(line, p);
      }
    });
    return m_.code;
  }
  wire::Dl16 first_lane(const Line& line, std::uint64_t p) const {
    return *reinterpret_cast<const wire::Dl16*>(lines_.stick(line, p));
  }

  void add(const wire::Dl16* codes, Moments& sums) {
    const vuint16m1_t stick = load_stick(codes);
    Codes range = Codes::none();
    range.include(stick);
    const Window window = Window::of(range);
    nan_ = !window.finite;
    if (nan_) return;
    if (window.spread > kSpread) {
      add_exactly(codes, sums);
      return;
    }
    const Halves halves = in_units(stick, __riscv_vmv_v_x_u16m1(static_cast<std::uint16_t>(window.low), kVector16));
    add_units(halves, static_cast<int>(window.low), sums);
  }

  // A value is below 2^(10 + kSpread) in magnitude, so that 64 squares are below 2^56.
  static void add_units(const Halves& halves, int low, Moments& sums) {
    const vuint64m1_t all = __riscv_vadd_vv_u64m1(squares_of(halves.even), squares_of(halves.odd), kVector64);
    const std::int64_t squares = sum_of_lanes(__riscv_vreinterpret_v_u64m1_i64m1(all));
    const double unit = power_of_two(low + wire::kDl16UnitExponent);
    sums.mean += static_cast<double>(sum_of(halves)) * unit;
    sums.square += static_cast<double>(squares) * (unit * unit);
  }

  static void add_exactly(const wire::Dl16* codes, Moments& sums) {
    matmul::ExactSum sum;
    matmul::ExactSum squares;
    for (unsigned i = 0; i < kDl16Lanes; ++i) {
      sum.add(codes[i]);
      squares.add_product(codes[i], codes[i]);
    }
    sums.mean += sum.to_fp64();
    sums.square += squares.to_fp64();
  }

  const Reduction& lines_;
  Memory& m_;
  bool nan_ = false;
};

Moments fp32_moments(const Reduction& lines, const Line& line) {
  Moments sums{0, 0};
  const auto add = [&](const void* element) {
    const auto x = static_cast<double>(*static_cast<const float*>(element));
    sums.mean += x;
    sums.square += x * x;
  };
  if (!lines.along_stick()) {
    lines.for_each_stick(line, 0, lines.extent(), add);
    return sums;
  }
  for (std::uint64_t at = 0; at < lines.extent(); at += kVector32) {
    const auto* stick = reinterpret_cast<const float*>(lines.stick(line, at));
    lines.spans().within(at, lines.end_of(at, kVector32), [&](const Span& span) {
      for (std::uint64_t p = span.first; p < span.end; ++p) add(stick + (p - at));
    });
  }
  return sums;
}

void store(const Reduction& lines, const Line& line, const Moments& sums, float factor, Memory& memory) {
  // An operation that gives a NaN gives the one of fp64 here: a NaN that is an operand is not kept.
  memory.result.moments = {sums.mean * static_cast<double>(factor), sums.square * static_cast<double>(factor)};
  lines.store(line, load_stick(&memory.result));
}

}  // namespace

void moments_dl16(const Work& work, const Reduction& lines) {
  auto& memory = reinterpret_cast<Memory&>(work.working);
  memory.result = {};
  Dl16Moments moments(lines, memory);
  for (std::uint64_t i = lines.first(); i < lines.end(); ++i) {
    const Line line = lines.line(i);
    moments.begin();
    store(lines, line, moments.of(line), std::bit_cast<float>(work.operation.constant[0]), memory);
  }
}

void moments_fp32(const Work& work, const Reduction& lines) {
  auto& memory = reinterpret_cast<Memory&>(work.working);
  memory.result = {};
  for (std::uint64_t i = lines.first(); i < lines.end(); ++i) {
    const Line line = lines.line(i);
    store(lines, line, fp32_moments(lines, line), std::bit_cast<float>(work.operation.constant[0]), memory);
  }
}

}  // namespace kernel::engine
