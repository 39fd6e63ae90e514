// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic at its edges.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "shared/dl16.hpp"
#include "tests/unit/host_driver/program/one_operation.hpp"

namespace {

using namespace wire::program;
using svp::test::OneOperation;

constexpr std::uint16_t kNan = 0x7FFE;
constexpr std::uint16_t kInfinity = 0x7FFF;
constexpr std::uint16_t kMinusInfinity = 0xFFFF;
constexpr std::uint16_t kOne = 0x3E00;
constexpr std::uint16_t kLargest = 0x7FFD;
constexpr std::uint16_t kMinusZero = 0x8000;

std::uint16_t dl16(double value) { return wire::dl16_from_fp64(value); }

// The operation on one element of each input.
template <typename T>
T apply(Opcode opcode, Format format, std::initializer_list<T> inputs, std::array<float, 2> constants = {}) {
  OneOperation op(opcode, {1});
  for (const T& input : inputs) {
    op.input(format, std::array{0u}, 0);
    op.at<T>(op.operation.operand_count - 1u, 0) = input;
  }
  op.output(format, std::array{0u}, 0);
  op.operation.constant[0] = std::bit_cast<std::uint32_t>(constants[0]);
  op.operation.constant[1] = std::bit_cast<std::uint32_t>(constants[1]);
  op.run();
  return op.at<T>(op.operation.operand_count - 1u, 0);
}
std::uint16_t on_dl16(Opcode opcode, std::initializer_list<std::uint16_t> inputs, std::array<float, 2> constants = {}) {
  return apply<std::uint16_t>(opcode, Format::Dl16, inputs, constants);
}
std::uint32_t on_fp32(Opcode opcode, std::initializer_list<float> inputs, std::array<float, 2> constants = {}) {
  return std::bit_cast<std::uint32_t>(apply<float>(opcode, Format::Fp32, inputs, constants));
}
std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(GoldenArithmetic, RoundsToDl16Once) {
  EXPECT_EQ(on_dl16(Opcode::Add, {kOne, dl16(0x1p-10)}), 0x3E01);  // a tie goes away from zero
  EXPECT_EQ(on_dl16(Opcode::Sub, {kOne, kOne}), 0);
  EXPECT_EQ(on_dl16(Opcode::Add, {kMinusZero, kMinusZero}), kMinusZero);
  EXPECT_EQ(on_dl16(Opcode::Mul, {dl16(3), dl16(-5)}), dl16(-15));
  EXPECT_EQ(on_dl16(Opcode::Div, {kOne, dl16(3)}), dl16(1.0F / 3.0F));
}

TEST(GoldenArithmetic, OverflowKeepsItsSignAndNanHasNone) {
  EXPECT_EQ(on_dl16(Opcode::Add, {kLargest, kLargest}), 0x7FFF);
  EXPECT_EQ(on_dl16(Opcode::Mul, {kLargest, dl16(-2)}), 0xFFFF);
  EXPECT_EQ(on_dl16(Opcode::Div, {dl16(-1), 0}), 0xFFFF);
  EXPECT_EQ(on_dl16(Opcode::Div, {0, 0}), kNan);
  EXPECT_EQ(on_dl16(Opcode::Add, {0xFFFE, kOne}), kNan);
  EXPECT_EQ(on_fp32(Opcode::Div, {0, 0}), 0x7FC00000u);
  EXPECT_EQ(on_fp32(Opcode::Mul, {1e30F, 1e30F}), 0x7F800000u);
  EXPECT_EQ(on_fp32(Opcode::Mul, {0x1p-100F, 0x1p-40F}), bits(0x1p-140F));  // subnormals are kept
}

TEST(GoldenArithmetic, OrdersZerosInMaximumAndMinimum) {
  EXPECT_EQ(on_dl16(Opcode::Maximum, {kMinusZero, 0}), 0);
  EXPECT_EQ(on_dl16(Opcode::Minimum, {0, kMinusZero}), kMinusZero);
  EXPECT_EQ(on_dl16(Opcode::Maximum, {kNan, kOne}), kNan);
  EXPECT_EQ(on_dl16(Opcode::Minimum, {kOne, 0xFFFE}), kNan);
  EXPECT_EQ(on_fp32(Opcode::Minimum, {2, -3}), bits(-3));
}

TEST(GoldenArithmetic, ComparesWithoutOrderForNan) {
  for (const Opcode opcode : {Opcode::Equal, Opcode::Greater, Opcode::GreaterEqual, Opcode::Less, Opcode::LessEqual}) {
    EXPECT_EQ(on_dl16(opcode, {kNan, kNan}), 0);
  }
  EXPECT_EQ(on_dl16(Opcode::NotEqual, {kNan, kNan}), kOne);
  EXPECT_EQ(on_dl16(Opcode::Equal, {0, kMinusZero}), kOne);
  EXPECT_EQ(on_dl16(Opcode::Less, {kMinusZero, 0}), 0);
  EXPECT_EQ(on_dl16(Opcode::GreaterEqual, {kOne, kOne}), kOne);
  EXPECT_EQ(on_fp32(Opcode::LessEqual, {1, 2}), bits(1));
}

TEST(GoldenArithmetic, WhereTakesBits) {
  EXPECT_EQ(on_dl16(Opcode::Where, {kNan, 0xFFFF, kOne}), 0xFFFF);
  EXPECT_EQ(on_dl16(Opcode::Where, {kMinusZero, kOne, 0xFFFF}), 0xFFFF);
  EXPECT_EQ(on_dl16(Opcode::Where, {0x0001, 0x1234, 0}), 0x1234);
}

TEST(GoldenArithmetic, SignsOfNanAndZeroAreHandledAsTheOperationSays) {
  EXPECT_EQ(on_dl16(Opcode::Abs, {0xFFFE}), kNan);
  EXPECT_EQ(on_dl16(Opcode::Neg, {kNan}), 0xFFFE);
  EXPECT_EQ(on_dl16(Opcode::Neg, {0}), kMinusZero);
  EXPECT_EQ(on_dl16(Opcode::Relu, {0xFFFE}), kNan);
  EXPECT_EQ(on_dl16(Opcode::Relu, {kMinusZero}), 0);
  EXPECT_EQ(on_dl16(Opcode::Relu, {dl16(-3)}), 0);
  EXPECT_EQ(on_fp32(Opcode::Relu, {-std::numeric_limits<float>::quiet_NaN()}), 0x7FC00000u);
  EXPECT_EQ(on_dl16(Opcode::Floor, {dl16(-0.25)}), dl16(-1));
  EXPECT_EQ(on_dl16(Opcode::Floor, {kMinusZero}), kMinusZero);
  EXPECT_EQ(on_dl16(Opcode::Floor, {dl16(511.5)}), dl16(511));
  EXPECT_EQ(on_fp32(Opcode::Floor, {-2.5F}), bits(-3));
}

TEST(GoldenArithmetic, ClipRoundsItsBoundsToTheFormat) {
  EXPECT_EQ(on_dl16(Opcode::Clip, {dl16(9)}, {-1, 6.001F}), dl16(6.001));
  EXPECT_EQ(on_dl16(Opcode::Clip, {dl16(-9)}, {-1, 6}), dl16(-1));
  EXPECT_EQ(on_dl16(Opcode::Clip, {kNan}, {-1, 6}), kNan);
  EXPECT_EQ(on_dl16(Opcode::Clip, {dl16(3)}, {5, 2}), dl16(2));  // the upper bound is applied last
}

TEST(GoldenInfinities, AreThoseOfIeee754InArithmetic) {
  for (const std::uint16_t infinity : {kInfinity, kMinusInfinity}) {
    const auto opposite = static_cast<std::uint16_t>(infinity ^ 0x8000);
    for (const double number : {0.0, -0.0, 1.0, -8e9}) {
      EXPECT_EQ(on_dl16(Opcode::Add, {infinity, dl16(number)}), infinity);
      EXPECT_EQ(on_dl16(Opcode::Sub, {dl16(number), infinity}), opposite);
      EXPECT_EQ(on_dl16(Opcode::Div, {dl16(number), infinity}) & 0x7FFF, 0);
    }
    EXPECT_EQ(on_dl16(Opcode::Add, {infinity, infinity}), infinity);
    EXPECT_EQ(on_dl16(Opcode::Add, {infinity, opposite}), kNan);
    EXPECT_EQ(on_dl16(Opcode::Sub, {infinity, infinity}), kNan);
    EXPECT_EQ(on_dl16(Opcode::Mul, {infinity, dl16(-0.5)}), opposite);
    EXPECT_EQ(on_dl16(Opcode::Mul, {infinity, kMinusZero}), kNan);
    EXPECT_EQ(on_dl16(Opcode::Div, {infinity, dl16(-2)}), opposite);
    EXPECT_EQ(on_dl16(Opcode::Div, {infinity, 0}), infinity);
    EXPECT_EQ(on_dl16(Opcode::Div, {infinity, opposite}), kNan);
  }
}

TEST(GoldenInfinities, AreBeyondAllNumbers) {
  EXPECT_EQ(on_dl16(Opcode::Maximum, {kMinusInfinity, dl16(-8e9)}), dl16(-8e9));
  EXPECT_EQ(on_dl16(Opcode::Minimum, {kInfinity, kLargest}), kLargest);
  EXPECT_EQ(on_dl16(Opcode::Maximum, {kMinusInfinity, kNan}), kNan);
  EXPECT_EQ(on_dl16(Opcode::Maximum, {kInfinity, kNan}), kNan);
  EXPECT_EQ(on_dl16(Opcode::Equal, {kInfinity, kInfinity}), kOne);
  EXPECT_EQ(on_dl16(Opcode::Equal, {kInfinity, kMinusInfinity}), 0);
  EXPECT_EQ(on_dl16(Opcode::Equal, {kInfinity, kLargest}), 0);
  EXPECT_EQ(on_dl16(Opcode::Less, {kLargest, kInfinity}), kOne);
  EXPECT_EQ(on_dl16(Opcode::LessEqual, {kNan, kInfinity}), 0);
}

TEST(GoldenInfinities, StayWhatTheyAreWhereAFunctionIsExact) {
  for (const std::uint16_t infinity : {kInfinity, kMinusInfinity}) {
    EXPECT_EQ(on_dl16(Opcode::Abs, {infinity}), kInfinity);
    EXPECT_EQ(on_dl16(Opcode::Neg, {infinity}), infinity ^ 0x8000);
    EXPECT_EQ(on_dl16(Opcode::Floor, {infinity}), infinity);
    EXPECT_EQ(on_dl16(Opcode::Relu, {infinity}), infinity == kInfinity ? kInfinity : 0);
    EXPECT_EQ(on_dl16(Opcode::Clip, {infinity}, {-HUGE_VALF, HUGE_VALF}), infinity);
    EXPECT_EQ(on_dl16(Opcode::Clip, {infinity}, {-2, 3}), infinity == kInfinity ? dl16(3) : dl16(-2));
  }
}

TEST(GoldenArithmetic, PadLanesAreComputed) {
  OneOperation op(Opcode::Neg, {3});
  op.input(Format::Dl16, std::array{0u}, 0);
  op.output(Format::Dl16, std::array{0u}, 0);
  op.number_elements(0);
  op.run();
  for (unsigned lane = 0; lane < 64; ++lane) {
    EXPECT_EQ(op.at<std::uint16_t>(1, 2 * lane), op.at<std::uint16_t>(0, 2 * lane) ^ 0x8000);
  }
}

}  // namespace
