// SPDX-License-Identifier: Apache-2.0
// The matrix kernel against the golden model, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "host_driver/tensor/golden/golden.hpp"
#include "shared/dl16.hpp"
#include "tests/device/kernels/bare_card.hpp"
#include "tests/device/kernels/kernel_fixture.hpp"
#include "tests/device/kernels/stick_tensor.hpp"

namespace kernel_test {
namespace {

using wire::Dl16;
using Codes = std::vector<Dl16>;

Dl16 dl16(double value) { return wire::dl16_from_fp64(value); }

Codes normal(std::mt19937_64& random, std::size_t count) {
  std::normal_distribution<float> distribution;
  Codes codes(count);
  for (Dl16& code : codes) code = wire::dl16_from_fp32(distribution(random));
  return codes;
}

Codes uniform(std::mt19937_64& random, std::size_t count) {
  std::uniform_real_distribution<float> distribution(-1, 1);
  Codes codes(count);
  for (Dl16& code : codes) code = wire::dl16_from_fp32(distribution(random));
  return codes;
}

// Finite, exponents anywhere in [low, high], one in twenty a zero of either sign.
Codes exponents(std::mt19937_64& random, std::size_t count, int low, int high) {
  Codes codes(count);
  for (Dl16& code : codes) {
    const auto exponent = low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
    code = static_cast<Dl16>((random() & 0x81FF) | static_cast<std::uint64_t>(exponent << 9));
    if (!wire::dl16_is_finite(code) || random() % 20 == 0) code &= 0x8000;
  }
  return codes;
}

class Matmul : public KernelTest {
 protected:
  struct Shape {
    std::size_t m, n, k;
  };

  // C by the card; padding lanes of A and B hold `padding`.
  Codes product(const Codes& a, const Codes& b, Shape s, unsigned cores = 1, Dl16 padding = wire::kDl16Nan) {
    const std::uint64_t at_a = BareCard::kTensors;
    const std::uint64_t at_b = at_a + stick_elements(s.m, s.k) * 2;
    const std::uint64_t at_c = at_b + stick_elements(s.k, s.n) * 2;
    to_sticks(a, s.m, s.k, card().tensor<Dl16>(at_a, stick_elements(s.m, s.k)), padding);
    to_sticks(b, s.k, s.n, card().tensor<Dl16>(at_b, stick_elements(s.k, s.n)), padding);
    const auto c = card().tensor<Dl16>(at_c, stick_elements(s.m, s.n) + kLanes);
    std::fill(c.begin(), c.end(), Dl16{0x5A5A});
    launch({at_a, s.m * 128, at_b, s.k * 128, at_c, s.m * 128}, s, cores);
    for (std::size_t i = c.size() - kLanes; i < c.size(); ++i) EXPECT_EQ(c[i], 0x5A5A) << "written behind C";
    expect_zero_padding(c, s);
    return from_sticks(c, s.m, s.n);
  }

  struct Places {
    std::uint64_t a, stride_a, b, stride_b, c, stride_c;
  };
  void launch(const Places& p, Shape s, unsigned cores, std::uint64_t partials = 0,
              std::uint64_t pass = wire::kPassFirst | wire::kPassLast) {
    const wire::CorrectionSymbol symbols[] = {
        BareCard::address(0, p.a),       BareCard::stride(0, p.stride_a), BareCard::address(1, p.b),
        BareCard::stride(1, p.stride_b), BareCard::address(2, p.c),       BareCard::stride(2, p.stride_c),
        BareCard::dimension(0, s.m),     BareCard::dimension(1, s.n),     BareCard::dimension(0, s.k),
        BareCard::partials(2, partials), BareCard::pass(2, pass)};
    expect_success(run("matmul", symbols, cores));
  }

  void expect_golden(const Codes& a, const Codes& b, Shape s, unsigned cores = 1) {
    Codes expected(s.m * s.n);
    svp::golden::matmul_dl16(a, b, expected, s.m, s.n, s.k);
    expect_equal(product(a, b, s, cores), expected, s);
  }

