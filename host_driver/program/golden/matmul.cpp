// SPDX-License-Identifier: Apache-2.0
// The matrix products of device programs: operands are laid out as plain matrices of DL16 for the golden model of one
// product. Every FP8_E4M3 number is one of DL16.
#include <bit>
#include <vector>

#include "host_driver/program/golden/families.hpp"
#include "host_driver/program/golden/numbers.hpp"
#include "host_driver/tensor/golden/golden.hpp"

namespace svp::program::golden {
namespace {

using namespace wire::program;

std::vector<Index> indices(const Step& step, const View& view, std::uint8_t dimensions) {
  std::vector<Index> all;
  for_each_index(Order::Ascending, counts(step, view, dimensions, false), [&](const Index& n) { all.push_back(n); });
  return all;
}

// One that moves in dimensions of `a` or of `b`, not in both.
Index joined(const Index& a, const Index& b) {
  Index n;
  for (unsigned d = 0; d < kMaxRank; ++d) n[d] = a[d] + b[d];
  return n;
}

std::vector<std::uint16_t> matrix(const View& view, const Index& batch, const std::vector<Index>& rows,
                                  const std::vector<Index>& columns) {
  std::vector<std::uint16_t> elements;
  elements.reserve(rows.size() * columns.size());
  for (const Index& row : rows) {
    for (const Index& column : columns) {
      const std::uint32_t bits = view.bits(joined(batch, joined(row, column)));
      elements.push_back(static_cast<std::uint16_t>(
          view.format() == Format::Dl16 ? bits : bits_of(Format::Dl16, value_of(view.format(), bits))));
    }
  }
  return elements;
}

}  // namespace

void run_matmul(const Step& step) {
  const View left(step, 0);
  const View right(step, 1);
  const View output(step, 2);
  const std::uint8_t of_left = left.operand().present, of_right = right.operand().present;
  const std::uint8_t of_output = output.operand().present;
  const auto rows = indices(step, output, of_output & of_left & ~of_right);
  const auto columns = indices(step, output, of_output & of_right & ~of_left);
  const auto inner = indices(step, output, step.operation.reduced);
  zero_pad_lanes(step, output);
  for (const Index& batch : indices(step, output, of_output & of_left & of_right)) {
    const auto a = matrix(left, batch, rows, inner);
    const auto b = matrix(right, batch, inner, columns);
    std::vector<std::uint16_t> c(rows.size() * columns.size());
    svp::golden::matmul_dl16(a, b, c, rows.size(), columns.size(), inner.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (std::size_t column = 0; column < columns.size(); ++column) {
        output.set(joined(batch, joined(rows[row], columns[column])), c[row * columns.size() + column]);
      }
    }
  }
}

}  // namespace svp::program::golden
