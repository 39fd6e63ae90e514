// SPDX-License-Identifier: Apache-2.0
// The product of a block of rows of A and a block of columns of B, for the matrix kernel and for the engine. Which
// element lies where is the Problem's affair:
//
//   Numbers                                what sticks of A and B hold (numbers.hpp)
//   std::uint64_t m, n, k                  elements; columns(): sticks of a row of C
//   void begin_rows(rows)                  the rows of A and C that a block is about to use
//   void begin_chunk(first_k, depth)       the chunk of K that rows and panels are about to be asked for
//   const void* row(row, first_k)          64 k of a row of A as a stick; lanes beyond the chunk may hold anything
//   void begin_panel(first_k, depth, column)
//   const void* panel(k, column)           64 columns of row k of B as a stick, column counts sticks
//   void store(row, column, codes)         a stick of C, lanes beyond n are zero
//   wire::array::Request* array            where the compute array is asked; null: the card has none
//   ArrayPanel array_panel(first_k, depth, column, list)
//                                          where the array finds the panel; `list` has room for kChunk addresses
//   row_stick(row)                         of FP8, for the array: a row's stick as it lies
//   bool is_deep(), row_step()             of DL16: the chunks of a row and the sticks of a panel lie at equal distances
//   static constexpr bool kPasses          K may be cut into passes: first(), last(), kept(row, column, half)
//
// The work of a launch is cut into blocks of up to 512 rows by 8 stick columns of C. For each chunk of K a block's part
// of A becomes integers (once for all its columns), then one stick column of B at a time (once for all its rows), and
// block.S multiplies: half a stick of B (16 KiB) stays in the host's first-level cache while the rows of A pass by. The
// running fp32 sums stay in the scratchpad until the last chunk. A block of few rows has neither (few_rows.hpp). On a
// card with the compute array, the array adds chunks to the same sums.
#pragma once

#include <algorithm>
#include <cstdint>

#include "firmware/kernels/array_request.hpp"
#include "firmware/kernels/dl16_vector.hpp"
#include "firmware/kernels/matmul/exact.hpp"
#include "firmware/kernels/matmul/few_rows.hpp"
#include "firmware/kernels/matmul/numbers.hpp"
#include "firmware/kernels/matmul/operands.hpp"
#include "firmware/kernels/sdk.hpp"
#include "firmware/kernels/vector.hpp"

namespace kernel::matmul {

inline constexpr unsigned kBlockSticks = 8;
inline constexpr unsigned kBlockRows = 512;
// Blocks of no more rows are executed four rows at a time: measured, docs/notes/2026-11-24-matrix-products.md.
inline constexpr unsigned kMostFewRows = 8;
inline constexpr unsigned kFewGroups = (kMostFewRows + FewRows::kRows - 1) / FewRows::kRows;

struct alignas(wire::kStickBytes) BlockMemory {
  float sums[kBlockSticks][kHalves][kBlockRows][kBlockColumns];
  float before[kGroupRows][kBlockColumns];
  ColumnPanel panel;
  RowGroup group[kBlockRows / kGroupRows];
  FewRows few[kFewGroups];
  LaneMask mask_k;
  LaneMask mask_n[kBlockSticks];
  std::uint16_t column_nan[kBlockSticks][kLanes];
  std::uint8_t row_nan[kBlockRows];
  std::uint64_t row_list[kBlockRows];  // for the compute array
  std::uint64_t panel_list[kChunk];
};

struct Extent {
  std::uint64_t first;
  unsigned count;
};

inline unsigned at_most(std::uint64_t value, unsigned limit) {
  return static_cast<unsigned>(std::min<std::uint64_t>(value, limit));
}

// As in wire::array::ChunkRequest.
struct ArrayPanel {
  std::uint64_t address;   // of the list of sticks; with a step, of the first stick
  std::uint64_t step = 0;  // bytes from one stick to the next; 0: they are listed
};

template <typename Problem>
class Block {
 public:
  Block(Problem& problem, BlockMemory& memory, Extent rows, Extent sticks)
      : p_(problem), s_(memory), rows_(rows), sticks_(sticks) {}

