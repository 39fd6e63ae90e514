// SPDX-License-Identifier: Apache-2.0
// MatMulFp8 of the golden model: which lanes are which elements, how sums are rounded, and that it is the product of
// the numbers as DL16.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "host_driver/program/golden/numbers.hpp"
#include "shared/dl16.hpp"
#include "tests/unit/host_driver/program/one_operation.hpp"

namespace {

using namespace wire::program;
using svp::program::golden::bits_of;
using svp::program::golden::value_of;
using svp::test::OneOperation;

constexpr std::uint8_t kNan = 0x7F;
constexpr std::uint8_t kOne = 0x38;

std::uint8_t fp8(double value) { return static_cast<std::uint8_t>(bits_of(Format::Fp8E4m3, value)); }
std::uint16_t dl16(double value) { return wire::dl16_from_fp64(value); }

// out[m, n] = Σ left[m, k] · right[k, n]; dimensions m, n, k. Every lane is NaN until it is set.
struct Product {
  OneOperation op;
  std::uint32_t m, n, k;

  Product(std::uint32_t rows, std::uint32_t columns, std::uint32_t inner)
      : op(Opcode::MatMulFp8, {rows, columns, inner}), m(rows), n(columns), k(inner) {
    op.operation.reduced = 4;
    op.input(Format::Fp8E4m3, std::array{0u, 2u}, 2);
    op.input(Format::Fp8E4m3, std::array{2u, 1u}, 1);
    op.operation.operand[1].stride[1] = pairs() * 128;
    op.resize_argument(1, pairs() * 128 * ((n + 63) / 64));
    op.output(Format::Dl16, std::array{0u, 1u}, 1);
    for (std::uint32_t i = 0; i < (k + 127) / 128 * m * 128; ++i) op.at<std::uint8_t>(0, i) = kNan;
    for (std::uint32_t i = 0; i < pairs() * 128 * ((n + 63) / 64); ++i) op.at<std::uint8_t>(1, i) = kNan;
  }
  std::uint32_t pairs() const { return (k + 1) / 2; }

