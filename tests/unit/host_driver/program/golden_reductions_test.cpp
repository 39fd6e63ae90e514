// SPDX-License-Identifier: Apache-2.0
// Reductions of the golden model: chunks, masks, pad lanes, empty sets, and the three operations of a layer norm.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "shared/dl16.hpp"
#include "tests/unit/host_driver/program/one_operation.hpp"

namespace {

using namespace wire::program;
using svp::test::OneOperation;

constexpr std::uint16_t kNan = 0x7FFE;

std::uint16_t dl16(double value) { return wire::dl16_from_fp64(value); }

// Over one row of DL16: every lane of the one stick of the result, which are equal.
std::uint16_t reduced(Opcode opcode, const std::vector<double>& values, float factor = 0,
                      std::vector<Mask> masks = {}) {
  const auto count = static_cast<std::uint32_t>(values.size());
  OneOperation op(opcode, {count});
  op.operation.reduced = 1;
  op.operation.constant[0] = std::bit_cast<std::uint32_t>(factor);
  op.input(Format::Dl16, std::array{0u}, 0);
  op.output(Format::Dl16, {}, kNoDimension);
  const std::uint32_t lanes = wire::align_up(count, 64);
  for (std::uint32_t i = 0; i < lanes; ++i) op.at<std::uint16_t>(0, 2 * i) = i < count ? dl16(values[i]) : kNan;
  op.operation.mask_count = static_cast<std::uint8_t>(masks.size());
  for (std::size_t i = 0; i < masks.size(); ++i) op.operation.mask[i] = masks[i];
  op.run();
  for (unsigned lane = 1; lane < 64; ++lane) EXPECT_EQ(op.at<std::uint16_t>(1, 2 * lane), op.at<std::uint16_t>(1, 0));
  return op.at<std::uint16_t>(1, 0);
}

std::uint32_t reduced_fp32(Opcode opcode, const std::vector<float>& values, float factor = 0) {
  OneOperation op(opcode, {static_cast<std::uint32_t>(values.size())});
  op.operation.reduced = 1;
  op.operation.constant[0] = std::bit_cast<std::uint32_t>(factor);
  op.input(Format::Fp32, std::array{0u}, 0);
  op.output(Format::Fp32, {}, kNoDimension);
  for (std::size_t i = 0; i < values.size(); ++i) op.at<float>(0, 4 * i) = values[i];
  op.run();
  return op.at<std::uint32_t>(1, 0);
}

std::vector<double> zeros_but(std::size_t count, const std::vector<std::pair<std::size_t, double>>& values) {
  std::vector<double> all(count);
  for (const auto& [at, value] : values) all[at] = value;
  return all;
}

TEST(GoldenReductions, AChunkOf64PositionsIsExact) {
  EXPECT_EQ(reduced(Opcode::Sum, zeros_but(64, {{0, 0x1p24}, {1, 1}, {63, -0x1p24}})), dl16(1));
  EXPECT_EQ(reduced(Opcode::Sum, zeros_but(130, {{0, 0x1p24}, {64, 1}, {128, -0x1p24}})), 0);  // 2^24 + 1 in fp32
  EXPECT_EQ(reduced(Opcode::Sum, zeros_but(130, {{0, 0x1p24}, {64, -0x1p24}, {128, 1}})), dl16(1));
}

TEST(GoldenReductions, MaskedAndPadPositionsTakeNoPart) {
  const double nan = std::nan("");
  EXPECT_EQ(reduced(Opcode::Sum, {1, 2, nan}), kNan);
  EXPECT_EQ(reduced(Opcode::Sum, {1, 2, nan}, 0, {{0, 2, 1}}), dl16(3));
  EXPECT_EQ(reduced(Opcode::Max, {1, 2, nan}), kNan);
  EXPECT_EQ(reduced(Opcode::Max, {1, 7, nan, 9}, 0, {{0, 2, 1}, {0, 3, 1}}), dl16(7));
  EXPECT_EQ(reduced(Opcode::Min, {1, 7, 0.5}, 0, {{0, 2, 62}}), dl16(1));
}

TEST(GoldenReductions, InfinitiesAreStrongerThanNumbersAndNanThanBoth) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(reduced(Opcode::Sum, {1, kInfinity, -8e9}), 0x7FFF);
  EXPECT_EQ(reduced(Opcode::Sum, {-kInfinity, 1, -kInfinity}), 0xFFFF);
  EXPECT_EQ(reduced(Opcode::Sum, {-kInfinity, 1, kInfinity}), kNan);
  EXPECT_EQ(reduced(Opcode::Sum, {-kInfinity, kNotANumber}), kNan);
  EXPECT_EQ(reduced(Opcode::Mean, {kInfinity, 1}, -0.5F), 0xFFFF);
  EXPECT_EQ(reduced(Opcode::Mean, {kInfinity, 1}, 0), kNan);
  EXPECT_EQ(reduced(Opcode::Prod, {-kInfinity, 2}), 0xFFFF);
  EXPECT_EQ(reduced(Opcode::Prod, {-kInfinity, 0}), kNan);
  EXPECT_EQ(reduced(Opcode::Max, {-kInfinity, -8e9}), dl16(-8e9));
  EXPECT_EQ(reduced(Opcode::Max, {-kInfinity, -kInfinity}), 0xFFFF);
  EXPECT_EQ(reduced(Opcode::Max, {kInfinity, kNotANumber}), kNan);
  EXPECT_EQ(reduced(Opcode::Min, {kInfinity, 8e9}), dl16(8e9));
  EXPECT_EQ(reduced(Opcode::Min, {-kInfinity, kNotANumber}), kNan);
  EXPECT_EQ(reduced(Opcode::Sum, {1, 2, kInfinity}, 0, {{0, 2, 1}}), dl16(3));
}