  static void expect_equal(const Codes& c, const Codes& expected, Shape s) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (c[i] == expected[i] || ++wrong > 3) continue;
      ADD_FAILURE() << "C[" << i / s.n << "," << i % s.n << "] is 0x" << std::hex << c[i] << ", golden 0x"
                    << expected[i];
    }
    EXPECT_EQ(wrong, 0u) << "of " << c.size();
  }

  static void expect_zero_padding(std::span<const Dl16> c, Shape s) {
    if (s.n % kLanes == 0) return;
    for (std::size_t r = 0; r < s.m; ++r) {
      for (std::size_t lane = s.n % kLanes; lane < kLanes; ++lane) {
        ASSERT_EQ(c[((sticks(s.n) - 1) * s.m + r) * kLanes + lane], 0) << "padding of row " << r;
      }
    }
  }

  std::mt19937_64 random_{20261121};
};

TEST_F(Matmul, NormalDataEqualsGolden) {
  const Shape s{256, 192, 512};
  expect_golden(normal(random_, s.m * s.k), normal(random_, s.k * s.n), s);
}

TEST_F(Matmul, UniformDataEqualsGolden) {
  const Shape s{128, 128, 1024};
  expect_golden(uniform(random_, s.m * s.k), uniform(random_, s.k * s.n), s);
}

TEST_F(Matmul, SmallSpreadTakesTheNarrowPathAndEqualsGolden) {
  const Shape s{64, 128, 256};
  expect_golden(exponents(random_, s.m * s.k, 30, 32), exponents(random_, s.k * s.n, 30, 33), s);
}

TEST_F(Matmul, EverySpreadEqualsGolden) {
  const Shape s{20, 64, 128};
  for (int spread = 0; spread < 64; spread += 4) {
    const int low = static_cast<int>(random_() % static_cast<std::uint64_t>(64 - spread));
    SCOPED_TRACE("exponents " + std::to_string(low) + " to " + std::to_string(low + spread));
    expect_golden(exponents(random_, s.m * s.k, low, low + spread), exponents(random_, s.k * s.n, low, low + spread),
                  s);
  }
}

TEST_F(Matmul, RowsAndColumnsOfDifferentSpreadEqualGolden) {
  const Shape s{33, 100, 192};
  Codes a(s.m * s.k);
  Codes b(s.k * s.n);
  for (std::size_t r = 0; r < s.m; ++r) {
    const Codes row = exponents(random_, s.k, 5, 5 + static_cast<int>(r));
    std::copy(row.begin(), row.end(), a.begin() + static_cast<std::ptrdiff_t>(r * s.k));
  }
  for (std::size_t c = 0; c < s.n; ++c) {
    const Codes column = exponents(random_, s.k, 3, 3 + static_cast<int>(c % 58));
    for (std::size_t i = 0; i < s.k; ++i) b[i * s.n + c] = column[i];
  }
  expect_golden(a, b, s);
}

// Up to a number of rows that the kernel decides, blocks are executed in another way.
TEST_F(Matmul, FewRowsOfAnySpreadEqualGolden) {
  for (std::size_t rows = 1; rows <= 10; ++rows) {
    const Shape s{rows, 70, 130};
    for (const int spread : {0, 5, 10, 20, 37, 63}) {
      const int low = static_cast<int>(random_() % static_cast<std::uint64_t>(64 - spread));
      SCOPED_TRACE(std::to_string(rows) + " rows, exponents " + std::to_string(low) + " to " +
                   std::to_string(low + spread));
      Codes a = exponents(random_, s.m * s.k, low, low + spread);
      Codes b = exponents(random_, s.k * s.n, low, low + spread);
      a[random_() % a.size()] = 0;
      b[random_() % b.size()] = 0x8000;
      if (spread == 37) a[random_() % a.size()] = 0x7FFF;
      if (spread >= 37) b[random_() % b.size()] = 0xFFFF;
      expect_golden(a, b, s);
    }
  }
}

TEST_F(Matmul, AnyShapeEqualsGolden) {
  const Shape shapes[] = {{1, 1, 1},    {1, 1, 64},   {1, 64, 65},  {7, 3, 63},    {8, 33, 1},    {9, 65, 130},
                          {16, 64, 64}, {17, 31, 70}, {15, 513, 8}, {257, 66, 66}, {300, 600, 3}, {3, 1100, 200}};
  for (const Shape s : shapes) {
    SCOPED_TRACE(std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k));
    expect_golden(normal(random_, s.m * s.k), normal(random_, s.k * s.n), s);
  }
}