  void run() {
    clear();
    p_.begin_rows(rows_);
    if constexpr (Problem::kPasses) {
      if (!p_.first()) for_each_stick([this](unsigned row, unsigned stick) { resume(row, stick); });
    }
    if (is_deep()) {
      for (unsigned i = 0; i < sticks_.count; ++i) add_stick_by_array(i);
    } else {
      for (std::uint64_t first_k = 0; first_k < p_.k; first_k += kChunk) add_chunk(first_k);
    }
    if constexpr (Problem::kPasses) {
      if (!p_.last()) {
        for_each_stick([this](unsigned row, unsigned stick) { keep(row, stick); });
        return;
      }
    }
    for_each_stick([this](unsigned row, unsigned stick) { store(row, stick); });
  }

 private:
  using Numbers = typename Problem::Numbers;
  using Spread = Spreads<Numbers>;

  template <typename Visit>
  void for_each_stick(Visit visit) {
    for (unsigned row = 0; row < rows_.count; ++row) {
      for (unsigned stick = 0; stick < sticks_.count; ++stick) visit(row, stick);
    }
  }

  void clear() {
    const vuint32m8_t zero = __riscv_vmv_v_x_u32m8(0, 8 * kVector32);
    for (unsigned i = 0; i < sticks_.count * kHalves; ++i) {
      float(*to)[kBlockColumns] = s_.sums[i / kHalves][i % kHalves];
      for (unsigned row = 0; row < rows_.count; row += 8) store_registers8(to[row], zero);  // a row is one register
    }
    std::fill_n(s_.row_nan, rows_.count, std::uint8_t{0});
    for (unsigned i = 0; i < sticks_.count; ++i) {
      std::fill_n(s_.column_nan[i], kLanes, std::uint16_t{0});
      s_.mask_n[i].set(p_.n - (sticks_.first + i) * kLanes);
    }
  }

  void add_chunk(std::uint64_t first_k) {
    const unsigned depth = at_most(p_.k - first_k, kChunk);
    p_.begin_chunk(first_k, depth);
    if constexpr (kMayHaveArray) {
      if (p_.array != nullptr) {
        add_chunk_by_array(first_k, depth);
        return;
      }
    }
    if (rows_.count <= kMostFewRows) {
      add_chunk_of_few(first_k, depth, {0, sticks_.count});
    } else {
      add_chunk_of_many(first_k, depth, 0, 0);
    }
  }

  // From a stick of the columns on, of which the first rows are done.
  void add_chunk_of_many(std::uint64_t first_k, unsigned depth, unsigned first_stick, unsigned rows_done) {
    s_.mask_k.set(depth);
    row_spreads_ = {.smallest = ~std::uint32_t{0}, .largest = 0};
    for (unsigned row = 0; row < rows_.count; row += kGroupRows) load_rows(row, first_k);
    for (unsigned i = first_stick; i < sticks_.count; ++i) {
      load_panel(first_k, depth, i);
      for (unsigned half = 0; half < kHalves; ++half) {
        for (unsigned row = i == first_stick ? rows_done : 0; row < rows_.count; row += kGroupRows) {
          multiply(row, i, half, first_k, depth);
        }
      }
    }
  }

  // ---- by the compute array -----------------------------------------------------------------------------------------

  static constexpr bool kMayHaveArray = requires(Problem problem) { problem.array; };
  static_assert(wire::array::lane_of_sum(1, 17) == column_of(1, 17) &&
                wire::array::lane_of_sum(0, 5) == column_of(0, 5));
  static_assert(wire::array::kMaxRows % kGroupRows == 0 && wire::array::kMaxDepth == kChunk);

  bool is_deep() const {
    if constexpr (kMayHaveArray && requires(Problem problem) { problem.is_deep(); }) {
      return p_.array != nullptr && rows_.count <= wire::array::kFewRows && p_.is_deep();
    }
    return false;
  }

  // All chunks of few rows and one stick of columns. A chunk that the array refuses this core does itself.
  void add_stick_by_array(unsigned stick) {
    if constexpr (kMayHaveArray) {
      for (std::uint64_t first_k = 0; first_k < p_.k;) {
        p_.begin_chunk(first_k, at_most(p_.k - first_k, kChunk));
        list_rows(first_k);
        const unsigned depth = at_most(p_.k - first_k, wire::array::kMaxFewDepth);
        const ArrayPanel panel = p_.array_panel(first_k, depth, sticks_.first + stick, s_.panel_list);
        unsigned done = multiply_by_array(0, stick, panel, first_k, depth);
        if (done == 0) {
          done = at_most(p_.k - first_k, kChunk);
          add_chunk_of_few(first_k, done, {stick, 1});
        }
        first_k += done;
      }
    }
  }

