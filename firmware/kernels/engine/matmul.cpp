// SPDX-License-Identifier: Apache-2.0
// MatMul on DL16: out[…, m, n] = Σ over k of left[…, m, k] * right[…, k, n], with the numerics of the matrix kernel
// (firmware/kernels/matmul), whose blocks execute it. The roles of the dimensions follow from the operands
// (product.hpp).
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/product.hpp"

namespace kernel::engine {
namespace {

using matmul::at_most;
using matmul::Extent;
using matmul::kBlockRows;
using matmul::kChunk;

// Rows of one block when the k of a row do not lie in one stick and are gathered.
constexpr unsigned kGatheredRows = 64;

struct Memory {
  matmul::BlockMemory block;
  std::uint16_t left[kGatheredRows][kLanes];
  std::uint16_t right[kChunk][kLanes];
  std::uint64_t row_of_left[kBlockRows];
  std::uint64_t row_of_out[kBlockRows];
};
static_assert(sizeof(Memory) <= kWorkingBytes);

// What matmul::Block asks for.
class Problem {
 public:
  using Numbers = matmul::Dl16Numbers;
  static constexpr bool kPasses = false;

  Problem(const Work& work, const Axes& axes, const Roles& roles, Memory& memory)
      : m(roles.rows.total()),
        n(roles.n < program::kMaxRank ? axes.extent(roles.n) : 1),
        k(axes.extent(roles.k)),
        array(work.array),
        axes_(axes),
        roles_(roles),
        memory_(memory),
        copies_(work, axes),
        gathers_left_(work.operation.operand[kLeft].stick_dim != roles.k),
        gathers_right_(roles.n >= program::kMaxRank || work.operation.operand[kRight].stick_dim != roles.n),
        spreads_(work.output().stick_dim == program::kNoDimension) {}

  std::uint64_t m, n, k;
  wire::array::Request* array;
  std::uint64_t columns() const { return (n + kLanes - 1) / kLanes; }
  unsigned most_rows() const { return gathers_left_ ? kGatheredRows : kBlockRows; }

  void begin_batch(std::uint64_t number) {
    for (unsigned o = kLeft; o <= kOut; ++o) base_[o] = axes_.base(o) + roles_.batches.stick(axes_, o, number);
  }

  void begin_rows(Extent rows) {
    first_row_ = rows.first;
    rows_ = rows.count;
    for (unsigned i = 0; i < rows.count; ++i) {
      memory_.row_of_left[i] = base_[kLeft] + roles_.rows.stick(axes_, kLeft, rows.first + i);
      memory_.row_of_out[i] = base_[kOut] + roles_.rows.stick(axes_, kOut, rows.first + i);
    }
  }

  void begin_chunk(std::uint64_t first_k, unsigned depth) {
    chunk_ = axes_.of(kLeft, roles_.k).stick(static_cast<std::uint32_t>(first_k));
    if (!gathers_left_) return;
    for (unsigned i = 0; i < rows_; ++i) {
      for (unsigned j = 0; j < depth; ++j) {
        memory_.left[i][j] = load(memory_.row_of_left[i] + place(kLeft, roles_.k, first_k + j));
      }
    }
  }

  const void* row(std::uint64_t row, std::uint64_t /*first_k*/) const {
    const std::uint64_t i = row - first_row_;
    if (gathers_left_) return memory_.left[i];
    return reinterpret_cast<const void*>(memory_.row_of_left[i] + chunk_);
  }

  void begin_panel(std::uint64_t first_k, unsigned depth, std::uint64_t column) {
    panel_k_ = first_k;
    panel_ = base_[kRight] + column_place(kRight, column);
    if (!gathers_right_) return;
    const unsigned lanes = at_most(n - column * kLanes, kLanes);
    for (unsigned i = 0; i < depth; ++i) {
      const std::uint64_t row = base_[kRight] + place(kRight, roles_.k, first_k + i);
      for (unsigned lane = 0; lane < lanes; ++lane) {
        const std::uint64_t in_row = roles_.n < program::kMaxRank ? place(kRight, roles_.n, column * kLanes + lane) : 0;
        memory_.right[i][lane] = load(row + in_row);
      }
    }
  }