TEST_F(Matmul, ResultDoesNotDependOnTheNumberOfCores) {
  const Shape shapes[] = {{130, 200, 128}, {2, 1100, 70}, {1500, 530, 30}};  // of the last, blocks of many sizes
  for (const Shape s : shapes) {
    const Codes a = normal(random_, s.m * s.k);
    const Codes b = normal(random_, s.k * s.n);
    Codes expected(s.m * s.n);
    svp::golden::matmul_dl16(a, b, expected, s.m, s.n, s.k);
    for (const unsigned cores : {2u, 3u, 33u}) {
      SCOPED_TRACE(std::to_string(s.m) + " rows, cores " + std::to_string(cores));
      expect_equal(product(a, b, s, cores), expected, s);
    }
  }
}

TEST_F(Matmul, NothingToSumGivesPositiveZero) {
  const Shape s{5, 70, 0};
  EXPECT_EQ(product({}, {}, s), Codes(s.m * s.n, 0));
}

TEST_F(Matmul, NanPoisonsItsRowAndColumnOnly) {
  const Shape s{40, 130, 200};
  Codes a = normal(random_, s.m * s.k);
  Codes b = normal(random_, s.k * s.n);
  a[3 * s.k + 199] = 0x7FFF;
  a[39 * s.k] = 0xFFFF;
  b[64 * s.n + 5] = 0xFFFF;
  b[199 * s.n + 129] = 0x7FFF;
  expect_golden(a, b, s);
}

TEST_F(Matmul, NanInWideDataEqualsGolden) {
  const Shape s{18, 66, 130};
  Codes a = exponents(random_, s.m * s.k, 0, 63);
  Codes b = exponents(random_, s.k * s.n, 0, 63);
  a[2 * s.k + 7] = 0x7FFF;
  b[100 * s.n + 33] = 0xFFFF;
  expect_golden(a, b, s);
}

TEST_F(Matmul, ExtremesEqualGolden) {
  const Shape s{16, 64, 128};
  const Dl16 values[] = {wire::kDl16Max, 0xFFFE, wire::kDl16MinPositive, 0x8001, 0x0000, 0x8000, dl16(1), dl16(-1)};
  Codes a(s.m * s.k);
  Codes b(s.k * s.n);
  for (Dl16& code : a) code = values[random_() % std::size(values)];
  for (Dl16& code : b) code = values[random_() % std::size(values)];
  expect_golden(a, b, s);
  expect_golden(Codes(a.size(), wire::kDl16Max), Codes(b.size(), wire::kDl16Max), s);
  expect_golden(Codes(a.size(), wire::kDl16MinPositive), Codes(b.size(), 0x8001), s);
}

TEST_F(Matmul, CancellationEqualsGolden) {
  // Every product appears with both signs inside a chunk, but for one small rest.
  const Shape s{16, 64, 64};
  Codes a = exponents(random_, s.m * s.k, 20, 38);
  Codes b = exponents(random_, s.k * s.n, 20, 38);
  for (std::size_t i = 0; i < s.k / 2; ++i) {
    for (std::size_t r = 0; r < s.m; ++r) a[r * s.k + 63 - i] = a[r * s.k + i] ^ 0x8000;
    for (std::size_t c = 0; c < s.n; ++c) b[(63 - i) * s.n + c] = b[i * s.n + c];
  }
  expect_golden(a, b, s);
  a[5] = dl16(0x1p-12);
  expect_golden(a, b, s);
}

TEST_F(Matmul, TiesOfBothRoundingsEqualGolden) {
  // Sums of exactly 25 significant bits (ties of fp32), and results half-way between two DL16 codes.
  const Shape s{32, 64, 192};
  Codes a(s.m * s.k, 0);
  Codes b(s.k * s.n, dl16(1));
  for (std::size_t r = 0; r < s.m; ++r) {
    Dl16* row = &a[r * s.k];
    const double sign = r % 2 == 0 ? 1 : -1;
    row[0] = dl16(sign * (1 + static_cast<double>(r) / 512));
    row[1] = dl16(sign * 0x1p-24);                         // tie of the chunk's fp32
    row[2] = r % 3 == 0 ? dl16(sign * 0x1p-31 * 1.5) : 0;  // and a bit that decides it
    row[64] = dl16(sign * 0x1p-24);                        // tie of the fp32 addition
    row[128] = dl16(sign * 0x1p-10);                       // tie of DL16
    row[129] = r % 5 == 0 ? dl16(-sign * 0x1p-20) : 0;
  }
  expect_golden(a, b, s);
}