  // What the array refuses, and what is behind that, this core does itself.
  void add_chunk_by_array(std::uint64_t first_k, unsigned depth) {
    list_rows(first_k);
    for (unsigned i = 0; i < sticks_.count; ++i) {
      const ArrayPanel panel = p_.array_panel(first_k, depth, sticks_.first + i, s_.panel_list);
      for (unsigned row = 0; row < rows_.count; row += wire::array::kMaxRows) {
        if (multiply_by_array(row, i, panel, first_k, depth) != 0) continue;
        if (rows_.count <= kMostFewRows) {
          add_chunk_of_few(first_k, depth, {i, sticks_.count - i});
        } else {
          add_chunk_of_many(first_k, depth, i, row);
        }
        return;
      }
    }
  }

  // Two chunks of k lie in a stick of a row of FP8.
  static constexpr bool kIsFp8 = requires(Problem problem) { problem.row_stick(0); };

  void list_rows(std::uint64_t first_k) {
    for (unsigned row = 0; row < rows_.count; ++row) s_.row_list[row] = row_for_array(rows_.first + row, first_k);
  }
  std::uint64_t row_for_array(std::uint64_t row, std::uint64_t first_k) {
    if constexpr (kIsFp8) {
      return p_.row_stick(row);
    } else {
      return reinterpret_cast<std::uint64_t>(p_.row(row, first_k));
    }
  }
  std::uint64_t row_step() const {
    if constexpr (kIsFp8) {
      return 0;
    } else {
      return p_.row_step();
    }
  }

  // Returns how many positions of k are done; 0: the array refuses.
  unsigned multiply_by_array(unsigned first_row, unsigned stick, const ArrayPanel& panel, std::uint64_t first_k,
                             unsigned depth) {
    auto& request = *reinterpret_cast<wire::array::ChunkRequest*>(p_.array);
    request.kind = wire::array::Kind::Chunk;
    request.rows = at_most(rows_.count - first_row, wire::array::kMaxRows);
    request.depth = depth;
    request.lanes = at_most(p_.n - (sticks_.first + stick) * kLanes, kLanes);
    request.row_list = reinterpret_cast<std::uint64_t>(s_.row_list + first_row);
    request.panel_list = panel.address;
    request.sums = reinterpret_cast<std::uint64_t>(s_.sums[stick][0][first_row]);
    request.half_step = sizeof s_.sums[stick][0];
    request.format = static_cast<std::uint32_t>(kIsFp8 ? wire::program::Format::Fp8E4m3 : wire::program::Format::Dl16);
    request.half = kIsFp8 ? static_cast<std::uint32_t>(first_k / kChunk % 2) : 0;
    request.row_step = depth > kChunk ? row_step() : 0;
    request.panel_step = panel.step;
    return is_done_by_array(*p_.array) ? static_cast<unsigned>(request.done) : 0;
  }

  void load_rows(unsigned first_row, std::uint64_t first_k) {
    const void* sticks[kGroupRows];
    const unsigned rows = at_most(rows_.count - first_row, kGroupRows);
    for (unsigned i = 0; i < rows; ++i) sticks[i] = p_.row(rows_.first + first_row + i, first_k);
    RowGroup& group = s_.group[first_row / kGroupRows];
    group.template load<Numbers>(sticks, rows, s_.mask_k, s_.row_nan + first_row);
    row_spreads_.smallest = std::min(row_spreads_.smallest, group.largest_spread);
    row_spreads_.largest = std::max(row_spreads_.largest, group.largest_spread);
  }

  void begin_panel(std::uint64_t first_k, unsigned depth, unsigned stick, const void* (&sticks)[kChunk]) {
    p_.begin_panel(first_k, depth, sticks_.first + stick);
    for (unsigned i = 0; i < depth; ++i) sticks[i] = p_.panel(first_k + i, sticks_.first + stick);
  }