TEST(GoldenReductions, OfNothingAreTheirNeutralElements) {
  const std::vector<Mask> all{{0, 0, 3}};
  EXPECT_EQ(reduced(Opcode::Max, {1, 2, 3}, 0, all), 0xFFFF);
  EXPECT_EQ(reduced(Opcode::Min, {1, 2, 3}, 0, all), 0x7FFF);
  EXPECT_EQ(reduced(Opcode::Sum, {1, 2, 3}, 0, all), 0);
  EXPECT_EQ(reduced(Opcode::Prod, {1, 2, 3}, 0, all), dl16(1));
}

TEST(GoldenReductions, ExactZeroHasNoSign) {
  EXPECT_EQ(reduced(Opcode::Sum, {-0.0, -0.0}), 0);
  EXPECT_EQ(reduced_fp32(Opcode::Sum, {-0.0F, -0.0F}), 0u);
  EXPECT_EQ(reduced(Opcode::Max, {-0.0, 0.0, -0.0}), 0);
  EXPECT_EQ(reduced(Opcode::Min, {0.0, -0.0, 0.0}), 0x8000);
}

TEST(GoldenReductions, MeanMultipliesBeforeItRounds) {
  EXPECT_EQ(reduced(Opcode::Mean, {1, 2, 4}, 1.0F / 3), dl16(7.0F * (1.0F / 3)));
  EXPECT_EQ(reduced_fp32(Opcode::Mean, {1, 2, 4}, 1.0F / 3),
            std::bit_cast<std::uint32_t>(static_cast<float>(7.0 * static_cast<double>(1.0F / 3))));
  // no overflow on the way
  EXPECT_EQ(reduced(Opcode::Mean, std::vector<double>(300, 8564768768.0), 1.0F / 300), 0x7FFD);
}

TEST(GoldenReductions, Fp32IsAddedInFp64) {
  EXPECT_EQ(reduced_fp32(Opcode::Sum, {0x1p24F, 1, -0x1p24F}), std::bit_cast<std::uint32_t>(1.0F));
  EXPECT_EQ(reduced_fp32(Opcode::Sum, {0x1p60F, 1, -0x1p60F}), 0u);
  EXPECT_EQ(reduced_fp32(Opcode::Prod, {0x1p100F, 0x1p100F, 0x1p-100F}), std::bit_cast<std::uint32_t>(0x1p100F));
  EXPECT_EQ(reduced_fp32(Opcode::Prod, {std::numeric_limits<float>::infinity(), 0}), 0x7FC00000u);
}

TEST(GoldenReductions, PadLanesOfTheOutputAreZero) {
  // [3, 70] along dimension 0, sticks along 1 (sumnonstick).
  OneOperation op(Opcode::Sum, {3, 70});
  op.operation.reduced = 1;
  op.input(Format::Dl16, std::array{1u, 0u}, 1);
  op.output(Format::Dl16, std::array{1u}, 1);
  for (unsigned i = 0; i < 3 * 128; ++i) op.at<std::uint16_t>(0, 2 * i) = 0x3E00;
  op.run();
  for (unsigned lane = 0; lane < 128; ++lane) EXPECT_EQ(op.at<std::uint16_t>(1, 2 * lane), lane < 70 ? dl16(3) : 0);
}

