// SPDX-License-Identifier: Apache-2.0
// Matrix products, top k, gather and scatter of the golden model.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "host_driver/tensor/golden/golden.hpp"
#include "shared/dl16.hpp"
#include "tests/unit/host_driver/program/one_operation.hpp"

namespace {

using namespace wire::program;
using svp::program::golden::Refused;
using svp::test::OneOperation;

constexpr std::uint16_t kNan = 0x7FFE;

std::uint16_t dl16(double value) { return wire::dl16_from_fp64(value); }
// Any finite number.
std::uint16_t any_dl16(std::mt19937& random) {
  const auto bits = static_cast<std::uint16_t>(random());
  return wire::dl16_is_nan(bits) ? 0 : bits;
}

// Two products [5, 70] x [70, 66] with one right-hand side; dimensions: batch, m, n, k.
TEST(GoldenMatMul, IsTheProductOfPlainMatrices) {
  OneOperation op(Opcode::MatMul, {2, 5, 66, 70});
  op.operation.reduced = 8;
  op.input(Format::Dl16, std::array{1u, 3u, 0u}, 3);
  op.input(Format::Dl16, std::array{3u, 2u}, 2);
  op.output(Format::Dl16, std::array{1u, 2u, 0u}, 2);
  const auto of_a = [](unsigned batch, unsigned m, unsigned k) {
    return batch * 1280 + m * 128 + k / 64 * 640 + k % 64 * 2;
  };
  const auto of_b = [](unsigned k, unsigned n) { return k * 128 + n / 64 * 8960 + n % 64 * 2; };
  std::mt19937 random(1);
  for (unsigned i = 0; i < 2 * 1280; i += 2) op.at<std::uint16_t>(0, i) = kNan;  // stays in the pad lanes
  for (unsigned i = 0; i < 2 * 8960; i += 2) op.at<std::uint16_t>(1, i) = kNan;
  std::vector<std::uint16_t> a(10 * 70), b(70 * 66), c(10 * 66);
  for (unsigned row = 0; row < 10; ++row) {
    for (unsigned k = 0; k < 70; ++k)
      a[row * 70 + k] = op.at<std::uint16_t>(0, of_a(row / 5, row % 5, k)) = any_dl16(random);
  }
  for (unsigned k = 0; k < 70; ++k) {
    for (unsigned n = 0; n < 66; ++n) b[k * 66 + n] = op.at<std::uint16_t>(1, of_b(k, n)) = any_dl16(random);
  }
  a[3 * 70 + 69] = op.at<std::uint16_t>(0, of_a(0, 3, 69)) = 0xFFFF;
  op.run();
  svp::golden::matmul_dl16_wide(a, b, c, 10, 66, 70);
  for (unsigned row = 0; row < 10; ++row) {
    for (unsigned n = 0; n < 128; ++n) {
      const auto value = op.at<std::uint16_t>(2, row / 5 * 1280 + row % 5 * 128 + n / 64 * 640 + n % 64 * 2);
      ASSERT_EQ(value, n < 66 ? c[row * 66 + n] : 0) << row << " " << n;
    }
  }
}

TEST(GoldenMatMul, FillsTheSticksOfAnOutputWithoutAStickDimension) {
  OneOperation op(Opcode::MatMul, {2, 1, 3});
  op.operation.reduced = 4;
  op.input(Format::Dl16, std::array{0u, 2u}, 2);
  op.input(Format::Dl16, std::array{2u, 1u}, kNoDimension);
  op.output(Format::Dl16, std::array{0u, 1u}, kNoDimension);
  for (unsigned row = 0; row < 2; ++row) {
    for (unsigned k = 0; k < 3; ++k) op.at<std::uint16_t>(0, 128 * row + 2 * k) = dl16(row + 1.0);
  }
  for (unsigned k = 0; k < 3; ++k) op.at<std::uint16_t>(1, 128 * k) = dl16(k + 1.0);
  op.run();
  for (unsigned lane = 0; lane < 64; ++lane) {
    EXPECT_EQ(op.at<std::uint16_t>(2, 2 * lane), dl16(6));
    EXPECT_EQ(op.at<std::uint16_t>(2, 128 + 2 * lane), dl16(12));
  }
}

std::vector<std::uint16_t> top_k(Opcode opcode, const std::vector<std::uint16_t>& values, std::uint32_t k) {
  OneOperation op(opcode, {static_cast<std::uint32_t>(values.size()), k});
  op.operation.reduced = 1;
  op.input(Format::Dl16, std::array{0u}, 0);
  op.output(Format::Dl16, std::array{1u}, 1);
  for (unsigned lane = 0; lane < 64; ++lane)
    op.at<std::uint16_t>(0, 2 * lane) = lane < values.size() ? values[lane] : kNan;
  op.run();
  std::vector<std::uint16_t> found;
  for (unsigned lane = 0; lane < 64; ++lane) {
    const auto value = op.at<std::uint16_t>(1, 2 * lane);
    if (lane < k) found.push_back(value);
    if (lane >= k) EXPECT_EQ(value, 0);
  }
  return found;
}

TEST(GoldenTopK, FindsIndicesAsIntegers) {
  OneOperation op(Opcode::TopKIndex, {5, 2});
  op.operation.reduced = 1;
  op.input(Format::Fp32, std::array{0u}, 0);
  op.output(Format::Int32, std::array{1u}, 1);
  const float values[] = {1, -2, 7, 7, 0};
  for (unsigned lane = 0; lane < 5; ++lane) op.at<float>(0, 4 * lane) = values[lane];
  op.run();
  EXPECT_EQ(op.at<std::int32_t>(1, 0), 2);
  EXPECT_EQ(op.at<std::int32_t>(1, 4), 3);
  EXPECT_EQ(op.at<std::int32_t>(1, 8), 0);
}

TEST(GoldenTopK, OrdersEqualValuesByIndexAndNanFirst) {
  const std::vector<std::uint16_t> values{dl16(1), 0xFFFE, 0x8000, dl16(3), 0, dl16(3), kNan};
  EXPECT_EQ(top_k(Opcode::TopKValue, values, 7),
            (std::vector<std::uint16_t>{0xFFFE, kNan, dl16(3), dl16(3), dl16(1), 0x8000, 0}));
  EXPECT_EQ(top_k(Opcode::TopKIndex, values, 7),
            (std::vector<std::uint16_t>{dl16(1), dl16(6), dl16(3), dl16(5), 0, dl16(2), dl16(4)}));
  EXPECT_EQ(top_k(Opcode::TopKIndex, values, 1), (std::vector<std::uint16_t>{dl16(1)}));
  const std::vector<std::uint16_t> infinities{0xFFFF, dl16(-8e9), 0x7FFF, kNan};
  EXPECT_EQ(top_k(Opcode::TopKValue, infinities, 4), (std::vector<std::uint16_t>{kNan, 0x7FFF, dl16(-8e9), 0xFFFF}));
}

// Rows of an embedding [4 pages, 40] by an index [3]; dimensions: row, column.
struct Embedding {
  OneOperation op{Opcode::Gather, {3, 40}};
  Embedding() {
    op.input(Format::Int32, std::array{0u}, 0);
    op.input(Format::Fp32, std::array{1u}, 1);
    op.resize_argument(1, 4 * 256);
    op.output(Format::Fp32, std::array{1u, 0u}, 1);
    op.operation.page = 256;
    for (unsigned i = 0; i < 256; ++i) op.at<std::uint32_t>(1, 4 * i) = i;
  }
  void set(std::array<std::int32_t, 3> indices) {
    for (unsigned i = 0; i < 3; ++i) op.at<std::int32_t>(0, 4 * i) = indices[i];
  }
};

TEST(GoldenGather, TakesPagesByIndex) {
  Embedding embedding;
  embedding.set({3, 0, 3});
  embedding.op.run();
  for (unsigned row = 0; row < 3; ++row) {
    for (unsigned lane = 0; lane < 64; ++lane) {
      EXPECT_EQ(embedding.op.at<std::uint32_t>(2, 256 * row + 4 * lane), (row == 1 ? 0 : 192) + lane);
    }
  }
}

TEST(GoldenGather, RefusesAnIndexThatLeadsOutside) {
  for (const std::int32_t index : {4, -1, 0x7FFFFFFF}) {
    Embedding embedding;
    embedding.set({0, index, 0});
    try {
      embedding.op.run();
      ADD_FAILURE() << index;
    } catch (const Refused& refused) {
      EXPECT_EQ(refused.refusal(), (Refusal{Where::Index, 1, 0, static_cast<std::uint32_t>(index)}));
    }
  }
}

TEST(GoldenScatter, TheLastOfSeveralStays) {
  OneOperation op(Opcode::Scatter, {3, 32});
  op.input(Format::Uint32, std::array{0u}, 0);
  op.input(Format::Fp32, std::array{1u, 0u}, 1);
  op.output(Format::Fp32, std::array{1u}, 1);
  op.resize_argument(2, 4 * 128);
  op.operation.page = 128;
  const std::array<std::uint32_t, 3> indices{2, 0, 2};
  for (unsigned i = 0; i < 3; ++i) op.at<std::uint32_t>(0, 4 * i) = indices[i];
  for (unsigned i = 0; i < 96; ++i) op.at<std::uint32_t>(1, 4 * i) = i;
  op.run();
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(op.at<std::uint32_t>(2, 4 * lane), 32 + lane);
    EXPECT_EQ(op.at<std::uint32_t>(2, 128 + 4 * lane), 0xC3C3C3C3u);
    EXPECT_EQ(op.at<std::uint32_t>(2, 256 + 4 * lane), 64 + lane);
  }
  op.at<std::uint32_t>(0, 4) = 4;
  EXPECT_THROW(op.run(), Refused);
}

