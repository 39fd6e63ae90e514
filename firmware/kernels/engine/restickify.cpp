// SPDX-License-Identifier: Apache-2.0
// Restickify: the same elements with their sticks along another dimension, or from or to one element in each stick.
// Blocks of as many sticks as a stick has lanes are transposed in tiles of 8 by 8 bytes, with scalar moves of 8 bytes:
// quicker than vector instructions, which can only exchange parts within such words (docs/notes/2026-11-24-engine.md).
#include <algorithm>

#include "firmware/kernels/array_request.hpp"
#include "firmware/kernels/engine/elements.hpp"
#include "firmware/kernels/engine/families.hpp"

namespace kernel::engine {
namespace {

using Word = std::uint64_t;
constexpr unsigned kWords = wire::kStickBytes / sizeof(Word);  // of a row of a block; so many tiles below it, too

struct Block {
  std::uint64_t from;
  std::uint64_t from_step;  // from one row of the block to the next
  std::uint32_t rows;       // the others are zero
  std::uint64_t to;
  std::uint64_t to_step;
  std::uint32_t columns;  // that become rows of the output
};

// The high parts of `a`, of kBits each, and the low ones of `b` change places.
template <unsigned kBits>
void exchange(Word& a, Word& b) {
  constexpr Word kLow = kBits == 32 ? 0xFFFFFFFF : kBits == 16 ? 0x0000FFFF0000FFFF : 0x00FF00FF00FF00FF;
  const Word change = ((a >> kBits) ^ b) & kLow;
  b ^= change;
  a ^= change << kBits;
}

// Element j of word i and element i of word j change places, in steps of a binary exchange.
template <unsigned kItem, unsigned kDistance = 4 / kItem>
void transpose_tile(Word (&word)[8 / kItem]) {
#pragma clang loop unroll(full)
  for (unsigned i = 0; i < 8 / kItem; ++i) {
    if ((i & kDistance) == 0) exchange<kDistance * kItem * 8>(word[i], word[i + kDistance]);
  }
  if constexpr (kDistance > 1) transpose_tile<kItem, kDistance / 2>(word);
}

// In place of rows that the input has not.
constexpr Word kZeros[kWords]{};

template <unsigned kItem, bool kWhole>
void transpose(const Block& block) {
  constexpr unsigned kRows = 8 / kItem;  // of a tile
  for (unsigned p = 0; p < kWords && p * kRows < block.rows; ++p) {
    const Word* row[kRows];
    for (unsigned i = 0; i < kRows; ++i) {
      const unsigned number = p * kRows + i;
      const bool has_row = kWhole || number < block.rows;
      row[i] = has_row ? reinterpret_cast<const Word*>(block.from + number * block.from_step) : kZeros;
    }
    std::uint64_t to = block.to + p * sizeof(Word);
    for (unsigned q = 0; q < kWords && (kWhole || q * kRows < block.columns); ++q) {
      Word word[kRows];
#pragma clang loop unroll(full)
      for (unsigned i = 0; i < kRows; ++i) word[i] = row[i][q];
      transpose_tile<kItem>(word);
#pragma clang loop unroll(full)
      for (unsigned i = 0; i < kRows; ++i) {
        if (kWhole || q * kRows + i < block.columns) *reinterpret_cast<Word*>(to) = word[i];
        to += block.to_step;
      }
    }
  }
}

// Tiles below all rows are not transposed.
template <unsigned kItem>
void clear_the_rest(const Block& block) {
  constexpr unsigned kRows = 8 / kItem;
  const unsigned first = (block.rows + kRows - 1) / kRows;
  for (unsigned column = 0; column < block.columns; ++column) {
    auto* const to = reinterpret_cast<Word*>(block.to + column * block.to_step);
    std::fill(to + first, to + kWords, Word{0});
  }
}

template <unsigned kItem>
void transpose(const Block& block) {
  constexpr unsigned kLanes = wire::kStickBytes / kItem;
  if (block.rows == kLanes && block.columns == kLanes) return transpose<kItem, true>(block);
  transpose<kItem, false>(block);
  clear_the_rest<kItem>(block);
}

// Items of a run. Fewer are not worth a request.
constexpr std::uint64_t kFewestForArray = 256;

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

  // How many blocks of the run, from the first one on, the compute array has made.
  std::uint64_t given_to_array(const Run& run, std::uint32_t rows, std::uint32_t columns) {
    if (work_.array == nullptr || array_refused_ || run.count * rows * columns < kFewestForArray) return 0;
    return give_to_array(run, rows, columns);
  }
  [[gnu::noinline]] std::uint64_t give_to_array(const Run& run, std::uint32_t rows, std::uint32_t columns) {
    auto& request = reinterpret_cast<wire::array::BlocksRequest&>(*work_.array);
    request.kind = wire::array::Kind::Blocks;
    request.item = item_;
    request.rows = rows;
    request.columns = columns;
    request.input_step = run.step[0];
    request.output_step = run.step[1];
    std::uint64_t done = 0;
    while (done < run.count) {
      request.count = std::min(run.count - done, wire::array::most_blocks(item_));
      request.input = {run.address[0] + done * run.step[0], from_.stride[to_.stick_dim]};
      request.output = {run.address[1] + done * run.step[1], to_.stride[from_.stick_dim]};
      array_refused_ = !is_done_by_array(*work_.array);
      if (array_refused_) break;
      done += request.count;
    }
    return done;
  }

  void blocks(const Run& run, std::uint32_t rows, std::uint32_t columns) {
    for (std::uint64_t n = given_to_array(run, rows, columns); n < run.count; ++n) {
      const Block block{.from = run.address[0] + n * run.step[0],
                        .from_step = from_.stride[to_.stick_dim],
                        .rows = rows,
                        .to = run.address[1] + n * run.step[1],
                        .to_step = to_.stride[from_.stick_dim],
                        .columns = columns};
      switch (item_) {
        case 1: transpose<1>(block); break;
        case 2: transpose<2>(block); break;
        default: transpose<4>(block); break;
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
  bool array_refused_ = false;
};

}  // namespace

Refusal restickify(const Work& work) {
  Relayout(work).run();
  return {};
}

}  // namespace kernel::engine