// Exx2 of one row: the pair, and zeros behind it.
std::array<double, 2> exx2(const std::vector<double>& values, float factor) {
  OneOperation op(Opcode::Exx2, {static_cast<std::uint32_t>(values.size())});
  op.operation.reduced = 1;
  op.operation.constant[0] = std::bit_cast<std::uint32_t>(factor);
  op.input(Format::Dl16, std::array{0u}, 0);
  op.output(Format::Dl16, {}, kNoDimension);
  for (std::size_t i = 0; i < values.size(); ++i) op.at<std::uint16_t>(0, 2 * i) = dl16(values[i]);
  op.run();
  for (unsigned at = 16; at < 128; at += 8) EXPECT_EQ(op.at<std::uint64_t>(1, at), 0u);
  return {op.at<double>(1, 0), op.at<double>(1, 8)};
}

TEST(GoldenLayerNorm, Exx2IsExactPerChunkInFp64) {
  EXPECT_EQ(exx2({1, 2, 3, 4}, 0.25F), (std::array{2.5, 7.5}));
  // 2^32 squared is 2^64; beside 2^-30 squared, 2^-60, only an exact sum leaves the small square.
  EXPECT_EQ(exx2({0x1p-30, 0x1p30, -0x1p30}, 1), (std::array{0x1p-30, 0x1p61}));
  for (const double not_finite : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    const auto nan = exx2({1, not_finite}, 1);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(nan[0]), 0x7FF8000000000000u);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(nan[1]), 0x7FF8000000000000u);
  }
}

std::uint32_t layer_norm_scale(double m, double q, float epsilon) {
  OneOperation op(Opcode::LayerNormScale, {1, 40});
  op.operation.constant[0] = std::bit_cast<std::uint32_t>(epsilon);
  op.input(Format::Fp32, std::array{0u}, kNoDimension);
  op.output(Format::Fp32, std::array{0u, 1u}, 1);
  op.at<double>(0, 0) = m;
  op.at<double>(0, 8) = q;
  op.run();
  for (unsigned lane = 0; lane < 64; ++lane) EXPECT_EQ(op.at<std::uint32_t>(1, 4 * lane), op.at<std::uint32_t>(1, 0));
  return op.at<std::uint32_t>(1, 0);
}

TEST(GoldenLayerNorm, ScaleIsTheReciprocalOfTheDeviation) {
  EXPECT_EQ(layer_norm_scale(1, 5, 0), std::bit_cast<std::uint32_t>(0.5F));
  EXPECT_EQ(layer_norm_scale(2, 4, 0.25F), std::bit_cast<std::uint32_t>(2.0F));
  EXPECT_EQ(layer_norm_scale(2, 3, 0), 0x7F800000u);  // a variance below zero counts as zero
  EXPECT_EQ(layer_norm_scale(std::nan(""), 3, 0), 0x7FC00000u);
}

TEST(GoldenLayerNorm, NormRoundsEachStepToFp32) {
  OneOperation op(Opcode::LayerNormNorm, {2, 32});
  op.input(Format::Fp32, std::array{0u, 1u}, 1);
  op.input(Format::Fp32, std::array{0u}, kNoDimension);
  op.input(Format::Fp32, std::array{0u}, kNoDimension);
  op.input(Format::Fp32, std::array{1u}, 1);
  op.input(Format::Fp32, std::array{1u}, 1);
  op.output(Format::Fp32, std::array{0u, 1u}, 1);
  for (unsigned row = 0; row < 2; ++row) {
    op.at<double>(1, 128 * row) = 0.1 + row;
    op.at<float>(2, 128 * row) = 1.7F;
  }
  for (unsigned i = 0; i < 64; ++i) op.at<float>(0, 4 * i) = 0.3F * static_cast<float>(i);
  for (unsigned i = 0; i < 32; ++i) op.at<float>(3, 4 * i) = 1.1F, op.at<float>(4, 4 * i) = -0.7F;
  op.run();
  for (unsigned row = 0; row < 2; ++row) {
    for (unsigned i = 0; i < 32; ++i) {
      volatile float step = op.at<float>(0, 128 * row + 4 * i) - static_cast<float>(0.1 + row);
      step = step * 1.7F;
      step = step * 1.1F;
      step = step + -0.7F;
      EXPECT_EQ(op.at<float>(5, 128 * row + 4 * i), step);
    }
  }
}

}  // namespace
