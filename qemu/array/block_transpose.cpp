// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Blocks in tiles of up to 8 rows of 16 bytes. Vectors of 16 bytes are enough, and each target of the compiler has
// them.
#include <array>
#include <cstring>
#include <utility>

#include "qemu/array/blocks.hpp"

namespace svp::array {
namespace {

// In place of rows that the input has not.
constexpr std::byte kZeros[wire::kStickBytes]{};

template <typename Item>
class Transposition {
 public:
  static void run(const std::byte* const* row, unsigned rows, std::byte* const* column, unsigned columns) {
    for (unsigned r = 0; r < wire::kStickBytes / sizeof(Item); r += kRows) {
      const std::byte* from[kRows];
      for (unsigned i = 0; i < kRows; ++i) from[i] = r + i < rows ? row[r + i] : kZeros;
      unsigned c = 0;
      for (; c + kLanes <= columns; c += kLanes) tile(from, c, column + c, r, kLanes);
      if (c < columns) tile(from, c, column + c, r, columns - c);
    }
  }

 private:
  using Vector [[gnu::vector_size(16)]] = Item;
  static constexpr unsigned kLanes = 16 / sizeof(Item);
  static constexpr unsigned kRows = kLanes < 8 ? kLanes : 8;
  static constexpr unsigned kPart = kRows * sizeof(Item);  // bytes of a column
  using Tile = std::array<Vector, kRows>;

  // Lanes from c on of the rows into lanes from r on of the columns.
  [[gnu::always_inline]] static void tile(const std::byte* const* from, unsigned c, std::byte* const* column,
                                          unsigned r, unsigned columns) {
    Tile rows;
    for (unsigned i = 0; i < kRows; ++i) std::memcpy(&rows[i], from[i] + c * sizeof(Item), sizeof rows[i]);
    const Tile result = interleaved<kRows>(rows);
    const auto* part = reinterpret_cast<const std::byte*>(result.data());
    for (unsigned i = 0; i < columns; ++i, part += kPart) std::memcpy(column[i] + r * sizeof(Item), part, kPart);
  }

  // The items of row i + kRows / 2 between those of row i, for each i below kRows / 2; and this as often as 2 doubles
  // up to kRows: then the columns lie one behind the other.
  template <unsigned kLeft>
  [[gnu::always_inline]] static Tile interleaved(const Tile& rows) {
    if constexpr (kLeft == 1) {
      return rows;
    } else {
      Tile between;
      for (unsigned i = 0; i < kRows / 2; ++i) {
        between[2 * i] = halves<0>(rows[i], rows[i + kRows / 2], std::make_integer_sequence<int, kLanes>());
        between[2 * i + 1] =
            halves<kLanes / 2>(rows[i], rows[i + kRows / 2], std::make_integer_sequence<int, kLanes>());
      }
      return interleaved<kLeft / 2>(between);
    }
  }
  // Items from kFirst on of both, in turn.
  template <int kFirst, int... kItem>
  [[gnu::always_inline]] static Vector halves(Vector a, Vector b, std::integer_sequence<int, kItem...>) {
    return __builtin_shufflevector(a, b, (kFirst + kItem / 2 + kItem % 2 * static_cast<int>(kLanes))...);
  }
};

}  // namespace

void execute(const BlocksPlan& plan) {
  const wire::array::BlocksRequest& request = plan.request;
  for (std::uint64_t n = 0; n < request.count; ++n) {
    const auto* const row = plan.row.data() + n * request.rows;
    auto* const column = plan.column.data() + n * request.columns;
    switch (request.item) {
      case 1: Transposition<std::uint8_t>::run(row, request.rows, column, request.columns); break;
      case 2: Transposition<std::uint16_t>::run(row, request.rows, column, request.columns); break;
      default: Transposition<std::uint32_t>::run(row, request.rows, column, request.columns); break;
    }
  }
}

}  // namespace svp::array