// ---- loops and slices -----------------------------------------------------------------------------------------------

// exp(a + b) in tiles is in docs of the front end; here: c = a + b, tile by tile, with the sum of a tile in a
// scratchpad.
TEST(GoldenPrograms, TilesInLoopsThroughScratchpadsGiveTheWholeSum) {
  using svp::test::dense_operand;
  svp::test::ProgramBuilder builder;
  const std::array<std::uint32_t, 2> whole{8, 256}, tile{4, 128};
  Operand in_memory = dense_operand(Format::Dl16, whole, std::array{0u, 1u}, 1);
  in_memory.loop_stride[0] = 4 * 128;                  // rows
  in_memory.loop_stride[1] = 2 * in_memory.stride[1];  // columns
  Operand in_scratchpad = dense_operand(Format::Dl16, std::array{2u, 64u}, std::array{0u, 1u}, 1);
  in_scratchpad.base = Base::Scratchpad;
  in_scratchpad.split[0] = in_scratchpad.split[1] = 2;
  in_scratchpad.split_stride[0] = 2;
  in_scratchpad.split_stride[1] = 1;
  builder.slices = 4;
  builder.scratchpad_bytes = 256;
  const auto argument = [&](std::uint8_t number) {
    Operand operand = in_memory;
    operand.argument = number;
    return operand;
  };
  for (int i = 0; i < 3; ++i) builder.add_argument(4096, i == 2 ? Access::Write : Access::Read);
  builder.begin_loop(2);
  builder.begin_loop(2);
  Operation add = svp::test::operation_of(Opcode::Add, tile);
  add.operand_count = 3;
  add.operand[0] = argument(0);
  add.operand[1] = argument(1);
  add.operand[2] = in_scratchpad;
  builder.add(add);
  Operation negate = svp::test::operation_of(Opcode::Neg, tile);
  negate.operand_count = 2;
  negate.operand[0] = in_scratchpad;
  negate.operand[1] = argument(2);
  builder.add(negate);
  builder.end_loop();
  builder.end_loop();
  std::vector<std::uint16_t> a(2048), b(2048), c(2048);
  std::mt19937 random(2);
  for (unsigned i = 0; i < 2048; ++i) a[i] = any_dl16(random), b[i] = any_dl16(random);
  const std::array arguments{std::as_writable_bytes(std::span(a)), std::as_writable_bytes(std::span(b)),
                             std::as_writable_bytes(std::span(c))};
  svp::program::golden::run(builder.build(), arguments);
  for (unsigned i = 0; i < 2048; ++i) {
    const float sum = wire::fp32_from_dl16(a[i]) + wire::fp32_from_dl16(b[i]);
    ASSERT_EQ(c[i], wire::dl16_from_fp32(sum) ^ 0x8000) << i;
  }
}

}  // namespace
