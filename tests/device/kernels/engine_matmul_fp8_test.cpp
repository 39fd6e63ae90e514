// SPDX-License-Identifier: Apache-2.0
// MatMulFp8 of the engine against the golden model, bit for bit: shapes, layouts, batches, splits, numbers of cores,
// and behind the operations that make its operands.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/device/kernels/engine_products.hpp"

namespace kernel_test {
namespace {

using program::Access;
using program::Base;
using program::Format;
using program::Opcode;

struct Layouts : ProductLayouts {
  Layouts()
      : ProductLayouts{{.format = Format::Fp8E4m3, .stick_dim = kK, .order = {kM, kK}},
                       {.format = Format::Fp8E4m3, .stick_dim = kN, .order = {kK, kN}, .alternates = kK},
                       {.stick_dim = kN, .order = {kM, kN}}} {}
};

class EngineMatmulFp8 : public EngineProductTest {
 protected:
  EngineMatmulFp8() : EngineProductTest(Opcode::MatMulFp8) {}

  Program product(std::initializer_list<std::uint32_t> extents, const Layouts& layouts) {
    return EngineProductTest::product(extents, layouts);
  }
  void expect_product(std::initializer_list<std::uint32_t> extents, const Layouts& layouts, unsigned cores = 1,
                      int low = 0, int high = 15) {
    EngineProductTest::expect_product(extents, layouts, cores, low, high);
  }

