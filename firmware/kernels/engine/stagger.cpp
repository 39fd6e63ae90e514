// SPDX-License-Identifier: Apache-2.0
// Conversions between formats of different size whose lanes change places, as the arrays of the card do it
// (docs/device-programs.md): DL16 and FP32, DL16 and FP8, and DL16 into sticks of FP8 weights, which hold two positions
// of one dimension and 64 of the stick dimension. Whole sticks at a time.
#include <bit>

#include "firmware/kernels/engine/convert_array.hpp"
#include "firmware/kernels/engine/elements.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/fp8_vector.hpp"
#include "firmware/kernels/staggered_fp32.hpp"

namespace kernel::engine {
namespace {

constexpr std::uint32_t kWeightColumns = 64;
constexpr std::uint32_t kWeightRows = 2;

class Stagger {
 public:
  explicit Stagger(const Work& work)
      : work_(work),
        from_(work.operation.operand[0]),
        to_(work.output()),
        along_(to_.stick_dim),
        rows_of_(work.operation.opcode == Opcode::Dl16ToFp8Weight ? std::countr_zero(work.operation.reduced) : 0),
        is_weight_(work.operation.opcode == Opcode::Dl16ToFp8Weight),
        alternating_(is_weight_ ? rows_of_ : along_),
        from_positions_(is_weight_ ? 1 : program::lanes_of(from_.format)),
        to_positions_(positions_of_stick(alternating_)),
        narrows_(from_positions_ < to_positions_),
        by_array_(work) {}

  void run() {
    if (work_.array != nullptr && by_units()) return;
    Index index{};
    std::uint64_t number = 0;
    do {
      if (number++ % work_.cores == work_.core) stick(index);
    } while (advance(index));
  }

 private:
  std::uint32_t step_of(unsigned d) const {
    if ((to_.present >> d & 1) == 0) return work_.operation.extent[d] / to_.split[d];
    return positions_of_stick(d);
  }
  // Of the output.
  std::uint32_t positions_of_stick(unsigned d) const {
    if (is_weight_ && d == rows_of_) return kWeightRows;
    if (d != along_) return 1;
    return is_weight_ ? kWeightColumns : program::lanes_of(to_.format);
  }

  bool advance(Index& index) const {
    for (unsigned d = 0; d < work_.operation.rank; ++d) {
      index.of[d] += step_of(d);
      if (index.of[d] < work_.operation.extent[d]) return true;
      index.of[d] = 0;
    }
    return false;
  }

  // Of a whole stick of the output.
  std::uint64_t output_address(const Index& index) const {
    std::uint64_t address = work_.address(to_);
    for (unsigned d = 0; d < work_.operation.rank; ++d) {
      std::uint32_t n = index.of[d];
      if (to_.base == program::Base::Scratchpad && to_.split[d] > 1) {
        const std::uint32_t part = work_.operation.extent[d] / to_.split[d];
        address += std::uint64_t{n / part} * to_.split_stride[d] * program::kScratchpadStride;
        n %= part;
      }
      if ((to_.present >> d & 1) != 0) address += to_.stride[d] * (n / positions_of_stick(d));
    }
    return address;
  }

  void stick(const Index& first) const {
    const std::uint64_t to = output_address(first);
    Index from = input_index(work_, first);
    if (narrows_) {
      store(to, narrowed([&](unsigned i) {
              if (i != 0) from.of[alternating_] += from_positions_;
              return input_stick(from);
            }));
      return;
    }
    const unsigned half = from.of[alternating_] / to_positions_ % 2;
    from.of[alternating_] -= from.of[alternating_] % from_positions_;
    store(to, widened(input_stick(from), half));
  }

  // Of the input; zeros beyond its last one.
  vuint16m1_t input_stick(const Index& from) const {
    const std::uint32_t end = wire::align_up(work_.operation.extent[alternating_], from_positions_);
    return from.of[alternating_] < end ? load(address_of(work_, from_, from)) : __riscv_vmv_v_x_u16m1(0, kVector16);
  }

  // ---- one stick of one side and two of the other at a time, for the compute array ----------------------------------

