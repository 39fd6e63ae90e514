// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/golden/golden.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/tensor/golden/wide_sum.hpp"
#include "shared/dl16.hpp"

namespace {

using svp::InvalidArgument;
using svp::golden::add_dl16;
using svp::golden::matmul_dl16;
using svp::golden::matmul_dl16_wide;
using svp::golden::WideSum;
using wire::Dl16;

Dl16 dl16(double value) { return wire::dl16_from_fp64(value); }

std::vector<Dl16> product(const std::vector<Dl16>& a, const std::vector<Dl16>& b, std::size_t m, std::size_t n,
                          std::size_t k) {
  std::vector<Dl16> c(m * n, 0xDEAD);
  matmul_dl16(a, b, c, m, n, k);
  std::vector<Dl16> wide(m * n, 0xDEAD);
  matmul_dl16_wide(a, b, wide, m, n, k);
  EXPECT_EQ(c, wide);
  return c;
}

Dl16 dot(const std::vector<Dl16>& a, const std::vector<Dl16>& b) { return product(a, b, 1, 1, a.size())[0]; }

// Finite codes with exponents in [low, high], zeros now and then.
std::vector<Dl16> random_codes(std::mt19937_64& random, std::size_t count, int low, int high) {
  std::vector<Dl16> codes(count);
  for (Dl16& code : codes) {
    const auto exponent = low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
    code = static_cast<Dl16>((random() & 0x8000) | static_cast<std::uint64_t>(exponent << 9) | (random() & 0x1FF));
    if (!wire::dl16_is_finite(code) || random() % 50 == 0) code = static_cast<Dl16>(code & 0x8000);
  }
  return codes;
}

TEST(WideSum, SumsThatFitADoubleAreExact) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    WideSum sum;
    double expected = 0;  // exponents spread over 8 + 8: 26 + 16 bits, exact
    const int base_a = static_cast<int>(random() % 56);
    const int base_b = static_cast<int>(random() % 56);
    const auto a = random_codes(random, 64, base_a, base_a + 7);
    const auto b = random_codes(random, 64, base_b, base_b + 7);
    for (std::size_t i = 0; i < 64; ++i) {
      sum.add_product(a[i], b[i]);
      expected += wire::fp64_from_dl16(a[i]) * wire::fp64_from_dl16(b[i]);
    }
    ASSERT_EQ(sum.to_fp32(), static_cast<float>(expected));
    ASSERT_EQ(sum.to<double>(), expected);
  }
}

TEST(WideSum, ABitAtTheFarEndDecidesATie) {
  const Dl16 one = dl16(1);
  const Dl16 half_ulp = dl16(0x1p-24);
  const Dl16 tiny = wire::kDl16MinPositive;
  WideSum tie;
  tie.add_product(one, one);
  tie.add_product(half_ulp, one);
  EXPECT_EQ(tie.to_fp32(), 1.0f);  // even
  WideSum above = tie;
  above.add_product(tiny, tiny);
  EXPECT_EQ(above.to_fp32(), 1.0f + 0x1p-23f);
  WideSum below = tie;
  below.add_product(tiny, static_cast<Dl16>(tiny | 0x8000));
  EXPECT_EQ(below.to_fp32(), 1.0f);
  WideSum negative;
  negative.add_product(static_cast<Dl16>(one | 0x8000), one);
  negative.add_product(static_cast<Dl16>(half_ulp | 0x8000), one);
  negative.add_product(static_cast<Dl16>(tiny | 0x8000), tiny);
  EXPECT_EQ(negative.to_fp32(), -(1.0f + 0x1p-23f));
}

TEST(WideSum, RoundsOnceToFp64) {
  const Dl16 one = dl16(1);
  const Dl16 tiny = wire::kDl16MinPositive;
  WideSum tie;
  tie.add_product(one, one);
  tie.add_product(dl16(0x1p-26), dl16(0x1p-27));  // half of a unit in the last place
  EXPECT_EQ(tie.to<double>(), 1.0);               // even
  tie.add_product(tiny, tiny);
  EXPECT_EQ(tie.to<double>(), 1.0 + 0x1p-52);
  WideSum far;
  far.add_product(wire::kDl16Max, wire::kDl16Max);
  far.add_product(static_cast<Dl16>(tiny | 0x8000), tiny);
  EXPECT_EQ(far.to<double>(), 8564768768.0 * 8564768768.0);
  far.add_product(static_cast<Dl16>(wire::kDl16Max | 0x8000), wire::kDl16Max);
  EXPECT_EQ(far.to<double>(), -std::ldexp(513.0 * 513.0, -80));
}

