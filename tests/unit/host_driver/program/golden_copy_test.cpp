// SPDX-License-Identifier: Apache-2.0
// Operations that move elements, against places and values worked out by hand.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "host_driver/program/golden/numbers.hpp"
#include "shared/dl16.hpp"
#include "tests/unit/host_driver/program/one_operation.hpp"

namespace {

using namespace wire::program;
using svp::program::golden::bits_of;
using svp::program::golden::value_of;
using svp::test::OneOperation;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

TEST(GoldenNumbers, RoundOnceIntoEveryFormat) {
  EXPECT_EQ(bits_of(Format::Dl16, 1.0 + 1.0 / 1024), 0x3E01u);  // a tie goes away from zero
  EXPECT_EQ(bits_of(Format::Dl16, kNan), 0x7FFEu);
  EXPECT_EQ(bits_of(Format::Dl16, -kInfinity), 0xFFFFu);
  EXPECT_EQ(bits_of(Format::Fp32, 1.0 + 0x1p-24), 0x3F800000u);  // a tie goes to even
  EXPECT_EQ(bits_of(Format::Fp32, -kNan), 0x7FC00000u);
  EXPECT_EQ(bits_of(Format::Int32, 2.9), 2u);
  EXPECT_EQ(bits_of(Format::Int32, -2.9), static_cast<std::uint32_t>(-2));
  EXPECT_EQ(bits_of(Format::Int32, 1e30), 0x7FFFFFFFu);
  EXPECT_EQ(bits_of(Format::Int32, -kInfinity), 0x80000000u);
  EXPECT_EQ(bits_of(Format::Int32, kNan), 0u);
  EXPECT_EQ(bits_of(Format::Int8, 200.0), 127u);
  EXPECT_EQ(bits_of(Format::Int16, -40000.0) & 0xFFFF, 0x8000u);
  EXPECT_EQ(bits_of(Format::Uint32, -1.0), 0u);
  EXPECT_EQ(bits_of(Format::Uint32, 4294967295.0), 0xFFFFFFFFu);
}

TEST(GoldenNumbers, Fp8OverflowsToTheLargestNumberOrInfinity) {
  EXPECT_EQ(bits_of(Format::Fp8E4m3, 448.0), 0x7Eu);
  EXPECT_EQ(bits_of(Format::Fp8E4m3, 464.0), 0x7Eu);  // a tie goes to even
  EXPECT_EQ(bits_of(Format::Fp8E4m3, 465.0), 0x7Eu);
  EXPECT_EQ(bits_of(Format::Fp8E4m3, -1e9), 0xFEu);
  EXPECT_EQ(bits_of(Format::Fp8E4m3, kInfinity), 0x7Eu);
  EXPECT_EQ(bits_of(Format::Fp8E4m3, kNan), 0x7Fu);
  EXPECT_EQ(bits_of(Format::Fp8E4m3, 0x1p-9), 0x01u);
  EXPECT_EQ(bits_of(Format::Fp8E4m3, 0x1p-10), 0x00u);
  EXPECT_EQ(bits_of(Format::Fp8E4m3, -0x1p-10), 0x80u);
  EXPECT_EQ(bits_of(Format::Fp8E5m2, 57344.0), 0x7Bu);
  EXPECT_EQ(bits_of(Format::Fp8E5m2, 61440.0), 0x7Cu);
  EXPECT_EQ(bits_of(Format::Fp8E5m2, -kInfinity), 0xFCu);
  EXPECT_EQ(bits_of(Format::Fp8E5m2, kNan), 0x7Fu);
}

// By search among all codes of one sign, that of infinity standing for the next value of the grid.
std::uint32_t nearest_fp8(Format format, double magnitude) {
  const std::uint32_t end = format == Format::Fp8E4m3 ? 0x7E : 0x7C;
  const auto grid = [&](std::uint32_t code) { return code < 0x7C || end == 0x7E ? value_of(format, code) : 65536.0; };
  std::uint32_t best = 0;
  for (std::uint32_t code = 1; code <= end; ++code) {
    const double before = std::fabs(grid(best) - magnitude);
    const double here = std::fabs(grid(code) - magnitude);
    if (here < before || (here == before && code % 2 == 0)) best = code;
  }
  return best;
}

TEST(GoldenNumbers, Fp8IsTheNearestCode) {
  for (const Format format : {Format::Fp8E4m3, Format::Fp8E5m2}) {
    for (unsigned code = 0; code < 0x8000; code += 16) {  // of DL16: five bits of fraction hold every tie
      const double value = wire::fp64_from_dl16(static_cast<wire::Dl16>(code));
      if (std::isnan(value)) continue;
      for (const double x : {value, value * (1 - 0x1p-40), value * (1 + 0x1p-40)}) {
        ASSERT_EQ(bits_of(format, x), nearest_fp8(format, x)) << x;
        ASSERT_EQ(bits_of(format, -x), nearest_fp8(format, x) | 0x80) << -x;
      }
    }
  }
}

TEST(GoldenNumbers, EveryFp8CodeSurvivesFp64) {
  for (const Format format : {Format::Fp8E4m3, Format::Fp8E5m2}) {
    double last = -1;
    for (std::uint32_t code = 0; code < 256; ++code) {
      const double value = value_of(format, code);
      if (std::isnan(value)) continue;
      EXPECT_EQ(bits_of(format, value), code);
      if (code < 128) EXPECT_GT(value, std::exchange(last, value)) << code;
    }
  }
}

TEST(GoldenCopy, PutsPermutedDimensionsWhereTheFormulaSays) {
  // [5, 100, 150]: device [100, 3, 5, 64], dimensions mb, x, out; a copy into one with mb outermost.
  OneOperation copy(Opcode::Copy, {5, 100, 150});
  copy.input(Format::Dl16, std::array{0u, 1u, 2u}, 2);
  copy.output(Format::Dl16, std::array{2u, 1u, 0u}, 2);
  copy.number_elements(0);
  copy.run();
  for (unsigned mb = 0; mb < 5; ++mb) {
    for (unsigned x = 0; x < 100; ++x) {
      for (unsigned out = 0; out < 192; ++out) {
        const unsigned from = mb * 128 + x * 640 + out / 64 * 64000 + out % 64 * 2;
        const unsigned to = out / 64 * 128 + x * 384 + mb * 38400 + out % 64 * 2;
        ASSERT_EQ(copy.at<std::uint16_t>(1, to), copy.at<std::uint16_t>(0, from)) << mb << " " << x << " " << out;
      }
    }
  }
}

// docs/device-programs.md, the example of the address formula.
TEST(GoldenCopy, FindsTheElementOfTheExample) {
  OneOperation copy(Opcode::Copy, {64, 128});
  copy.input(Format::Dl16, std::array{0u, 1u}, 1);
  copy.output(Format::Fp32, std::array{0u, 1u}, 1);
  for (unsigned i = 0; i < 64 * 128; ++i) copy.at<std::uint16_t>(0, 2 * i) = 0;
  copy.at<std::uint16_t>(0, 9484) = 0x3E00;
  copy.run();
  for (unsigned i = 0; i < 64 * 128; ++i) {
    const unsigned at = 10 * 128 + 70 / 32 * 8192 + 70 % 32 * 4;  // of FP32, with 32 lanes
    ASSERT_EQ(copy.at<float>(1, 4 * i), 4 * i == at ? 1.0F : 0.0F) << i;
  }
}

TEST(GoldenCopy, SplatsLaneZeroOfASparseInput) {
  OneOperation copy(Opcode::Copy, {3, 70});
  copy.input(Format::Fp32, std::array{0u}, kNoDimension);
  copy.output(Format::Fp32, std::array{1u, 0u}, 1);
  copy.number_elements(0);
  copy.run();
  for (unsigned row = 0; row < 3; ++row) {
    for (unsigned lane = 0; lane < 96; ++lane) {
      EXPECT_EQ(copy.at<std::uint32_t>(1, row * 384 + lane / 32 * 128 + lane % 32 * 4),
                copy.at<std::uint32_t>(0, row * 128));
    }
  }
}

TEST(GoldenCopy, WritesZeroIntoLanesThatTheInputLacks) {
  OneOperation copy(Opcode::Copy, {20});  // one FP32 stick of 32 lanes into one DL16 stick of 64
  copy.input(Format::Fp32, std::array{0u}, 0);
  copy.output(Format::Dl16, std::array{0u}, 0);
  for (unsigned lane = 0; lane < 32; ++lane) copy.at<float>(0, lane * 4) = 1.0F;
  copy.run();
  for (unsigned lane = 0; lane < 64; ++lane) EXPECT_EQ(copy.at<std::uint16_t>(1, lane * 2), lane < 32 ? 0x3E00 : 0);
}

TEST(GoldenCopy, WritesTheMaskValue) {
  OneOperation copy(Opcode::Copy, {2, 64});
  copy.input(Format::Dl16, std::array{0u, 1u}, 1);
  copy.output(Format::Dl16, std::array{0u, 1u}, 1);
  copy.operation.mask_count = 2;
  copy.operation.mask[0] = {1, 60, 4};
  copy.operation.mask[1] = {0, 1, 1};
  copy.operation.mask_value = std::bit_cast<std::uint32_t>(-std::numeric_limits<float>::infinity());
  copy.number_elements(0);
  copy.run();
  for (unsigned lane = 0; lane < 64; ++lane) {
    EXPECT_EQ(copy.at<std::uint16_t>(1, lane * 2), lane < 60 ? copy.at<std::uint16_t>(0, lane * 2) : 0xFFFF);
    EXPECT_EQ(copy.at<std::uint16_t>(1, 128 + lane * 2), 0xFFFF);
  }
}

TEST(GoldenRestickify, MovesTheStickDimensionAndClearsPadLanes) {
  // [100, 150]: sticks along 1 become sticks along 0. sdsc.md 2.4, example 5, with true sizes.
  OneOperation op(Opcode::Restickify, {100, 150});
  op.input(Format::Dl16, std::array{0u, 1u}, 1);
  op.output(Format::Dl16, std::array{1u, 0u}, 0);
  op.number_elements(0);
  op.run();
  for (unsigned a = 0; a < 128; ++a) {
    for (unsigned b = 0; b < 150; ++b) {
      const auto moved = op.at<std::uint16_t>(1, 128 * b + 19200 * (a / 64) + 2 * (a % 64));
      const auto expected = a < 100 ? op.at<std::uint16_t>(0, 128 * a + 12800 * (b / 64) + 2 * (b % 64)) : 0;
      ASSERT_EQ(moved, expected) << a << " " << b;
    }
  }
}

// D[8k + w] of a DL16 stick is A[4k + w] of the first FP32 stick for w < 4, else B[4k + w - 4] of the second.
TEST(GoldenStagger, GroupsOfFourOfTwoFp32SticksAlternate) {
  OneOperation up(Opcode::Dl16ToFp32, {128});
  up.input(Format::Dl16, std::array{0u}, 0);
  up.output(Format::Fp32, std::array{0u}, 0);
  for (unsigned i = 0; i < 128; ++i) up.at<std::uint16_t>(0, 2 * i) = wire::dl16_from_fp32(static_cast<float>(i));
  up.run();
  for (unsigned stick = 0; stick < 2; ++stick) {
    for (unsigned k = 0; k < 8; ++k) {
      for (unsigned w = 0; w < 8; ++w) {
        const unsigned half = w < 4 ? 0 : 128;
        EXPECT_EQ(up.at<float>(1, stick * 256 + half + 4 * (4 * k + w % 4)),
                  static_cast<float>(64 * stick + 8 * k + w));
      }
    }
  }
  OneOperation down(Opcode::Fp32ToDl16, {128});
  down.input(Format::Fp32, std::array{0u}, 0);
  down.output(Format::Dl16, std::array{0u}, 0);
  std::memcpy(&down.at<float>(0, 0), &up.at<float>(1, 0), 512);
  down.run();
  for (unsigned i = 0; i < 128; ++i) EXPECT_EQ(down.at<std::uint16_t>(1, 2 * i), up.at<std::uint16_t>(0, 2 * i));
}

// Position 16j + 8h + w of an FP8 stick is lane 8j + w of DL16 stick h.
TEST(GoldenStagger, GroupsOfEightOfTwoDl16SticksAlternate) {
  OneOperation down(Opcode::Dl16ToFp8, {128});
  down.input(Format::Dl16, std::array{0u}, 0);
  down.output(Format::Fp8E4m3, std::array{0u}, 0);
  for (unsigned i = 0; i < 128; ++i) {
    down.at<std::uint16_t>(0, 2 * i) = wire::dl16_from_fp64(value_of(Format::Fp8E4m3, i % 127));
  }
  down.run();
  OneOperation up(Opcode::Fp8ToDl16, {128});
  up.input(Format::Fp8E4m3, std::array{0u}, 0);
  up.output(Format::Dl16, std::array{0u}, 0);
  for (unsigned j = 0; j < 8; ++j) {
    for (unsigned h = 0; h < 2; ++h) {
      for (unsigned w = 0; w < 8; ++w) {
        EXPECT_EQ(down.at<std::uint8_t>(1, 16 * j + 8 * h + w), (64 * h + 8 * j + w) % 127);
        up.at<std::uint8_t>(0, 16 * j + 8 * h + w) = down.at<std::uint8_t>(1, 16 * j + 8 * h + w);
      }
    }
  }
  up.run();
  for (unsigned i = 0; i < 128; ++i) EXPECT_EQ(up.at<std::uint16_t>(1, 2 * i), down.at<std::uint16_t>(0, 2 * i));
}

// Lane (k mod 2) + 2 · (n mod 64) of the stick of rows k div 2 and columns n div 64.
TEST(GoldenStagger, WeightSticksHoldTwoRows) {
  OneOperation op(Opcode::Dl16ToFp8Weight, {5, 100});
  op.operation.reduced = 1;
  op.input(Format::Dl16, std::array{0u, 1u}, 1);
  op.output(Format::Fp8E4m3, std::array{0u, 1u}, 1);
  op.operation.operand[1].stride[1] = 3 * 128;  // three pairs of rows
  op.resize_argument(1, 6 * 128);
  for (unsigned k = 0; k < 5; ++k) {
    for (unsigned n = 0; n < 128; ++n) {
      op.at<std::uint16_t>(0, 128 * k + 640 * (n / 64) + 2 * (n % 64)) =
          wire::dl16_from_fp64(value_of(Format::Fp8E4m3, (k * 31 + n) % 127));
    }
  }
  op.run();
  for (unsigned k = 0; k < 6; ++k) {
    for (unsigned n = 0; n < 128; ++n) {
      const auto lane = op.at<std::uint8_t>(1, 128 * (k / 2) + 384 * (n / 64) + k % 2 + 2 * (n % 64));
      EXPECT_EQ(lane, k < 5 ? (k * 31 + n) % 127 : 0) << k << " " << n;
    }
  }
}

}  // namespace
