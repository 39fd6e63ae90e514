// SPDX-License-Identifier: Apache-2.0
// C = A * B on DL16 sticks, with the project's matrix numerics: the 64 products of a stick chunk along K are summed
// exactly and rounded once to fp32 (nearest even), chunks are added in fp32 in ascending order, the result is rounded
// once to DL16 (nearest, ties away from zero). An exact zero is +0; a NaN in a row of A or a column of B makes every
// element of that row or column of C 0x7FFF; overflow gives 0x7FFF with the sign. Bit-identical everywhere.
//
// A [M,K], B [K,N], C [M,N] in stick layout; any M, N, K; strides are those of the whole tensors, so that a tile of
// rows is addressed by a larger stride. Padding lanes of A and B are never used; those of C are written as zero.
//
// K may be cut into passes of whole chunks: each but the last leaves the fp32 sums in the launch's memory for partial
// results, and each but the first goes on with them. The additions are the same in the same order, so that the result
// does not depend on the passes. A sum that a NaN belongs to is kept as NaN.
//
// The work is cut into blocks of up to 512 rows by 8 stick columns of C, which the cores take in turn. For each chunk
// of K a block's part of A becomes integers (once for all its columns), then one stick column of B at a time (once for
// all its rows), and block.S multiplies: half a stick of B (16 KiB) stays in the host's first-level cache while the
// rows of A pass by. The running fp32 sums stay in the scratchpad until the last chunk.
#include <algorithm>

#include "firmware/kernels/matmul/exact.hpp"
#include "firmware/kernels/matmul/operands.hpp"

namespace kernel::matmul {
namespace {

enum Symbol : unsigned { kAddressA, kStrideA, kAddressB, kStrideB, kAddressC, kStrideC, kM, kN, kK, kPartials, kPass };
enum Status : std::uint64_t { kOk = 0, kScratchpadTooSmall = 1 };

constexpr unsigned kBlockSticks = 8;
constexpr unsigned kBlockRows = 512;
constexpr unsigned kBlockGroups = kBlockRows / kGroupRows;

struct alignas(wire::kStickBytes) Scratchpad {
  float sums[kBlockSticks][kHalves][kBlockRows][kBlockColumns];
  float before[kGroupRows][kBlockColumns];
  ColumnPanel panel;
  RowGroup group[kBlockGroups];
  LaneMask mask_k;
  LaneMask mask_n[kBlockSticks];
  std::uint16_t column_nan[kBlockSticks][kLanes];
  std::uint8_t row_nan[kBlockRows];
};
static_assert(sizeof(Scratchpad) <= wire::kScratchpadBytes);

struct Problem {
  StickTensor a, b, c;
  std::uint64_t m, n, k;
  std::uint64_t partials;  // [stick column][row][half][32] fp32
  std::uint64_t pass;
  std::uint64_t columns() const { return (n + kLanes - 1) / kLanes; }
  bool first() const { return (pass & wire::kPassFirst) != 0; }
  bool last() const { return (pass & wire::kPassLast) != 0; }
  float* kept(std::uint64_t row, std::uint64_t stick, unsigned half) const {
    return reinterpret_cast<float*>(partials + ((stick * m + row) * kHalves + half) * wire::kStickBytes);
  }
};

struct Extent {
  std::uint64_t first;
  unsigned count;
};

unsigned at_most(std::uint64_t value, unsigned limit) {
  return static_cast<unsigned>(std::min<std::uint64_t>(value, limit));
}

class Block {
 public:
  Block(const Problem& problem, Scratchpad& scratchpad, Extent rows, Extent sticks)
      : p_(problem), s_(scratchpad), rows_(rows), sticks_(sticks) {}

  void run() {
    clear();
    if (!p_.first()) for_each_stick([this](unsigned row, unsigned stick) { resume(row, stick); });
    for (std::uint64_t first_k = 0; first_k < p_.k; first_k += kChunk) add_chunk(first_k);
    if (p_.last()) {
      for_each_stick([this](unsigned row, unsigned stick) { store(row, stick); });
    } else {
      for_each_stick([this](unsigned row, unsigned stick) { keep(row, stick); });
    }
  }

 private:
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
    std::fill_n(s_.row_nan, kBlockRows, std::uint8_t{0});
    for (unsigned i = 0; i < sticks_.count; ++i) {
      std::fill_n(s_.column_nan[i], kLanes, std::uint16_t{0});
      s_.mask_n[i].set(p_.n - (sticks_.first + i) * kLanes);
    }
  }