  void load_panel(std::uint64_t first_k, unsigned depth, unsigned stick) {
    const void* sticks[kChunk];
    begin_panel(first_k, depth, stick, sticks);
    s_.panel.template load<Numbers>(sticks, depth, s_.mask_n[stick], s_.column_nan[stick], row_spreads_);
  }

  void multiply(unsigned first_row, unsigned stick, unsigned half, std::uint64_t first_k, unsigned depth) {
    const unsigned rows = at_most(rows_.count - first_row, kGroupRows);
    const RowGroup& a = s_.group[first_row / kGroupRows];
    const ColumnPanel& b = s_.panel;
    float(*sums)[kBlockColumns] = s_.sums[stick][half] + first_row;
    const unsigned spread = a.largest_spread + b.largest_spread[half];
    if (spread <= Spread::kNarrow) {
      matmul_block_narrow(a.value, b.narrow[half], sums, a.exponent, b.exponent[half], a.term, b.narrow_term[half]);
      return;
    }
    const bool exact = Spread::kAlwaysFit || (spread <= Spread::kWide && a.largest_spread <= Spread::kRow);
    if (!exact) std::copy_n(&sums[0][0], kGroupRows * kBlockColumns, &s_.before[0][0]);
    for (unsigned row = 0; row < rows; row += kWideRows) {
      matmul_block_wide(a.value + row, b.wide[half], sums + row, a.exponent + row, b.exponent[half], a.term + row,
                        b.wide_term[half]);
    }
    if (!exact) repair(first_row, rows, stick, half, first_k, depth);
  }

  // Gives the elements that 64 bits can not hold their exact chunk sum.
  void repair(unsigned first_row, unsigned rows, unsigned stick, unsigned half, std::uint64_t first_k, unsigned depth) {
    for (unsigned row = 0; row < rows; ++row) {
      const std::uint32_t spread = s_.group[first_row / kGroupRows].spread[row];
      // A row that spreads further has no values.
      const std::uint32_t counted = spread <= Spread::kRow ? spread : Spread::kWide + 1;
      repair_row(first_row + row, s_.before[row], counted, stick, half, first_k, depth);
    }
  }

  // `before`: the sums of the row in front of this chunk.
  void repair_row(unsigned row, const float* before, std::uint32_t row_spread, unsigned stick, unsigned half,
                  std::uint64_t first_k, unsigned depth) {
    float* const sums = s_.sums[stick][half][row];
    for (unsigned column = 0; column < kBlockColumns; ++column) {
      if (row_spread + s_.panel.spread[half][column] <= Spread::kWide) continue;
      const Element at{rows_.first + row, sticks_.first + stick, column_of(half, column)};
      if constexpr (!Spread::kAlwaysFit) sums[column] = before[column] + exact_dot(at, first_k, depth);
    }
  }

  // ---- few rows -----------------------------------------------------------------------------------------------------

  void add_chunk_of_few(std::uint64_t first_k, unsigned depth, Extent sticks_of_block) {
    const unsigned groups = (rows_.count + FewRows::kRows - 1) / FewRows::kRows;
    for (unsigned g = 0; g < groups; ++g) {
      s_.few[g].clear();
      for (unsigned row = g * FewRows::kRows; row < rows_.count && s_.few[g].count < FewRows::kRows; ++row) {
        s_.few[g].template add<Numbers>(p_.row(rows_.first + row, first_k), depth, s_.row_nan[row]);
      }
    }
    for (unsigned n = 0; n < sticks_of_block.count; ++n) {
      const auto i = static_cast<unsigned>(sticks_of_block.first) + n;
      const void* sticks[kChunk];
      begin_panel(first_k, depth, i, sticks);
      const vuint16m1_t low = s_.panel.template measure<Numbers>(sticks, depth, s_.mask_n[i], s_.column_nan[i]);
      for (unsigned g = 0; g < groups; ++g) multiply_few(g, i, sticks, low, first_k, depth);
    }
  }