  std::uint8_t& left(std::uint32_t row, std::uint32_t at) {
    const std::uint32_t stick = at % 128 / 64, lane = at % 64;  // of DL16
    return op.at<std::uint8_t>(0, (at / 128 * m + row) * 128 + 16 * (lane / 8) + 8 * stick + lane % 8);
  }
  std::uint8_t& right(std::uint32_t at, std::uint32_t column) {
    return op.at<std::uint8_t>(1, (column / 64 * pairs() + at / 2) * 128 + at % 2 + 2 * (column % 64));
  }
  std::uint16_t out(std::uint32_t row, std::uint32_t column) {
    return op.at<std::uint16_t>(2, (column / 64 * m + row) * 128 + 2 * (column % 64));
  }
  void fill(std::uint8_t of_left, std::uint8_t of_right) {
    for (std::uint32_t at = 0; at < k; ++at) {
      for (std::uint32_t row = 0; row < m; ++row) left(row, at) = of_left;
      for (std::uint32_t column = 0; column < n; ++column) right(at, column) = of_right;
    }
  }
};

// The first and the last lane of each group of eight, and the first two k of the second stick.
TEST(GoldenMatMulFp8, LaneOfAStickTellsK) {
  constexpr std::array<std::array<std::uint32_t, 2>, 9> kPlaces{
      {{0, 0}, {7, 7}, {8, 16}, {15, 23}, {63, 119}, {64, 8}, {71, 15}, {72, 24}, {127, 127}}};
  for (const auto& [k, lane] : kPlaces) {
    Product product(1, 2, 130);
    product.fill(0, kOne);
    product.right(k, 1) = fp8(3);
    product.op.at<std::uint8_t>(0, lane) = kOne;
    product.op.run();
    EXPECT_EQ(product.out(0, 0), dl16(1)) << k;
    EXPECT_EQ(product.out(0, 1), dl16(3)) << k;
  }
}

TEST(GoldenMatMulFp8, RowAndColumnTellThePlaceInAWeight) {
  Product product(1, 70, 5);
  product.fill(kOne, 0);
  product.op.at<std::uint8_t>(1, 128 + 1 + 2 * 9) = fp8(2);        // k = 3, n = 9
  product.op.at<std::uint8_t>(1, (3 + 2) * 128 + 2 * 5) = fp8(4);  // k = 4, n = 69
  product.op.run();
  for (std::uint32_t column = 0; column < 128; ++column) {
    EXPECT_EQ(product.out(0, column), column == 9 ? dl16(2) : column == 69 ? dl16(4) : 0) << column;
  }
}

// As integers in units of 2^-18, written down here once more.
TEST(GoldenMatMulFp8, ChunksOf64AreExactAndAddedInFp32) {
  std::mt19937 random(3);
  Product product(4, 66, 197);
  for (std::uint32_t at = 0; at < 197; ++at) {
    const auto any = [&] {
      const auto code = static_cast<std::uint8_t>(random());
      return (code & 0x7F) == kNan ? std::uint8_t{0} : code;
    };
    for (std::uint32_t row = 0; row < 4; ++row) product.left(row, at) = any();
    for (std::uint32_t column = 0; column < 66; ++column) product.right(at, column) = any();
  }
  product.op.run();
  const auto units = [](std::uint8_t code) {
    return static_cast<std::int64_t>(std::ldexp(value_of(Format::Fp8E4m3, code), 9));
  };
  for (std::uint32_t row = 0; row < 4; ++row) {
    for (std::uint32_t column = 0; column < 66; ++column) {
      float sum = 0;
      for (std::uint32_t first = 0; first < 197; first += 64) {
        std::int64_t exact = 0;
        for (std::uint32_t at = first; at < std::min(first + 64, 197U); ++at) {
          exact += units(product.left(row, at)) * units(product.right(at, column));
        }
        sum += std::ldexp(static_cast<float>(exact), -18);
      }
      ASSERT_EQ(product.out(row, column), wire::dl16_from_fp32(sum)) << row << " " << column;
    }
  }
}

// 448 · 448 − 448 · 448 + 2^-9 · 2^-9: exact in one chunk; in two the small product is lost in the first sum.
TEST(GoldenMatMulFp8, RoundsOnceForEachChunk) {
  for (const std::uint32_t second : {63u, 64u}) {
    Product product(1, 1, 65);
    product.fill(0, fp8(448));
    product.left(0, 0) = fp8(448);
    product.left(0, second) = fp8(-448);
    product.left(0, 1) = product.right(1, 0) = 0x01;
    product.op.run();
    EXPECT_EQ(product.out(0, 0), second == 63 ? dl16(0x1p-18) : 0);
  }
}

TEST(GoldenMatMulFp8, NanSpoilsItsRowOrColumnAndZeroIsPositive) {
  Product product(3, 3, 70);
  product.fill(fp8(-0.0), kOne);
  product.left(1, 69) = 0xFF;
  product.right(64, 2) = kNan;
  product.op.run();
  for (std::uint32_t row = 0; row < 3; ++row) {
    for (std::uint32_t column = 0; column < 3; ++column) {
      EXPECT_EQ(product.out(row, column), row == 1 || column == 2 ? 0x7FFE : 0) << row << " " << column;
    }
  }
}

// Numbers of any size, behind the operations that make FP8 of them: the same bits as MatMul of the numbers as DL16.
TEST(GoldenMatMulFp8, IsMatMulOfTheSameNumbersAsDl16) {
  using svp::test::dense_operand;
  constexpr std::array<std::uint32_t, 3> kExtent{5, 70, 131};
  std::mt19937_64 random(4);
  svp::test::ProgramBuilder builder;
  builder.pool_bytes = 1 << 17;
  const auto operation = [&](Opcode opcode, std::initializer_list<Operand> operands, std::uint8_t reduced = 0) {
    Operation made = svp::test::operation_of(opcode, kExtent);
    made.reduced = reduced;
    for (const Operand& operand : operands) made.operand[made.operand_count++] = operand;
    builder.add(made);
  };
  const auto argument = [](Operand operand, std::uint8_t number) {
    operand.argument = number;
    return operand;
  };
  const auto in_pool = [](Operand operand, std::uint64_t offset) {
    operand.base = Base::Pool;
    operand.offset = offset;
    return operand;
  };
  const Operand left = dense_operand(Format::Dl16, kExtent, std::array{0u, 2u}, 2);
  const Operand right = dense_operand(Format::Dl16, kExtent, std::array{2u, 1u}, 1);
  const Operand out = dense_operand(Format::Dl16, kExtent, std::array{0u, 1u}, 1);
  const Operand left8 = in_pool(dense_operand(Format::Fp8E4m3, kExtent, std::array{0u, 2u}, 2), 0);
  const Operand right8 = in_pool(dense_operand(Format::Fp8E4m3, kExtent, std::array{2u, 1u}, 1), 0x4000);
  Operand weight = right8;
  weight.stride[1] = (kExtent[2] + 1) / 2 * 128;
  operation(Opcode::Dl16ToFp8, {argument(left, 0), left8});
  operation(Opcode::Dl16ToFp8Weight, {argument(right, 1), weight}, 4);
  operation(Opcode::MatMulFp8, {left8, weight, argument(out, 2)}, 4);
  operation(Opcode::Copy, {argument(left, 0), left8});
  operation(Opcode::Copy, {argument(right, 1), right8});
  operation(Opcode::Copy, {left8, in_pool(left, 0x14000)});
  operation(Opcode::Copy, {right8, in_pool(right, 0x9000)});
  operation(Opcode::MatMul, {in_pool(left, 0x14000), in_pool(right, 0x9000), argument(out, 3)}, 4);
  std::vector<std::vector<std::byte>> arguments;
  for (const Operand* operand : {&left, &right, &out, &out}) {
    arguments.emplace_back(svp::test::bytes_of(*operand, kExtent), std::byte{0xC3});
    builder.add_argument(arguments.back().size(), operand == &out ? Access::Write : Access::Read);
  }
  std::normal_distribution<double> normal(0, 4);
  for (unsigned a = 0; a < 2; ++a) {
    for (std::size_t at = 0; at < arguments[a].size(); at += 2) {
      reinterpret_cast<std::uint16_t&>(arguments[a][at]) =
          dl16(std::exp2(normal(random)) * (random() % 2 == 0 ? 1 : -1));
    }
  }
  const std::vector<std::span<std::byte>> spans(arguments.begin(), arguments.end());
  svp::program::golden::run(builder.build(), spans);
  EXPECT_EQ(arguments[2], arguments[3]);
}

}  // namespace