  void add_chunk(std::uint64_t first_k) {
    const unsigned depth = at_most(p_.k - first_k, kChunk);
    s_.mask_k.set(depth);
    for (unsigned row = 0; row < rows_.count; row += kGroupRows) {
      s_.group[row / kGroupRows].load(p_.a, rows_.first + row, at_most(rows_.count - row, kGroupRows), first_k / kChunk,
                                      s_.mask_k, s_.row_nan + row);
    }
    for (unsigned i = 0; i < sticks_.count; ++i) {
      s_.panel.load(p_.b, first_k, depth, sticks_.first + i, s_.mask_n[i], s_.column_nan[i]);
      for (unsigned half = 0; half < kHalves; ++half) {
        for (unsigned row = 0; row < rows_.count; row += kGroupRows) multiply(row, i, half, first_k, depth);
      }
    }
  }

  void multiply(unsigned first_row, unsigned stick, unsigned half, std::uint64_t first_k, unsigned depth) {
    const unsigned rows = at_most(rows_.count - first_row, kGroupRows);
    const RowGroup& a = s_.group[first_row / kGroupRows];
    const ColumnPanel& b = s_.panel;
    float(*sums)[kBlockColumns] = s_.sums[stick][half] + first_row;
    const unsigned spread = a.largest_spread + b.largest_spread[half];
    if (spread <= kNarrowSpread) {
      matmul_block_narrow(a.value, b.narrow[half], sums, a.exponent, b.exponent[half], a.term, b.narrow_term[half]);
      return;
    }
    const bool exact = spread <= kWideSpread && a.largest_spread <= kRowSpread;
    if (!exact) std::copy_n(&sums[0][0], kGroupRows * kBlockColumns, &s_.before[0][0]);
    for (unsigned row = 0; row < rows; row += kWideRows) {
      matmul_block_wide(a.value + row, b.wide[half], sums + row, a.exponent + row, b.exponent[half], a.term + row,
                        b.wide_term[half]);
    }
    if (!exact) repair(first_row, rows, stick, half, first_k, depth);
  }

  // Gives the elements that 64 bits can not hold their exact chunk sum.
  void repair(unsigned first_row, unsigned rows, unsigned stick, unsigned half, std::uint64_t first_k, unsigned depth) {
    const std::uint16_t* spread = s_.panel.spread + half * kBlockColumns;
    float(*sums)[kBlockColumns] = s_.sums[stick][half] + first_row;
    for (unsigned row = 0; row < rows; ++row) {
      const std::uint32_t row_spread = s_.group[first_row / kGroupRows].spread[row];
      for (unsigned column = 0; column < kBlockColumns; ++column) {
        if (row_spread <= kRowSpread && row_spread + spread[column] <= kWideSpread) continue;
        const std::uint16_t* x = p_.a.stick(rows_.first + first_row + row, first_k / kChunk);
        const std::uint16_t* y = p_.b.stick(first_k, sticks_.first + stick) + half * kBlockColumns + column;
        sums[row][column] = s_.before[row][column] + exact_dot(x, y, depth);
      }
    }
  }

  // Along a row of A (one stick) and down a column of B (stick after stick). Elements of NaN rows and columns are
  // replaced at the end; here they count as zero.
  static float exact_dot(const std::uint16_t* x, const std::uint16_t* y, unsigned depth) {
    ExactSum sum;
    for (unsigned k = 0; k < depth; ++k) {
      if (!wire::dl16_is_nan(x[k]) && !wire::dl16_is_nan(y[k * kLanes])) sum.add_product(x[k], y[k * kLanes]);
    }
    return sum.to_fp32();
  }

  // fp32 to DL16 (wire::dl16_from_fp32_bits for 32 lanes): add half a unit, drop 14 bits, rebias, clamp to the code
  // range.
  static vint32m1_t rounded(const float* from) {
    constexpr std::size_t vl = kVector32;
    const vint32m1_t bits = load_words(from);
    vint32m1_t code = __riscv_vadd_vx_i32m1(__riscv_vand_vx_i32m1(bits, 0x7FFFFFFF, vl), 0x2000, vl);
    code = __riscv_vsub_vx_i32m1(__riscv_vsra_vx_i32m1(code, 14, vl), 96 << 9, vl);
    code = __riscv_vmax_vv_i32m1(code, __riscv_vmv_v_x_i32m1(0, vl), vl);
    code = __riscv_vmin_vv_i32m1(code, __riscv_vmv_v_x_i32m1(wire::kDl16Nan, vl), vl);
    const vint32m1_t sign = __riscv_vand_vx_i32m1(__riscv_vsra_vx_i32m1(bits, 16, vl), wire::kDl16SignBit, vl);
    return __riscv_vor_vv_i32m1(code, sign, vl);
  }

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
    const vint16m1_t lanes = __riscv_vreinterpret_v_u16m1_i16m1(nan_lanes(row, stick));
    const vint32m2_t nan = __riscv_vsext_vf2_i32m2(lanes, kVector16);
    for (unsigned half = 0; half < kHalves; ++half) {
      const vint32m1_t mine = half == 0 ? __riscv_vget_v_i32m2_i32m1(nan, 0) : __riscv_vget_v_i32m2_i32m1(nan, 1);
      const vint32m1_t numbers =
          __riscv_vand_vv_i32m1(load_words(s_.sums[stick][half][row]), __riscv_vxor_vx_i32m1(mine, -1, vl), vl);
      store_register(p_.kept(rows_.first + row, sticks_.first + stick, half),
                     __riscv_vor_vv_i32m1(numbers, __riscv_vand_vx_i32m1(mine, kNan, vl), vl));
    }
  }

