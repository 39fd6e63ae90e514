// SPDX-License-Identifier: Apache-2.0
// Restickify: the same elements with their sticks along another dimension, or from or to one element in each stick. Blocks
// of as many sticks as a stick has lanes are transposed: first, in registers, 8 bytes of as many rows as 8 bytes have elements; then words of 8 bytes.
#include <algorithm>
#include <type_traits>

#include "firmware/kernels/engine/elements.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/vector.hpp"

namespace kernel::engine {
namespace {

using V = vuint64m1_t;
constexpr std::size_t vl = kVector64;
constexpr unsigned kWords = wire::kStickBytes / sizeof(std::uint64_t);  // of a row; so many groups of rows, too

V load_row(const void* from) { return __riscv_vreinterpret_v_u16m1_u64m1(load_stick(from)); }

// The high parts of the words of `a` and the low ones of `b` change places.
template <unsigned kBits>
void exchange(V& a, V& b) {
  constexpr std::uint64_t kLow = kBits == 32 ? 0xFFFFFFFF : kBits == 16 ? 0x0000FFFF0000FFFF : 0x00FF00FF00FF00FF;
  const V change = __riscv_vand_vx_u64m1(__riscv_vxor_vv_u64m1(__riscv_vsrl_vx_u64m1(a, kBits, vl), b, vl), kLow, vl);
  b = __riscv_vxor_vv_u64m1(b, change, vl);
  a = __riscv_vxor_vv_u64m1(a, __riscv_vsll_vx_u64m1(change, kBits, vl), vl);
}

struct Block {
  std::uint64_t from;
  std::uint64_t from_step;  // from one row of the block to the next
  std::uint32_t rows;       // the others are zero
  std::uint64_t to;
  std::uint64_t to_step;
  std::uint32_t columns;  // that become rows of the output
};

// Row j of group p is at j * kWords + p: all words of a row of the output are at short distances.
struct Buffer {
  std::uint64_t row[8 * kWords][kWords];
};
static_assert(sizeof(Buffer) <= kWorkingBytes);

V row_of(const Block& block, unsigned number) {
  if (number >= block.rows) return __riscv_vmv_v_x_u64m1(0, vl);
  return load_row(reinterpret_cast<const void*>(block.from + number * block.from_step));
}

// Each of these makes of a group of rows words of one column each: word q of row j is of column q * rows + j.
void load_group(const Block& block, unsigned p, Buffer& buffer, std::integral_constant<unsigned, 4>) {
  V a = row_of(block, 2 * p);
  V b = row_of(block, 2 * p + 1);
  exchange<32>(a, b);
  store_register(buffer.row[p], a);
  store_register(buffer.row[kWords + p], b);
}

void load_group(const Block& block, unsigned p, Buffer& buffer, std::integral_constant<unsigned, 2>) {
  V a = row_of(block, 4 * p);
  V b = row_of(block, 4 * p + 1);
  V c = row_of(block, 4 * p + 2);
  V d = row_of(block, 4 * p + 3);
  exchange<32>(a, c);
  exchange<32>(b, d);
  exchange<16>(a, b);
  exchange<16>(c, d);
  store_register(buffer.row[p], a);
  store_register(buffer.row[kWords + p], b);
  store_register(buffer.row[2 * kWords + p], c);
  store_register(buffer.row[3 * kWords + p], d);
}

void exchange_quads(V& a, V& b, V& c, V& d) {
  exchange<16>(a, c);
  exchange<16>(b, d);
  exchange<8>(a, b);
  exchange<8>(c, d);
}
void load_group(const Block& block, unsigned p, Buffer& buffer, std::integral_constant<unsigned, 1>) {
  V a = row_of(block, 8 * p);
  V b = row_of(block, 8 * p + 1);
  V c = row_of(block, 8 * p + 2);
  V d = row_of(block, 8 * p + 3);
  V e = row_of(block, 8 * p + 4);
  V f = row_of(block, 8 * p + 5);
  V g = row_of(block, 8 * p + 6);
  V h = row_of(block, 8 * p + 7);
  exchange<32>(a, e);
  exchange<32>(b, f);
  exchange<32>(c, g);
  exchange<32>(d, h);
  exchange_quads(a, b, c, d);
  exchange_quads(e, f, g, h);
  store_register(buffer.row[p], a);
  store_register(buffer.row[kWords + p], b);
  store_register(buffer.row[2 * kWords + p], c);
  store_register(buffer.row[3 * kWords + p], d);
  store_register(buffer.row[4 * kWords + p], e);
  store_register(buffer.row[5 * kWords + p], f);
  store_register(buffer.row[6 * kWords + p], g);
  store_register(buffer.row[7 * kWords + p], h);
}

template <unsigned kItem>
void transpose(const Block& block, Buffer& buffer) {
  constexpr unsigned kRows = 8 / kItem;  // of a group
  for (unsigned p = 0; p < kWords; ++p) load_group(block, p, buffer, std::integral_constant<unsigned, kItem>());
  for (unsigned column = 0; column < block.columns; ++column) {
    const std::uint64_t* from = &buffer.row[column % kRows * kWords][column / kRows];
    auto* const to = reinterpret_cast<std::uint64_t*>(block.to + column * block.to_step);
#pragma clang loop unroll(full)
    for (unsigned p = 0; p < kWords; ++p) to[p] = from[p * kWords];
  }
}

class Relayout {
 public:
  explicit Relayout(const Work& work)
      : work_(work),
        from_(work.operation.operand[0]),
        to_(work.output()),
        item_(program::item_bytes(to_.format)),
        lanes_(program::lanes_of(to_.format)) {}

