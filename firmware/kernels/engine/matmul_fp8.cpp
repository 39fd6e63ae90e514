// SPDX-License-Identifier: Apache-2.0
// MatMulFp8: the product of what Dl16ToFp8 and Dl16ToFp8Weight wrote, to DL16. The same product as MatMul
// (matmul.cpp), on FP8_E4M3 numbers: two chunks of 64 k lie in one stick of left, and one stick of right holds two k of
// 64 columns. An FP8_E4M3 number needs so few bits that its sums always fit 64 bits, and often 32.
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/product.hpp"
#include "firmware/kernels/fp8_vector.hpp"

namespace kernel::engine {
namespace {

using matmul::Extent;
using matmul::kBlockRows;
using matmul::kChunk;
using matmul::kGroupRows;

struct Memory {
  matmul::BlockMemory block;
  std::uint16_t left[kGroupRows][kLanes];  // of the rows that were asked for last
  std::uint16_t right[kChunk][kLanes];
  std::uint64_t row_of_left[kBlockRows];
  std::uint64_t row_of_out[kBlockRows];
};
static_assert(sizeof(Memory) <= kWorkingBytes);

// What matmul::Block asks for.
class Fp8Problem {
 public:
  using Numbers = matmul::E4m3Numbers;
  static constexpr bool kPasses = false;

  Fp8Problem(const Work& work, const Axes& axes, const Roles& roles, Memory& memory)
      : m(roles.rows.total()),
        n(axes.extent(roles.n)),
        k(axes.extent(roles.k)),
        array(work.array),
        axes_(axes),
        roles_(roles),
        memory_(memory),
        copies_(work, axes) {}

  std::uint64_t m, n, k;
  wire::array::Request* array;
  std::uint64_t columns() const { return (n + kLanes - 1) / kLanes; }
  static unsigned most_rows() { return kBlockRows; }

  void begin_batch(std::uint64_t number) {
    for (unsigned o = kLeft; o <= kOut; ++o) base_[o] = axes_.base(o) + roles_.batches.stick(axes_, o, number);
  }

  void begin_rows(Extent rows) {
    first_row_ = rows.first;
    for (unsigned i = 0; i < rows.count; ++i) {
      memory_.row_of_left[i] = base_[kLeft] + roles_.rows.stick(axes_, kLeft, rows.first + i);
      memory_.row_of_out[i] = base_[kOut] + roles_.rows.stick(axes_, kOut, rows.first + i);
    }
  }

  void begin_chunk(std::uint64_t first_k, unsigned /*depth*/) { chunk_ = stick(kLeft, roles_.k, first_k); }

  // Valid until the next kGroupRows rows are asked for: a block uses no more at a time.
  const void* row(std::uint64_t row, std::uint64_t first_k) {
    const std::uint64_t i = row - first_row_;
    std::uint16_t* const codes = memory_.left[i % kGroupRows];
    const auto* from = reinterpret_cast<const void*>(row_stick(row));
    store_register(codes, fp8::codes_of_half(load_stick(from), static_cast<unsigned>(first_k / kChunk % 2)));
    return codes;
  }

  std::uint64_t row_stick(std::uint64_t row) const { return memory_.row_of_left[row - first_row_] + chunk_; }

  void begin_panel(std::uint64_t first_k, unsigned depth, std::uint64_t column) {
    panel_k_ = first_k;
    const std::uint64_t panel = panel_place(column);
    for (unsigned i = 0; i < depth; i += 2) {
      const vuint16m1_t pairs = load_stick(reinterpret_cast<const void*>(panel + stick(kRight, roles_.k, first_k + i)));
      store_register(memory_.right[i], __riscv_vsll_vx_u16m1(pairs, 8, kVector16));
      store_register(memory_.right[i + 1], __riscv_vand_vx_u16m1(pairs, 0xFF00, kVector16));
    }
  }
  const void* panel(std::uint64_t row, std::uint64_t /*column*/) const { return memory_.right[row - panel_k_]; }
  std::uint64_t panel_stick(std::uint64_t k_of_pair, std::uint64_t column) const {
    return panel_place(column) + stick(kRight, roles_.k, k_of_pair);
  }

  matmul::ArrayPanel array_panel(std::uint64_t first_k, unsigned depth, std::uint64_t column,
                                 std::uint64_t* list) const {
    const Axis& of_k = axes_.of(kRight, roles_.k);
    if (of_k.part == 0 && of_k.stride != 0) return {.address = panel_stick(first_k, column), .step = of_k.stride};
    for (unsigned i = 0; i < depth; i += 2) list[i / 2] = panel_stick(first_k + i, column);
    return {.address = reinterpret_cast<std::uint64_t>(list)};
  }

  void store(std::uint64_t row, std::uint64_t column, vuint16m1_t codes) const {
    const std::uint64_t to = memory_.row_of_out[row - first_row_] + stick(kOut, roles_.n, column * kLanes);
    for (unsigned i = 0; i < copies_.count; ++i) {
      store_register(reinterpret_cast<void*>(to + copies_.offset[i]), codes);
    }
  }

 private:
  std::uint64_t panel_place(std::uint64_t column) const {
    return base_[kRight] + stick(kRight, roles_.n, column * kLanes);
  }
  std::uint64_t stick(unsigned operand, unsigned d, std::uint64_t index) const {
    return axes_.of(operand, d).stick(static_cast<std::uint32_t>(index));
  }

  const Axes& axes_;
  const Roles& roles_;
  Memory& memory_;
  Copies copies_;
  std::uint64_t base_[3]{};
  std::uint64_t first_row_ = 0;
  std::uint64_t chunk_ = 0;
  std::uint64_t panel_k_ = 0;
};

}  // namespace

Refusal matrix_product_fp8(const Work& work) {
  const Axes axes(work);
  const Roles roles = roles_of(work, axes);
  if (!roles.can_execute) return work.refuse(Where::Unsupported);
  auto& memory = reinterpret_cast<Memory&>(work.working);
  Fp8Problem problem(work, axes, roles, memory);
  execute_product(work, roles, problem, memory.block);
  return {};
}

}  // namespace kernel::engine