  void store(unsigned row, unsigned stick) {
    const auto& sums = s_.sums[stick];
    const vint32m2_t both = __riscv_vcreate_v_i32m1_i32m2(rounded(sums[0][row]), rounded(sums[1][row]));
    constexpr std::size_t vl = kVector16;
    vuint16m1_t codes = __riscv_vreinterpret_v_i16m1_u16m1(__riscv_vnsra_wx_i16m1(both, 0, vl));
    const vuint16m1_t nan = nan_lanes(row, stick);
    codes = __riscv_vand_vv_u16m1(codes, __riscv_vxor_vx_u16m1(nan, 0xFFFF, vl), vl);
    codes = __riscv_vor_vv_u16m1(codes, __riscv_vand_vx_u16m1(nan, wire::kDl16Nan, vl), vl);
    codes = __riscv_vand_vv_u16m1(codes, load_stick(s_.mask_n[stick].lane), vl);
    store_register(p_.c.stick(rows_.first + row, sticks_.first + stick), codes);
  }

  const Problem& p_;
  Scratchpad& s_;
  Extent rows_;
  Extent sticks_;
};

// Block sizes: as large as the scratchpad allows (operands are prepared once per block), smaller when there would be
// fewer than two blocks for each core.
struct Grid {
  Grid(const Problem& problem, std::uint64_t cores) {
    while (blocks(problem) < 2 * cores) {
      if (sticks > 2) {
        sticks /= 2;
      } else if (rows > 64) {
        rows /= 2;
      } else if (sticks > 1) {
        sticks = 1;
      } else if (rows > kGroupRows) {
        rows /= 2;
      } else {
        break;
      }
    }
  }
  std::uint64_t row_blocks(const Problem& problem) const { return (problem.m + rows - 1) / rows; }
  std::uint64_t blocks(const Problem& problem) const {
    return row_blocks(problem) * ((problem.columns() + sticks - 1) / sticks);
  }
  unsigned rows = kBlockRows;
  unsigned sticks = kBlockSticks;
};

}  // namespace
}  // namespace kernel::matmul

SPYRE_KERNEL({
    .name = "matmul",
    .scratchpad_bytes = sizeof(kernel::matmul::Scratchpad),
    .operands = {{.name = "A", .access = kernel::Access::Read, .shape = {"M", "K"}},
                 {.name = "B", .access = kernel::Access::Read, .shape = {"K", "N"}},
                 {.name = "C", .access = kernel::Access::Write, .shape = {"M", "N"}}},
    .symbols = {kernel::address_of(0), kernel::stride_of(0, "K"), kernel::address_of(1), kernel::stride_of(1, "N"),
                kernel::address_of(2), kernel::stride_of(2, "N"), kernel::extent_of(0, "M"), kernel::extent_of(1, "N"),
                kernel::extent_of(0, "K"), kernel::partials_of(2), kernel::pass_of(2)},
});

std::uint64_t kernel::compute(const wire::KernelArguments& arguments) {
  using namespace kernel::matmul;
  if (arguments.scratchpad_bytes < sizeof(Scratchpad)) return kScratchpadTooSmall;
  enable_host_float();
  auto& scratchpad = *reinterpret_cast<Scratchpad*>(arguments.scratchpad_address);
  const Problem problem{{symbol(kAddressA), symbol(kStrideA)},
                        {symbol(kAddressB), symbol(kStrideB)},
                        {symbol(kAddressC), symbol(kStrideC)},
                        symbol(kM),
                        symbol(kN),
                        symbol(kK),
                        symbol(kPartials),
                        symbol(kPass)};
  const Grid grid(problem, arguments.core_count);
  const Share share(arguments);
  for (std::uint64_t i = share.first; i < grid.blocks(problem); i += share.step) {
    const std::uint64_t row = i % grid.row_blocks(problem) * grid.rows;
    const std::uint64_t stick = i / grid.row_blocks(problem) * grid.sticks;
    Block(problem, scratchpad, {row, at_most(problem.m - row, grid.rows)},
          {stick, at_most(problem.columns() - stick, grid.sticks)})
        .run();
  }
  return kOk;
}
