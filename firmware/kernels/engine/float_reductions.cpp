// SPDX-License-Identifier: Apache-2.0
// Reductions that are defined by fp64 operations in ascending order of positions: Sum and Mean on FP32, Prod.
#include "firmware/kernels/engine/number.hpp"
#include "firmware/kernels/engine/reductions.hpp"
#include "shared/dl16.hpp"

namespace kernel::engine {
namespace {

using program::Format;

struct Memory {
  alignas(wire::kStickBytes) double sum[kVector32];
  alignas(wire::kStickBytes) std::uint32_t code[kVector32];
  alignas(wire::kStickBytes) std::uint16_t code16[kVector16];
};

// ---- sums of FP32 ---------------------------------------------------------------------------------------------------

class Fp32Sums {
 public:
  Fp32Sums(const Work& work, const Reduction& lines)
      : lines_(lines),
        m_(reinterpret_cast<Memory&>(work.working)),
        mean_(work.operation.opcode == Opcode::Mean),
        factor_(static_cast<double>(std::bit_cast<float>(work.operation.constant[0]))) {}

  void across(const Line& line) {
    vfloat64m2_t sums = __riscv_vfmv_v_f_f64m2(0, kVector32);
    lines_.for_each_stick(line, 0, lines_.extent(), [&](const void* stick) {
      sums = __riscv_vfwadd_wv_f64m2(sums, __riscv_vreinterpret_v_i32m1_f32m1(load_words(stick)), kVector32);
    });
    if (mean_) sums = __riscv_vfmul_vf_f64m2(sums, factor_, kVector32);
    // Also makes every NaN the one of the format, and rounds once.
    const vfloat32m1_t rounded = __riscv_vfncvt_f_f_w_f32m1(sums, kVector32);
    store_register(m_.code, rounded);
    if (lines_.needs_finish(line)) {
      lines_.finish(line, m_.code);
    } else {
      lines_.store(line, rounded);
    }
  }

  void along(const Line& line) {
    vfloat64m1_t sum = __riscv_vfmv_s_f_f64m1(0, kVector64);
    for (std::uint64_t at = 0; at < lines_.extent(); at += kVector32) {
      const auto* stick = reinterpret_cast<const float*>(lines_.stick(line, at));
      lines_.spans().within(at, lines_.end_of(at, kVector32), [&](const Span& span) {
        const std::size_t count = span.end - span.first;
        const vfloat32m1_t part = __riscv_vle32_v_f32m1(stick + (span.first - at), count);
        sum = __riscv_vfwredosum_vs_f32m1_f64m1(part, sum, count);  // one after the other
      });
    }
    double total = __riscv_vfmv_f_s_f64m1_f64(sum);
    if (mean_) total *= factor_;
    lines_.store(line, __riscv_vmv_v_x_u32m1(number::code_of(Format::Fp32, total), kVector32));
  }

 private:
  const Reduction& lines_;
  Memory& m_;
  bool mean_;
  double factor_;
};

// ---- products -------------------------------------------------------------------------------------------------------

struct Dl16Numbers {
  using Code = std::uint16_t;
  static constexpr unsigned kLanes = kVector16;
  static double value(Code code) { return wire::fp64_from_dl16(code); }
  static Code code(double value) { return static_cast<Code>(number::code_of(Format::Dl16, value)); }
  static Code* results(Memory& memory) { return memory.code16; }
};
struct Fp32Numbers {
  using Code = std::uint32_t;
  static constexpr unsigned kLanes = kVector32;
  static double value(Code code) { return static_cast<double>(std::bit_cast<float>(code)); }
  static Code code(double value) { return number::code_of(Format::Fp32, value); }
  static Code* results(Memory& memory) { return memory.code; }
};

template <typename N>
double product_across(const Reduction& lines, const Line& line, unsigned lane) {
  double product = 1;
  lines.for_each_stick(line, 0, lines.extent(), [&](const void* stick) {
    product *= N::value(static_cast<const typename N::Code*>(stick)[lane]);
  });
  return product;
}

template <typename N>
double product_along(const Reduction& lines, const Line& line) {
  double product = 1;
  for (std::uint64_t at = 0; at < lines.extent(); at += N::kLanes) {
    const auto* stick = reinterpret_cast<const typename N::Code*>(lines.stick(line, at));
    lines.spans().within(at, lines.end_of(at, N::kLanes), [&](const Span& span) {
      for (std::uint64_t p = span.first; p < span.end; ++p) product *= N::value(stick[p - at]);
    });
  }
  return product;
}

template <typename N>
void products(const Work& work, const Reduction& lines) {
  typename N::Code* const results = N::results(reinterpret_cast<Memory&>(work.working));
  for (std::uint64_t i = lines.first(); i < lines.end(); ++i) {
    const Line line = lines.line(i);
    if (lines.along_stick()) {
      results[0] = N::code(product_along<N>(lines, line));
    } else {
      for (unsigned lane = 0; lane < line.lanes; ++lane) {
        results[lane] = N::code(product_across<N>(lines, line, lane));
      }
    }
    lines.finish(line, results);
  }
}

}  // namespace

void sum_fp32(const Work& work, const Reduction& lines) {
  Fp32Sums sums(work, lines);
  for (std::uint64_t i = lines.first(); i < lines.end(); ++i) {
    const Line line = lines.line(i);
    lines.along_stick() ? sums.along(line) : sums.across(line);
  }
}

void product(const Work& work, const Reduction& lines) {
  if (work.output().format == program::Format::Dl16) {
    products<Dl16Numbers>(work, lines);
  } else {
    products<Fp32Numbers>(work, lines);
  }
}

}  // namespace kernel::engine