TEST(WideSum, ReachesBothEndsOfItsRange) {
  WideSum largest;
  for (int i = 0; i < 64; ++i) largest.add_product(wire::kDl16Max, wire::kDl16Max);
  EXPECT_EQ(largest.to_fp32(), static_cast<float>(64 * 8564768768.0 * 8564768768.0));
  WideSum smallest;
  smallest.add_product(wire::kDl16MinPositive, wire::kDl16MinPositive);
  EXPECT_EQ(smallest.to_fp32(), static_cast<float>(std::ldexp(513.0 * 513.0, -80)));
  smallest.add_product(static_cast<Dl16>(wire::kDl16MinPositive | 0x8000), wire::kDl16MinPositive);
  EXPECT_EQ(smallest.to_fp32(), 0.0f);
  EXPECT_FALSE(std::signbit(smallest.to_fp32()));
}

TEST(GoldenMatmul, IdentityReturnsTheOtherOperand) {
  std::mt19937_64 random(2);
  const std::size_t size = 130;
  std::vector<Dl16> identity(size * size, 0);
  for (std::size_t i = 0; i < size; ++i) identity[i * size + i] = dl16(1);
  auto a = random_codes(random, size * size, 0, 63);
  for (Dl16& code : a) {
    if (wire::dl16_is_zero(code)) code = 0;  // a negative zero would come back as +0
  }
  EXPECT_EQ(product(a, identity, size, size, size), a);
  EXPECT_EQ(product(identity, a, size, size, size), a);
}

TEST(GoldenMatmul, QuickPathEqualsWidePathForEverySpread) {
  std::mt19937_64 random(3);
  for (int spread = 0; spread < 64; spread += 3) {
    const int low = static_cast<int>(random() % static_cast<std::uint64_t>(64 - spread));
    const auto a = random_codes(random, 9 * 200, low, low + spread);
    const auto b = random_codes(random, 200 * 70, low, low + spread);
    product(a, b, 9, 70, 200);
  }
}

TEST(GoldenMatmul, OneWideColumnDoesNotDisturbItsNeighbours) {
  std::mt19937_64 random(4);
  auto a = random_codes(random, 5 * 64, 20, 32);
  auto b = random_codes(random, 64 * 64, 20, 32);
  b[7] = wire::kDl16Max;
  b[64 + 7] = wire::kDl16MinPositive;
  product(a, b, 5, 64, 64);
}

TEST(GoldenMatmul, ChunkIsRoundedOnceAndChunksAscend) {
  // 2^24 in the first chunk, 1 in the second and third: added one by one in fp32 both ones are lost (ties to even);
  // summed inside one chunk they count. DL16 shows the difference after -2^24 in the last chunk.
  std::vector<Dl16> a(4 * 64, 0);
  std::vector<Dl16> b(4 * 64, dl16(1));
  a[0] = dl16(0x1p24);
  a[64] = dl16(1);
  a[128] = dl16(1);
  a[192] = dl16(-0x1p24);
  EXPECT_EQ(dot(a, b), 0x0000);
  a[128] = 0;
  a[65] = dl16(1);
  EXPECT_EQ(dot(a, b), dl16(2));
}

TEST(GoldenMatmul, CancellationIsExactInsideAChunk) {
  std::vector<Dl16> a(64, 0);
  std::vector<Dl16> b(64, dl16(1));
  a[0] = wire::kDl16Max;
  a[1] = dl16(0x1p-20);
  a[63] = static_cast<Dl16>(wire::kDl16Max | 0x8000);
  EXPECT_EQ(dot(a, b), dl16(0x1p-20));
  a[1] = 0;
  EXPECT_EQ(dot(a, b), 0x0000);
}

TEST(GoldenMatmul, ExactZeroIsPositive) {
  EXPECT_EQ(dot({0x8000}, {dl16(3)}), 0x0000);
  EXPECT_EQ(dot({dl16(-1), dl16(1)}, {dl16(1), dl16(1)}), 0x0000);
  EXPECT_EQ(product({}, {}, 1, 1, 0), std::vector<Dl16>{0x0000});
}

