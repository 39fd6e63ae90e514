// SPDX-License-Identifier: Apache-2.0
// Conversions between formats of different size whose lanes change places, as the arrays of the card do it
// (docs/device-programs.md): DL16 and FP32, DL16 and FP8, and DL16 into sticks of FP8 weights, which hold two positions
// of one dimension and 64 of the stick dimension. Whole sticks at a time.
#include <bit>

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
        is_weight_(work.operation.opcode == Opcode::Dl16ToFp8Weight) {}

  void run() {
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

  void stick(const Index& first) {
    const std::uint64_t to = output_address(first);
    switch (work_.operation.opcode) {
      case Opcode::Dl16ToFp8Weight: return stick_of_weight(first, to);
      case Opcode::Dl16ToFp8:
        return stick_of_two(first, to, [](vuint16m1_t stick, unsigned half) {
          return fp8::half_of_codes(fp8::from_dl16(stick), half);
        });
      case Opcode::Fp32ToDl16: return stick_of_two(first, to, staggered::from_fp32);
      case Opcode::Fp8ToDl16:
        return stick_of_half(
            first, to, [](vuint16m1_t stick, unsigned half) { return fp8::to_dl16(fp8::codes_of_half(stick, half)); });
      default: return stick_of_half(first, to, staggered::to_fp32);
    }
  }

  // Of the input; zeros beyond its last one.
  vuint16m1_t input_stick(const Index& from) const {
    const std::uint32_t end = wire::align_up(work_.operation.extent[along_], program::lanes_of(from_.format));
    if (from.of[along_] >= end) return __riscv_vmv_v_x_u16m1(0, kVector16);
    return load_stick(reinterpret_cast<const void*>(address_of(work_, from_, from)));
  }

  // Of two sticks of the input: `convert` gets each, and 0 or 1, and gives its part of the output's stick.
  template <typename Convert>
  void stick_of_two(const Index& first, std::uint64_t to, Convert convert) const {
    Index from = input_index(work_, first);
    const vuint16m1_t low = convert(input_stick(from), 0);
    from.of[along_] += program::lanes_of(from_.format);
    const vuint16m1_t high = convert(input_stick(from), 1);
    store_register(reinterpret_cast<void*>(to), __riscv_vor_vv_u16m1(low, high, kVector16));
  }
  // Of half a stick of the input, half 0 or 1.
  template <typename Convert>
  void stick_of_half(const Index& first, std::uint64_t to, Convert convert) const {
    Index from = input_index(work_, first);
    const std::uint32_t half = from.of[along_] / program::lanes_of(to_.format) % 2;
    from.of[along_] -= from.of[along_] % program::lanes_of(from_.format);
    store_register(reinterpret_cast<void*>(to), convert(input_stick(from), half));
  }

  void stick_of_weight(const Index& first, std::uint64_t to) const {
    Index from = input_index(work_, first);
    vuint16m1_t codes = fp8::from_dl16(input_stick(from));
    if (++from.of[rows_of_] < work_.operation.extent[rows_of_]) {
      const vuint16m1_t odd = __riscv_vsll_vx_u16m1(fp8::from_dl16(input_stick(from)), 8, kVector16);
      codes = __riscv_vor_vv_u16m1(codes, odd, kVector16);
    }
    store_register(reinterpret_cast<void*>(to), codes);
  }

  const Work& work_;
  const Operand& from_;
  const Operand& to_;
  unsigned along_;
  unsigned rows_of_;
  bool is_weight_;
};

}  // namespace

Refusal stagger(const Work& work) {
  Stagger(work).run();
  return {};
}

}  // namespace kernel::engine