  // False: an operand is cut within such a unit.
  bool by_units() {
    const std::uint32_t positions = std::max(from_positions_, to_positions_);
    std::uint32_t units[kMaxRank];
    for (unsigned d = 0; d < kMaxRank; ++d) {
      units[d] = d == alternating_ ? positions : d == along_ ? positions_of_stick(d) : 1;
    }
    const LoopNest nest(work_, units);
    if (!nest.refusal().ok()) return false;
    const Box share = nest.share();
    const std::uint32_t whole = work_.operation.extent[alternating_] / positions;
    const std::uint32_t rest = work_.operation.extent[alternating_] % positions;
    const UnitSticks all = sticks_of(positions), last = sticks_of(rest);
    nest.for_each_run(part_of(share, alternating_, 0, whole), [&](const Run& run) { give(run, all); });
    nest.for_each_run(part_of(share, alternating_, whole, whole + 1), [&](const Run& run) { give(run, last); });
    return true;
  }

  UnitSticks sticks_of(std::uint32_t positions) const {
    return {.from = (positions + from_positions_ - 1) / from_positions_,
            .to = (positions + to_positions_ - 1) / to_positions_,
            .from_step = from_.stride[alternating_],
            .to_step = to_.stride[alternating_],
            .single = false};
  }

  void give(const Run& run, const UnitSticks& sticks) {
    for (std::uint64_t n = by_array_.given(run, sticks); n < run.count; ++n) {
      unit(run.address[0] + n * run.step[0], run.address[1] + n * run.step[1], sticks);
    }
  }

  void unit(std::uint64_t from, std::uint64_t to, const UnitSticks& sticks) const {
    if (narrows_) {
      store(to, narrowed([&](unsigned i) {
              return i < sticks.from ? load(from + i * sticks.from_step) : __riscv_vmv_v_x_u16m1(0, kVector16);
            }));
      return;
    }
    for (unsigned half = 0; half < sticks.to; ++half) store(to + half * sticks.to_step, widened(load(from), half));
  }

  // ---- sticks -------------------------------------------------------------------------------------------------------

  static vuint16m1_t load(std::uint64_t from) { return load_stick(reinterpret_cast<const void*>(from)); }
  static void store(std::uint64_t to, vuint16m1_t stick) { store_register(reinterpret_cast<void*>(to), stick); }

  // Of `input(0)` and `input(1)`.
  template <typename Input>
  vuint16m1_t narrowed(Input input) const {
    constexpr std::size_t vl = kVector16;
    switch (work_.operation.opcode) {
      case Opcode::Fp32ToDl16: {
        const vuint16m1_t low = staggered::from_fp32(input(0), 0);
        return __riscv_vor_vv_u16m1(low, staggered::from_fp32(input(1), 1), vl);
      }
      case Opcode::Dl16ToFp8: {
        const vuint16m1_t low = fp8::half_of_codes(fp8::from_dl16(input(0)), 0);
        return __riscv_vor_vv_u16m1(low, fp8::half_of_codes(fp8::from_dl16(input(1)), 1), vl);
      }
      default: {
        const vuint16m1_t low = fp8::from_dl16(input(0));
        return __riscv_vor_vv_u16m1(low, __riscv_vsll_vx_u16m1(fp8::from_dl16(input(1)), 8, vl), vl);
      }
    }
  }
  vuint16m1_t widened(vuint16m1_t stick, unsigned half) const {
    if (work_.operation.opcode == Opcode::Fp8ToDl16) return fp8::to_dl16(fp8::codes_of_half(stick, half));
    const vint32m1_t wide = staggered::to_fp32(stick, half);
    return __riscv_vreinterpret_v_i16m1_u16m1(__riscv_vreinterpret_v_i32m1_i16m1(wide));
  }

  const Work& work_;
  const Operand& from_;
  const Operand& to_;
  unsigned along_;
  unsigned rows_of_;
  bool is_weight_;
  // the dimension whose positions lie in one stick of one side and in two of the other
  unsigned alternating_;
  std::uint32_t from_positions_;  // of it, in one stick
  std::uint32_t to_positions_;
  bool narrows_;
  UnitsByArray by_array_;
};

}  // namespace

Refusal stagger(const Work& work) {
  Stagger(work).run();
  return {};
}

}  // namespace kernel::engine