TEST(GoldenMatmul, UnderflowKeepsTheSign) {
  EXPECT_EQ(dot({wire::kDl16MinPositive}, {dl16(-0.25)}), 0x8000);
  EXPECT_EQ(dot({wire::kDl16MinPositive}, {dl16(0.25)}), 0x0000);
}

TEST(GoldenMatmul, OverflowBecomesInfinityWithTheSign) {
  EXPECT_EQ(dot({wire::kDl16Max}, {dl16(2)}), 0x7FFF);
  EXPECT_EQ(dot({wire::kDl16Max}, {dl16(-2)}), 0xFFFF);
  EXPECT_EQ(dot({wire::kDl16Max}, {dl16(1)}), wire::kDl16Max);
}

TEST(GoldenMatmul, FinalRoundingBreaksTiesAwayFromZero) {
  EXPECT_EQ(dot({dl16(1), dl16(0x1p-10)}, {dl16(1), dl16(1)}), 0x3E01);
  EXPECT_EQ(dot({dl16(-1), dl16(-0x1p-10)}, {dl16(1), dl16(1)}), 0xBE01);
}

TEST(GoldenMatmul, NanPoisonsItsRowAndColumnOnly) {
  for (const Dl16 nan : {Dl16{0x7FFE}, Dl16{0xFFFE}, Dl16{0x7FFF}, Dl16{0xFFFF}}) {
    std::vector<Dl16> a(3 * 70, dl16(1));
    std::vector<Dl16> b(70 * 4, dl16(0));
    a[1 * 70 + 66] = nan;
    b[65 * 4 + 2] = nan;
    const auto c = product(a, b, 3, 4, 70);
    for (std::size_t row = 0; row < 3; ++row) {
      for (std::size_t column = 0; column < 4; ++column) {
        EXPECT_EQ(c[row * 4 + column], row == 1 || column == 2 ? 0x7FFE : 0x0000);
      }
    }
  }
}

TEST(GoldenMatmul, WrongShapesAreRefused) {
  std::vector<Dl16> a(6), b(6), c(4);
  EXPECT_NO_THROW(matmul_dl16(a, b, c, 2, 2, 3));
  EXPECT_THROW(matmul_dl16(a, b, c, 2, 3, 2), InvalidArgument);
  EXPECT_THROW(matmul_dl16(a, b, c, 3, 2, 3), InvalidArgument);
}

TEST(GoldenAdd, KnownSums) {
  const std::vector<Dl16> a = {dl16(1), dl16(1), 0x8000, 0x8000, dl16(-2), wire::kDl16Max, 0x7FFF, dl16(1), dl16(1)};
  const std::vector<Dl16> b = {dl16(2), dl16(0x1p-10),         0x8000, 0x0000, dl16(2), wire::kDl16Max, dl16(1),
                               0xFFFF,  wire::kDl16MinPositive};
  std::vector<Dl16> c(a.size());
  add_dl16(a, b, c);
  const std::vector<Dl16> expected = {dl16(3), 0x3E01, 0x8000, 0x0000, 0x0000, 0x7FFF, 0x7FFF, 0xFFFF, dl16(1)};
  EXPECT_EQ(c, expected);
  const std::vector<Dl16> no_numbers = {0x7FFE, 0xFFFE, 0x7FFF, 0xFFFF, 0x7FFE};
  const std::vector<Dl16> others = {dl16(1), 0x7FFF, 0xFFFF, 0xFFFF, 0x7FFE};
  std::vector<Dl16> sums(others.size());
  add_dl16(no_numbers, others, sums);
  EXPECT_EQ(sums, (std::vector<Dl16>{0x7FFE, 0x7FFE, 0x7FFE, 0xFFFF, 0x7FFE}));
}

TEST(GoldenAdd, CommutesAndNegates) {
  std::mt19937_64 random(5);
  const auto a = random_codes(random, 50'000, 0, 63);
  const auto b = random_codes(random, 50'000, 0, 63);
  std::vector<Dl16> ab(a.size()), ba(a.size()), minus_a(a), minus_b(b), negated(a.size());
  for (Dl16& code : minus_a) code ^= 0x8000;
  for (Dl16& code : minus_b) code ^= 0x8000;
  add_dl16(a, b, ab);
  add_dl16(b, a, ba);
  add_dl16(minus_a, minus_b, negated);
  EXPECT_EQ(ab, ba);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (ab[i] != 0x0000) {
      EXPECT_EQ(negated[i], ab[i] ^ 0x8000);
    }
  }
}

}  // namespace