  void multiply_few(unsigned group, unsigned stick, const void* const (&sticks)[kChunk], vuint16m1_t low,
                    std::uint64_t first_k, unsigned depth) {
    const FewRows& few = s_.few[group];
    const unsigned first_row = group * FewRows::kRows;
    float(*sums[kHalves])[kBlockColumns] = {s_.sums[stick][0] + first_row, s_.sums[stick][1] + first_row};
    bool exact[kHalves];
    for (unsigned half = 0; half < kHalves; ++half) {
      exact[half] = few.largest_spread + s_.panel.largest_spread[half] <= Spread::kWide;
      float(*before)[kBlockColumns] = s_.before + half * FewRows::kRows;
      if (!exact[half]) std::copy_n(&sums[half][0][0], FewRows::kRows * kBlockColumns, &before[0][0]);
    }
    few.template multiply<Numbers>(sticks, depth, s_.panel, low, sums[0], sums[1]);
    for (unsigned half = 0; half < kHalves; ++half) {
      for (unsigned row = 0; !exact[half] && row < few.count; ++row) {
        const float* before = s_.before[half * FewRows::kRows + row];
        repair_row(first_row + row, before, few.spread[row], stick, half, first_k, depth);
      }
    }
  }

  struct Element {
    std::uint64_t row;
    std::uint64_t stick;
    unsigned lane;
  };

  // Along a row of A (one stick) and down a column of B (stick after stick). Elements of NaN rows and columns are
  // replaced at the end; here they count as zero.
  float exact_dot(const Element& at, std::uint64_t first_k, unsigned depth) {
    ExactSum sum;
    const auto* x = static_cast<const std::uint16_t*>(p_.row(at.row, first_k));
    for (unsigned k = 0; k < depth; ++k) {
      const std::uint16_t y = static_cast<const std::uint16_t*>(p_.panel(first_k + k, at.stick))[at.lane];
      if (wire::dl16_is_finite(x[k]) && wire::dl16_is_finite(y)) sum.add_product(x[k], y);
    }
    return sum.to_fp32();
  }

  static vint32m1_t rounded(const float* from) { return dl16::from_fp32(load_words(from)); }

  // All bits of the lanes that a NaN belongs to.
  vuint16m1_t nan_lanes(unsigned row, unsigned stick) const {
    const vuint16m1_t row_nan = __riscv_vmv_v_x_u16m1(s_.row_nan[row] != 0 ? 0xFFFF : 0, kVector16);
    return __riscv_vor_vv_u16m1(load_stick(s_.column_nan[stick]), row_nan, kVector16);
  }

  void resume(unsigned row, unsigned stick) {
    for (unsigned half = 0; half < kHalves; ++half) {
      store_register(s_.sums[stick][half][row], load_words(p_.kept(rows_.first + row, sticks_.first + stick, half)));
    }
  }

  void keep(unsigned row, unsigned stick) {
    constexpr std::int32_t kNan = 0x7FC00000;  // what an addition with it gives, too
    constexpr std::size_t vl = kVector32;
    alignas(wire::kStickBytes) std::uint16_t lanes[kLanes];
    alignas(wire::kStickBytes) std::int32_t mine[kBlockColumns];
    store_register(lanes, nan_lanes(row, stick));
    for (unsigned half = 0; half < kHalves; ++half) {
      for (unsigned i = 0; i < kBlockColumns; ++i) mine[i] = lanes[column_of(half, i)] != 0 ? -1 : 0;
      const vint32m1_t nan = load_words(mine);
      const vint32m1_t numbers =
          __riscv_vand_vv_i32m1(load_words(s_.sums[stick][half][row]), __riscv_vxor_vx_i32m1(nan, -1, vl), vl);
      store_register(p_.kept(rows_.first + row, sticks_.first + stick, half),
                     __riscv_vor_vv_i32m1(numbers, __riscv_vand_vx_i32m1(nan, kNan, vl), vl));
    }
  }

  // The codes of all columns in their order: a half has the even or the odd ones (column_of()).
  vuint16m1_t codes_of(unsigned row, unsigned stick) const {
    const auto& sums = s_.sums[stick];
    const vint32m1_t odd = __riscv_vsll_vx_i32m1(rounded(sums[1][row]), 16, kVector32);
    const vint32m1_t pairs = __riscv_vor_vv_i32m1(rounded(sums[0][row]), odd, kVector32);
    alignas(wire::kStickBytes) std::uint32_t pair[kVector32];
    store_register(pair, pairs);
    const auto widened = [](const std::uint32_t* from) {
      return __riscv_vzext_vf2_u64m1(__riscv_vle32_v_u32mf2(from, kVector64), kVector64);
    };
    const vuint64m1_t low = widened(pair);
    const vuint64m1_t high = __riscv_vsll_vx_u64m1(widened(pair + kVector64), 32, kVector64);
    return __riscv_vreinterpret_v_u64m1_u16m1(__riscv_vor_vv_u64m1(low, high, kVector64));
  }