  void run() {
    if (!has_blocks()) {
      for_each_output_stick(work_, [this](const Index& first) { stick(first); });
      return;
    }
    std::uint32_t units[kMaxRank];
    for (unsigned d = 0; d < kMaxRank; ++d) units[d] = d == from_.stick_dim || d == to_.stick_dim ? lanes_ : 1;
    const LoopNest nest(work_, units);
    if (nest.refusal().ok()) {
      by_blocks(nest);
    } else {
      for_each_output_stick(work_, [this](const Index& first) { stick(first); });
    }
  }

 private:
  // Both have sticks, along dimensions that both have.
  bool has_blocks() const {
    if (from_.stick_dim == program::kNoDimension || to_.stick_dim == program::kNoDimension) return false;
    return (from_.present >> to_.stick_dim & 1) != 0 && (to_.present >> from_.stick_dim & 1) != 0;
  }

  // Whole blocks, and those at the ends of both dimensions.
  void by_blocks(const LoopNest& nest) {
    const Box share = nest.share();
    for (const bool last_rows : {false, true}) {
      for (const bool last_columns : {false, true}) {
        std::uint32_t rows = lanes_;
        std::uint32_t columns = lanes_;
        Box box = end_of(share, to_.stick_dim, last_rows, rows);
        box = end_of(box, from_.stick_dim, last_columns, columns);
        nest.for_each_run(box, [&](const Run& run) { blocks(run, rows, columns); });
      }
    }
  }

  // The part of whole blocks along d, or the last one that is not whole.
  Box end_of(const Box& box, unsigned d, bool last, std::uint32_t& elements) const {
    const std::uint32_t extent = work_.operation.extent[d];
    const std::uint32_t whole = extent / lanes_;
    if (!last) return part_of(box, d, 0, whole);
    elements = extent % lanes_;
    return part_of(box, d, whole, whole + 1);
  }

  void blocks(const Run& run, std::uint32_t rows, std::uint32_t columns) {
    auto& buffer = reinterpret_cast<Buffer&>(work_.working);
    for (std::uint64_t n = 0; n < run.count; ++n) {
      const Block block{.from = run.address[0] + n * run.step[0],
                        .from_step = from_.stride[to_.stick_dim],
                        .rows = rows,
                        .to = run.address[1] + n * run.step[1],
                        .to_step = to_.stride[from_.stick_dim],
                        .columns = columns};
      switch (item_) {
        case 1: transpose<1>(block, buffer); break;
        case 2: transpose<2>(block, buffer); break;
        default: transpose<4>(block, buffer); break;
      }
    }
  }

  // Where there are no blocks, or where they are cut by the borders of scratchpads.
  void stick(const Index& first) {
    const std::uint64_t to = address_of(work_, to_, first);
    Index from = input_index(work_, first);
    if (to_.stick_dim == program::kNoDimension) {
      const std::uint32_t bits = load_element(address_of(work_, from_, from), item_);
      for (std::uint32_t lane = 0; lane < lanes_; ++lane) store_element(to + lane * item_, item_, bits);
      return;
    }
    const std::uint32_t left = work_.operation.extent[to_.stick_dim] - from.of[to_.stick_dim];
    const std::uint32_t elements = std::min(left, lanes_);
    const bool linear = from_.split[to_.stick_dim] == 1;
    const std::uint64_t step = from_.stride[to_.stick_dim];
    const std::uint64_t begin = address_of(work_, from_, from);
    for (std::uint32_t lane = 0; lane < lanes_; ++lane, ++from.of[to_.stick_dim]) {
      std::uint32_t bits = 0;
      if (lane < elements) bits = load_element(linear ? begin + lane * step : address_of(work_, from_, from), item_);
      store_element(to + lane * item_, item_, bits);
    }
  }

  const Work& work_;
  const Operand& from_;
  const Operand& to_;
  unsigned item_;
  std::uint32_t lanes_;
};

}  // namespace

Refusal restickify(const Work& work) {
  Relayout(work).run();
  return {};
}

}  // namespace kernel::engine