  // Where k of a row lies in its sticks, and k of a column in its weight.
  static std::size_t lane_of_left(unsigned k) { return k % 64 / 8 * 16 + k % 128 / 64 * 8 + k % 8; }
  static std::size_t lane_of_right(unsigned k, unsigned n) { return k % 2 + 2 * (n % 64); }
};

TEST_F(EngineMatmulFp8, AnyShapeEqualsGolden) {
  for (const auto& [m, n, k] : {std::array{1u, 64u, 128u},
                                {5u, 70u, 130u},
                                {17u, 128u, 64u},
                                {64u, 200u, 300u},
                                {3u, 1u, 1u},
                                {1u, 1u, 65u},
                                {9u, 63u, 127u},
                                {33u, 65u, 129u},
                                {600u, 65u, 3u}}) {
    SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
    expect_product({m, n, k}, {});
  }
}

// From sums that fit 32 bits to those of all numbers; subnormals alone.
TEST_F(EngineMatmulFp8, EveryExponentSpreadEqualsGolden) {
  for (const int spread : {0, 4, 8, 9, 10, 12, 15}) {
    SCOPED_TRACE(spread);
    for (const int low : {0, 15 - spread}) {
      for (const std::uint32_t rows : {1u, 4u, 7u, 20u}) expect_product({rows, 64, 200}, {}, 1, low, low + spread);
    }
  }
}

TEST_F(EngineMatmulFp8, TheLargestSumsEqualGolden) {
  const Program made = product({20, 64, 256}, {});
  std::vector<Bytes> arguments = random_arguments(made);
  for (const std::byte code : {std::byte{0x7E}, std::byte{0xFE}}) {
    std::ranges::fill(arguments[0], code);
    std::ranges::fill(arguments[1], std::byte{0x7E});
    expect_golden(made, arguments);
  }
}

TEST_F(EngineMatmulFp8, AnyBitPatternsEqualGolden) {
  for (const std::uint32_t rows : {1u, 6u, 18u}) {
    SCOPED_TRACE(rows);
    const Program made = product({rows, 70, 131}, {});
    expect_golden(made, random_arguments(made));
  }
}

TEST_F(EngineMatmulFp8, NanPoisonsItsRowAndColumnOnly) {
  for (const std::uint32_t rows : {6u, 18u}) {
    const Program made = product({rows, 70, 131}, {});
    std::vector<Bytes> arguments = filled_arguments(made, 2, 12);
    const auto put = [&](unsigned o, std::uint64_t at, std::byte code) {
      arguments[o][made.operations[0].operand[o].offset + at] = code;
    };
    put(0, 5 * 128 + lane_of_left(77), std::byte{0x7F});
    put(1, 130 / 2 * 128 + lane_of_right(130, 3), std::byte{0xFF});
    expect_golden(made, arguments);
  }
}

// What lies beyond the extents, in the same sticks, is NaN.
TEST_F(EngineMatmulFp8, PadLanesTakeNoPart) {
  for (const std::uint32_t k : {1u, 63u, 65u, 131u}) {
    for (const std::uint32_t rows : {3u, 17u}) {
      SCOPED_TRACE(k);
      const Program made = product({rows, 67, k}, {});
      std::vector<Bytes> arguments = filled_arguments(made, 2, 12);
      const std::uint32_t padded = wire::align_up(k, 128u);
      for (std::uint32_t at = k; at < padded; ++at) {
        for (std::uint32_t row = 0; row < rows; ++row) {
          const std::uint64_t stick = made.operations[0].operand[0].offset + (at / 128 * rows + row) * 128;
          arguments[0][stick + lane_of_left(at)] = std::byte{0x7F};
        }
      }
      const std::uint64_t sticks = (k + 1) / 2;
      for (std::uint32_t row = 0; row < 2 * sticks; ++row) {
        for (std::uint32_t column = 0; column < 128; ++column) {
          if (row < k && column < 67) continue;
          const std::uint64_t stick = made.operations[0].operand[1].offset + (column / 64 * sticks + row / 2) * 128;
          arguments[1][stick + lane_of_right(row, column)] = std::byte{0x7F};
        }
      }
      expect_golden(made, arguments);
    }
  }
}

TEST_F(EngineMatmulFp8, RowsOfAnyStrideAndGapsEqualGolden) {
  Layouts layouts;
  layouts.left.order = {kK, kM};  // rows outermost
  layouts.left.gap = 1;
  layouts.right.order = {kN, kK};
  layouts.right.gap = 2;
  layouts.out.order = {kN, kM};
  layouts.out.gap = 3;
  expect_product({33, 130, 200}, layouts);
}

TEST_F(EngineMatmulFp8, BatchesOfEitherOperandEqualGolden) {
  Layouts of_both;
  of_both.left.order = {kM, kBatch, kK, kOuter};
  of_both.right.order = {kK, kBatch, kOuter, kN};
  of_both.out.order = {kM, kOuter, kN, kBatch};
  expect_product({19, 80, 71, 3, 2}, of_both);
  Layouts of_left = of_both;
  of_left.right.order = {kK, kN};
  expect_product({19, 80, 71, 3, 2}, of_left);
  Layouts of_right = of_both;
  of_right.left.order = {kM, kK, kOuter};
  of_right.right.order = {kK, kN, kBatch};
  expect_product({19, 80, 71, 3, 2}, of_right);
}

TEST_F(EngineMatmulFp8, ResultDoesNotDependOnTheNumberOfCores) {
  Layouts layouts;
  layouts.left.order = {kM, kK, kBatch};
  layouts.out.order = {kM, kN, kBatch};
  for (const unsigned cores : {2u, 3u, 7u, 32u}) {
    SCOPED_TRACE(cores);
    expect_product({130, 200, 129, 2}, layouts, cores);
  }
}

// DL16 arguments become FP8 in scratchpads of several slices, the product is copied out of them.
TEST_F(EngineMatmulFp8, OperandsThatAreMadeInScratchpadsEqualGolden) {
  Layouts layouts;
  const auto split = [](Layout& layout, unsigned d, std::uint8_t parts, std::uint8_t stride) {
    layout.split[d] = parts;
    layout.split_stride[d] = stride;
  };
  split(layouts.left, kM, 4, 1);
  split(layouts.left, kK, 2, 4);
  split(layouts.right, kK, 4, 2);
  split(layouts.right, kN, 2, 1);
  split(layouts.out, kM, 2, 2);
  split(layouts.out, kN, 2, 4);
  Program made;
  made.header.slices = 8;
  made.header.scratchpad_bytes = 48 * 1024;
  program::Operation product = operation_of(Opcode::MatMulFp8, {24, 128, 256});
  const auto add_in_scratchpad = [](program::Operation& operation, const Layout& layout, unsigned number) {
    add_operand(operation, layout);
    program::Operand& operand = operation.operand[operation.operand_count - 1];
    operand.base = Base::Scratchpad;
    operand.offset = number * 16384;
  };
  const auto add_conversion = [&](Opcode opcode, const Layout& layout, unsigned number) {
    program::Operation conversion = operation_of(opcode, {24, 128, 256});
    if (opcode == Opcode::Dl16ToFp8Weight) conversion.reduced = 1u << kK;
    add_argument(made, conversion, {.stick_dim = layout.stick_dim, .order = layout.order}, Access::Read, random_);
    add_in_scratchpad(conversion, layout, number);
    made.operations.push_back(conversion);
    add_in_scratchpad(product, layout, number);
  };
  add_conversion(Opcode::Dl16ToFp8, layouts.left, 0);
  add_conversion(Opcode::Dl16ToFp8Weight, layouts.right, 1);
  product.reduced = 1u << kK;
  add_in_scratchpad(product, layouts.out, 2);
  made.operations.push_back(product);
  program::Operation copy = operation_of(Opcode::Copy, {24, 128});
  add_in_scratchpad(copy, layouts.out, 2);
  add_argument(made, copy, {.stick_dim = kN, .order = {kM, kN}}, Access::Write, random_);
  made.operations.push_back(copy);
  expect_golden(made, filled_arguments(made, 24, 36));
}

TEST_F(EngineMatmulFp8, RandomProgramsEqualGolden) { expect_random({Opcode::MatMulFp8}, 60); }

}  // namespace
}  // namespace kernel_test