  void store(unsigned row, unsigned stick) {
    constexpr std::size_t vl = kVector16;
    const vuint16m1_t nan = nan_lanes(row, stick);
    vuint16m1_t codes = __riscv_vand_vv_u16m1(codes_of(row, stick), __riscv_vxor_vx_u16m1(nan, 0xFFFF, vl), vl);
    codes = __riscv_vor_vv_u16m1(codes, __riscv_vand_vx_u16m1(nan, wire::kDl16Nan, vl), vl);
    codes = __riscv_vand_vv_u16m1(codes, load_stick(s_.mask_n[stick].lane), vl);
    p_.store(rows_.first + row, sticks_.first + stick, codes);
  }

  Problem& p_;
  BlockMemory& s_;
  Extent rows_;
  Extent sticks_;
  RowSpreads row_spreads_{};  // in this chunk
};

// The blocks of a launch, in the order in which its cores claim them: large ones first, because operands are prepared
// once for each block, and small ones at the end, so that all cores end at about the same time. A unit is the smallest
// block; a block is some units of the same columns, one below the other. The list depends on the launch alone.
class Blocks {
 public:
  // `batches` products of this size; at most `most_rows` in one block.
  Blocks(std::uint64_t m, std::uint64_t columns, std::uint64_t batches, std::uint64_t cores, unsigned most_rows)
      : m_(m), columns_(columns), batches_(batches), cores_(cores), most_rows_(most_rows), rows_(most_rows) {
    if (cores_ == 1) return;
    rows_ = std::min(rows_, kUnitRows);
    bool smaller = true;
    while (smaller && units() < kUnitsOfCore * cores_) smaller = make_smaller();
  }

  // From the first block on, goes to block `number`, which is never smaller than that of the call before. False: there
  // are not so many.
  bool go_to(std::uint64_t number) {
    while (at_ < units()) {
      count_ = length_at(at_);
      if (number_ == number) return true;
      at_ += count_;
      ++number_;
    }
    return false;
  }
  std::uint64_t batch() const { return at_ / units_of_column() / column_blocks(); }
  Extent rows() const {
    const std::uint64_t first = at_ % units_of_column() * rows_;
    return {first, at_most(m_ - first, static_cast<unsigned>(count_) * rows_)};
  }
  Extent sticks() const {
    const std::uint64_t first = at_ / units_of_column() % column_blocks() * sticks_;
    return {first, at_most(columns_ - first, sticks_)};
  }

 private:
  static constexpr unsigned kUnitRows = 128;
  static constexpr std::uint64_t kUnitsOfCore = 4;  // at least, where the product is large enough

  bool make_smaller() {
    if (sticks_ > 2) {
      sticks_ /= 2;
    } else if (sticks_ > 1) {
      sticks_ = 1;
    } else if (rows_ > kGroupRows) {
      rows_ /= 2;
    } else {
      return false;
    }
    return true;
  }
  std::uint64_t units_of_column() const { return (m_ + rows_ - 1) / rows_; }
  std::uint64_t column_blocks() const { return (columns_ + sticks_ - 1) / sticks_; }
  std::uint64_t units() const { return units_of_column() * column_blocks() * batches_; }

  // Half of what each core would get of what is left.
  std::uint64_t length_at(std::uint64_t unit) const {
    const std::uint64_t wanted = std::max<std::uint64_t>((units() - unit) / (2 * cores_), 1);
    const std::uint64_t left_of_column = units_of_column() - unit % units_of_column();
    return std::min({wanted, left_of_column, std::uint64_t{most_rows_ / rows_}});
  }

  std::uint64_t m_;
  std::uint64_t columns_;
  std::uint64_t batches_;
  std::uint64_t cores_;
  unsigned most_rows_;
  unsigned rows_;  // of a unit
  unsigned sticks_ = kBlockSticks;
  std::uint64_t number_ = 0;
  std::uint64_t at_ = 0;     // first unit of the block
  std::uint64_t count_ = 0;  // its units
};

}  // namespace kernel::matmul