  const void* panel(std::uint64_t row, std::uint64_t /*column*/) const {
    if (gathers_right_) return memory_.right[row - panel_k_];
    return reinterpret_cast<const void*>(panel_ + axes_.of(kRight, roles_.k).stick(static_cast<std::uint32_t>(row)));
  }

  matmul::ArrayPanel array_panel(std::uint64_t first_k, unsigned depth, std::uint64_t column, std::uint64_t* list) {
    const Axis& of_k = axes_.of(kRight, roles_.k);
    if (has_panel_step()) {
      const std::uint64_t first = of_k.stick(static_cast<std::uint32_t>(first_k));
      return {.address = base_[kRight] + column_place(kRight, column) + first, .step = of_k.stride};
    }
    begin_panel(first_k, depth, column);
    for (unsigned i = 0; i < depth; ++i) list[i] = reinterpret_cast<std::uint64_t>(panel(first_k + i, column));
    return {.address = reinterpret_cast<std::uint64_t>(list)};
  }

  // More than one chunk at a time.
  bool is_deep() const { return !gathers_left_ && axes_.of(kLeft, roles_.k).part == 0 && has_panel_step(); }
  std::uint64_t row_step() const { return axes_.of(kLeft, roles_.k).stride; }

  void store(std::uint64_t row, std::uint64_t column, vuint16m1_t codes) const {
    const std::uint64_t to = memory_.row_of_out[row - first_row_];
    if (spreads_) {
      spread(to, column, codes);
      return;
    }
    for (unsigned i = 0; i < copies_.count; ++i) {
      store_register(reinterpret_cast<void*>(to + column_place(kOut, column) + copies_.offset[i]), codes);
    }
  }

 private:
  std::uint64_t place(unsigned operand, unsigned d, std::uint64_t index) const {
    return axes_.of(operand, d).element(static_cast<std::uint32_t>(index));
  }
  std::uint64_t column_place(unsigned operand, std::uint64_t column) const {
    if (roles_.n >= program::kMaxRank) return 0;
    return axes_.of(operand, roles_.n).stick(static_cast<std::uint32_t>(column * kLanes));
  }
  // The sticks of a panel lie at equal distances.
  bool has_panel_step() const {
    const Axis& of_k = axes_.of(kRight, roles_.k);
    return !gathers_right_ && of_k.part == 0 && of_k.stride != 0;
  }
  static std::uint16_t load(std::uint64_t address) { return *reinterpret_cast<const std::uint16_t*>(address); }

  // An output without a stick dimension: each element fills a stick.
  void spread(std::uint64_t to, std::uint64_t column, vuint16m1_t codes) const {
    alignas(wire::kStickBytes) std::uint16_t code[kLanes];
    store_register(code, codes);
    const unsigned lanes = at_most(n - column * kLanes, kLanes);
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const std::uint64_t in_row = roles_.n < program::kMaxRank ? place(kOut, roles_.n, column * kLanes + lane) : 0;
      for (unsigned i = 0; i < copies_.count; ++i) {
        store_register(reinterpret_cast<void*>(to + in_row + copies_.offset[i]),
                       __riscv_vmv_v_x_u16m1(code[lane], kVector16));
      }
    }
  }

  const Axes& axes_;
  const Roles& roles_;
  Memory& memory_;
  Copies copies_;
  bool gathers_left_;
  bool gathers_right_;
  bool spreads_;
  std::uint64_t base_[3]{};
  std::uint64_t first_row_ = 0;
  unsigned rows_ = 0;
  std::uint64_t chunk_ = 0;
  std::uint64_t panel_ = 0;
  std::uint64_t panel_k_ = 0;
};

bool formats_are_known(const Work& work) {
  for (unsigned o = kLeft; o <= kOut; ++o) {
    if (work.operation.operand[o].format != program::Format::Dl16) return false;
  }
  return work.operation.operand_count == kOut + 1 && work.operation.mask_count == 0;
}

}  // namespace

Refusal matrix_product(const Work& work) {
  if (!formats_are_known(work)) return work.refuse(Where::Unsupported);
  const Axes axes(work);
  const Roles roles = roles_of(work, axes);
  if (!roles.can_execute) return work.refuse(Where::Unsupported);
  auto& memory = reinterpret_cast<Memory&>(work.working);
  Problem problem(work, axes, roles, memory);
  execute_product(work, roles, problem, memory.block);
  return {};
}

}  // namespace kernel::engine