TEST_F(Matmul, TileOfRowsUsesTheStridesOfTheWholeTensor) {
  const Shape whole{96, 128, 128};
  const std::size_t tile_rows = 32;
  const Codes a = normal(random_, whole.m * whole.k);
  const Codes b = normal(random_, whole.k * whole.n);
  const std::uint64_t at_a = BareCard::kTensors;
  const std::uint64_t at_b = at_a + stick_elements(whole.m, whole.k) * 2;
  const std::uint64_t at_c = at_b + stick_elements(whole.k, whole.n) * 2;
  to_sticks(a, whole.m, whole.k, card().tensor<Dl16>(at_a, stick_elements(whole.m, whole.k)));
  to_sticks(b, whole.k, whole.n, card().tensor<Dl16>(at_b, stick_elements(whole.k, whole.n)));
  for (std::size_t tile = 0; tile < whole.m / tile_rows; ++tile) {
    const std::uint64_t shift = tile * tile_rows * 128;
    launch({at_a + shift, whole.m * 128, at_b, whole.k * 128, at_c + shift, whole.m * 128},
           {tile_rows, whole.n, whole.k}, 1);
  }
  Codes expected(whole.m * whole.n);
  svp::golden::matmul_dl16(a, b, expected, whole.m, whole.n, whole.k);
  expect_equal(from_sticks(card().tensor<Dl16>(at_c, stick_elements(whole.m, whole.n)), whole.m, whole.n), expected,
               whole);
}

// The sums of all passes but the last are kept in fp32.
TEST_F(Matmul, PassesOverKGiveTheBitsOfOne) {
  const Shape whole{70, 100, 300};
  Codes a = exponents(random_, whole.m * whole.k, 10, 50);
  Codes b = exponents(random_, whole.k * whole.n, 10, 50);
  a[3 * whole.k + 20] = wire::kDl16Nan;                              // in the first pass
  a[5 * whole.k + 200] = wire::kDl16Nan;                             // in a later one
  b[260 * whole.n + 77] = wire::kDl16Nan;                            // in the last one
  for (std::size_t k = 0; k < whole.k; ++k) a[9 * whole.k + k] = 0;  // a row of zeros
  const std::uint64_t at_a = BareCard::kTensors;
  const std::uint64_t at_b = at_a + stick_elements(whole.m, whole.k) * 2;
  const std::uint64_t at_c = at_b + stick_elements(whole.k, whole.n) * 2;
  const std::uint64_t partials = at_c + stick_elements(whole.m, whole.n) * 2;
  to_sticks(a, whole.m, whole.k, card().tensor<Dl16>(at_a, stick_elements(whole.m, whole.k)));
  to_sticks(b, whole.k, whole.n, card().tensor<Dl16>(at_b, stick_elements(whole.k, whole.n)));
  Codes expected(whole.m * whole.n);
  svp::golden::matmul_dl16(a, b, expected, whole.m, whole.n, whole.k);
  for (const std::size_t depth : {64, 128, 256}) {
    SCOPED_TRACE("passes of " + std::to_string(depth));
    for (std::size_t k = 0; k < whole.k; k += depth) {
      const std::size_t left = std::min(depth, whole.k - k);
      const std::uint64_t pass = (k == 0 ? wire::kPassFirst : 0) | (k + left == whole.k ? wire::kPassLast : 0);
      launch({at_a + k / 64 * whole.m * 128, whole.m * 128, at_b + k * 128, whole.k * 128, at_c, whole.m * 128},
             {whole.m, whole.n, left}, 2, partials, pass);
    }
    expect_equal(from_sticks(card().tensor<Dl16>(at_c, stick_elements(whole.m, whole.n)), whole.m, whole.n), expected,
                 whole);
  }
}

}  // namespace
}  // namespace kernel_test
