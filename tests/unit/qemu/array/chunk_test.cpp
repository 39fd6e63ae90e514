// SPDX-License-Identifier: Apache-2.0
// The products of a chunk, against sums that are exact.
#include "qemu/array/chunk.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "host_driver/program/golden/numbers.hpp"
#include "shared/dl16.hpp"
#include "tests/unit/qemu/array/each_target.hpp"

namespace {

using svp::array::ChunkPlan;

// What the contract says, by doubles that are added without a loss: the larger part of a sum and its rest.
float expected(const std::vector<wire::Dl16>& row, const std::vector<wire::Dl16>& column) {
  // Terms by exponent, smallest first; each partial sum of one exponent is exact.
  std::vector<double> of_exponent(127);
  for (std::size_t k = 0; k < row.size(); ++k) {
    const wire::Dl16Parts x = wire::dl16_parts(row[k]);
    const wire::Dl16Parts y = wire::dl16_parts(column[k]);
    of_exponent[static_cast<unsigned>(x.exponent + y.exponent)] += double(x.significand) * double(y.significand);
  }
  // A list of doubles that do not overlap, whose sum is exact (Shewchuk's expansion).
  std::vector<double> parts;
  for (std::size_t e = 0; e < of_exponent.size(); ++e) {
    double x = std::ldexp(of_exponent[e], static_cast<int>(e) + 2 * wire::kDl16UnitExponent);
    std::vector<double> kept;
    for (double y : parts) {
      if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
      const double sum = x + y;
      const double rest = y - (sum - x);
      if (rest != 0) kept.push_back(rest);
      x = sum;
    }
    kept.push_back(x);
    parts = kept;
  }
  // Rounded to odd into one double, then once to fp32.
  double value = parts.back();
  for (std::size_t i = parts.size() - 1; i-- > 0;) {
    if (parts[i] == 0) continue;
    std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
    if ((bits & 1) == 0) {
      const bool away = (parts[i] > 0) == (value > 0);
      bits += away ? 1 : std::uint64_t{0} - 1;
      value = std::bit_cast<double>(bits);
    }
    break;
  }
  return static_cast<float>(value);
}

constexpr wire::Dl16 kOne = 0x3E00;

// Of all 64 positions and lanes, without a panel.
std::unique_ptr<ChunkPlan> plan_of(const std::vector<const std::vector<wire::Dl16>*>& rows, std::vector<float>& sums) {
  auto plan = std::make_unique<ChunkPlan>();
  plan->request = {};
  plan->request.rows = static_cast<std::uint32_t>(rows.size());
  plan->request.depth = plan->request.lanes = 64;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    plan->row[i] = reinterpret_cast<const std::byte*>(rows[i]->data());
    for (std::size_t half = 0; half < 2; ++half) {
      plan->sums[i][half] = reinterpret_cast<std::byte*>(&sums[(half * rows.size() + i) * 32]);
    }
  }
  return plan;
}

struct Case {
  const char* name;
  unsigned of_rows, of_panel;  // binades of the numbers
  unsigned rows, depth, lanes;
};

class Chunks : public testing::TestWithParam<Case> {};

TEST_P(Chunks, AreExactSumsRoundedOnceAndAdded) {
  const Case c = GetParam();
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  const auto code = [&](unsigned spread) {
    if (random() % 8 == 0) return static_cast<wire::Dl16>(random() % 2 * 0x8000);
    const unsigned exponent = 31 - spread / 2 + random() % spread;
    return static_cast<wire::Dl16>((random() & 0x81FF) | exponent << 9);
  };
  std::vector<wire::Dl16> rows(std::size_t{wire::array::kMaxRows} * 64), panel(64 * 64);
  for (auto& each : rows) each = code(c.of_rows);
  for (auto& each : panel) each = code(c.of_panel);
  std::vector<float> sums(2 * std::size_t{wire::array::kMaxRows} * 32);
  for (float& sum : sums) sum = static_cast<float>(static_cast<int>(random() % 2000) - 1000) / 16;
  const std::vector<float> before = sums;
  auto plan = std::make_unique<ChunkPlan>();
  plan->request = {};
  plan->request.rows = c.rows;
  plan->request.depth = c.depth;
  plan->request.lanes = c.lanes;
  for (unsigned i = 0; i < c.rows; ++i) {
    plan->row[i] = reinterpret_cast<const std::byte*>(&rows[i * 64]);
    for (unsigned h = 0; h < 2; ++h) {
      plan->sums[i][h] = reinterpret_cast<std::byte*>(&sums[(h * wire::array::kMaxRows + i) * 32]);
    }
  }
  for (unsigned k = 0; k < c.depth; ++k) plan->panel[k] = reinterpret_cast<const std::byte*>(&panel[k * 64]);
  ASSERT_TRUE(execute(*plan));
  for (unsigned i = 0; i < wire::array::kMaxRows; ++i) {
    for (unsigned place = 0; place < 64; ++place) {
      const unsigned lane = wire::array::lane_of_sum(place / 32, place % 32);
      const std::size_t at = (place / 32 * wire::array::kMaxRows + i) * 32 + place % 32;
      float wanted = before[at];
      if (i < c.rows && lane < c.lanes) {
        std::vector<wire::Dl16> a(c.depth), b(c.depth);
        for (unsigned k = 0; k < c.depth; ++k) a[k] = rows[i * 64 + k], b[k] = panel[k * 64 + lane];
        wanted += expected(a, b);
      }
      ASSERT_EQ(sums[at], wanted) << "row " << i << ", lane " << lane;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Chunks,
                         testing::Values(Case{"Near", 8, 8, 64, 64, 64}, Case{"AtTheEdge", 14, 14, 64, 64, 64},
                                         Case{"SplitRows", 34, 10, 64, 64, 64}, Case{"SplitPart", 20, 12, 62, 63, 64},
                                         Case{"Apart", 20, 20, 1, 64, 16}, Case{"FarApart", 60, 60, 1, 64, 16},
                                         Case{"OneRow", 12, 12, 1, 64, 64}, Case{"Shallow", 12, 12, 7, 5, 64},
                                         Case{"Narrow", 14, 14, 63, 64, 9}, Case{"NarrowFarApart", 60, 60, 1, 5, 9}),
                         [](const auto& info) { return info.param.name; });

// 2^24 + 1 lies in the middle of two numbers of fp32: what is 55 binades below decides.
TEST(Chunk, ASplitRowIsRoundedOnce) {
  constexpr wire::Dl16 kTwoToThe12 = (31 + 12) << 9, kTiny = 1;
  std::vector<wire::Dl16> row(64), ones(64, kOne), large(64, kTwoToThe12);
  row[0] = kTwoToThe12;
  row[1] = kOne;
  for (const bool negative : {false, true}) {
    row[2] = negative ? kTiny | 0x8000 : kTiny;
    std::vector<float> sums(64);
    const auto plan = plan_of({&row}, sums);
    for (auto& each : plan->panel) each = reinterpret_cast<const std::byte*>(ones.data());
    plan->panel[0] = reinterpret_cast<const std::byte*>(large.data());
    ASSERT_TRUE(execute(*plan));
    EXPECT_EQ(sums, std::vector<float>(64, negative ? 0x1p24F : 0x1p24F + 2));
  }
}

// Each sum of integers takes its time, and a request is bounded.
TEST(Chunk, MoreWideSumsThanTheBoundAreRefusedAndNothingChanges) {
  std::vector<wire::Dl16> row(64, 56 << 9), ones(64, kOne), small(64, 11 << 9);
  row[1] = 4 << 9;
  row[2] = 32 << 9;
  for (const std::uint32_t lanes : {wire::array::kMaxWideSums, wire::array::kMaxWideSums + 1}) {
    std::vector<float> sums(64, 1.0F);
    const auto plan = plan_of({&row}, sums);
    plan->request.lanes = lanes;
    for (auto& each : plan->panel) each = reinterpret_cast<const std::byte*>(ones.data());
    plan->panel[0] = reinterpret_cast<const std::byte*>(small.data());
    EXPECT_EQ(execute(*plan) != 0, lanes == wire::array::kMaxWideSums);
    EXPECT_EQ(sums == std::vector<float>(64, 1.0F), lanes != wire::array::kMaxWideSums);
  }
}

TEST(Chunk, ANumberThatIsNotFiniteIsRefusedAndNothingChanges) {
  for (const wire::Dl16 bad : {wire::kDl16Nan, wire::kDl16Infinity, static_cast<wire::Dl16>(0xFFFE)}) {
    for (const bool in_row : {true, false}) {
      std::vector<wire::Dl16> row(64, kOne), panel(64, kOne);
      (in_row ? row : panel)[63] = bad;
      std::vector<float> sums(64, 1.0F);
      const auto plan = plan_of({&row}, sums);
      for (auto& each : plan->panel) each = reinterpret_cast<const std::byte*>(panel.data());
      EXPECT_FALSE(execute(*plan));
      EXPECT_EQ(sums, std::vector<float>(64, 1.0F));
      // Behind depth or lanes it takes no part.
      (in_row ? plan->request.depth : plan->request.lanes) = 63;
      EXPECT_TRUE(execute(*plan));
    }
  }
}

// ---- few rows -------------------------------------------------------------------------------------------------------

// Rows times a panel of `depth` sticks, and the sums.
class FewRows {
 public:
  FewRows(std::uint32_t rows, std::uint32_t depth, std::uint32_t lanes)
      : rows_(rows), depth_(depth), lanes_(lanes), row(rows, std::vector<wire::Dl16>(padded())), panel(depth * 64) {
    sums.assign(std::size_t{rows} * 64, 0.25F);
  }

  // Every number of rows and panel.
  template <typename Code>
  void fill(Code code) {
    for (auto& of_row : row) std::ranges::generate(of_row, code);
    std::ranges::generate(panel, code);
  }

  std::uint32_t execute() {
    const auto plan = std::make_unique<ChunkPlan>();
    plan->request = {};
    plan->request.rows = rows_;
    plan->request.depth = depth_;
    plan->request.lanes = lanes_;
    for (std::size_t i = 0; i < rows_; ++i) {
      for (std::size_t c = 0; c < padded() / 64; ++c) {
        plan->row[c * rows_ + i] = reinterpret_cast<const std::byte*>(&row[i][c * 64]);
      }
      for (std::size_t h = 0; h < 2; ++h) plan->sums[i][h] = reinterpret_cast<std::byte*>(&sums[(h * rows_ + i) * 32]);
    }
    for (std::size_t k = 0; k < depth_; ++k) plan->panel[k] = reinterpret_cast<const std::byte*>(&panel[k * 64]);
    return svp::array::execute(*plan);
  }

  // That of the first `done` positions.
  void expect_sums(std::uint32_t done) {
    for (std::uint32_t i = 0; i < rows_; ++i) {
      for (unsigned place = 0; place < 64; ++place) {
        const unsigned lane = wire::array::lane_of_sum(place / 32, place % 32);
        float wanted = 0.25F;
        for (std::uint32_t first = 0; lane < lanes_ && first < done; first += 64) {
          std::vector<wire::Dl16> a, b;
          for (std::uint32_t k = first; k < std::min(first + 64, done); ++k) {
            a.push_back(row[i][k]);
            b.push_back(panel[k * 64 + lane]);
          }
          wanted += expected(a, b);
        }
        ASSERT_EQ(sums[(place / 32 * rows_ + i) * 32 + place % 32], wanted) << "row " << i << ", lane " << lane;
      }
    }
  }

 private:
  std::size_t padded() const { return (depth_ + 63) / 64 * 64; }
  std::uint32_t rows_, depth_, lanes_;

 public:
  std::vector<std::vector<wire::Dl16>> row;
  std::vector<wire::Dl16> panel;
  std::vector<float> sums;
};

// Zeros among them.
auto codes_of(std::mt19937& random, unsigned binades) {
  return [&random, binades] {
    if (random() % 8 == 0) return static_cast<wire::Dl16>(random() % 2 * 0x8000);
    return static_cast<wire::Dl16>((random() & 0x81FF) | (31 - binades / 2 + random() % binades) << 9);
  };
}

TEST(FewRows, AddChunkAfterChunk) {
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  for (std::uint32_t rows = 1; rows <= wire::array::kFewRows; ++rows) {
    for (const std::uint32_t depth : {1u, 64u, 65u, 300u, wire::array::kMaxFewDepth}) {
      for (const std::uint32_t lanes : {64u, 33u, 1u}) {
        FewRows few(rows, depth, lanes);
        few.fill(codes_of(random, 12));
        ASSERT_EQ(few.execute(), depth);
        few.expect_sums(depth);
      }
    }
  }
}

TEST(FewRows, HoldEveryExponentOfARow) {
  for (unsigned exponent = 0; exponent < 64; ++exponent) {
    FewRows few(2, 128, 64);
    few.fill([] { return static_cast<wire::Dl16>(kOne | 0x8001); });
    for (auto& of_row : few.row) std::ranges::fill(of_row, static_cast<wire::Dl16>(exponent << 9 | 3));
    ASSERT_EQ(few.execute(), 128u);
    few.expect_sums(128);
  }
}

// Of the smallest exponent one number is zero; the others look like numbers that a double has not.
TEST(FewRows, HoldEveryExponentOfAPanel) {
  for (unsigned exponent = 0; exponent < 64; ++exponent) {
    FewRows few(1, 64, 64);
    few.fill([&] { return static_cast<wire::Dl16>(exponent << 9 | 5); });
    ASSERT_EQ(few.execute(), 64u);
    few.expect_sums(64);
  }
}

TEST(FewRows, EndInFrontOfAChunkThatTheyHaveNot) {
  std::mt19937 random(1);
  for (const wire::Dl16 bad : {wire::kDl16Nan, wire::kDl16Infinity, wire::Dl16{1}}) {
    for (const bool in_row : {true, false}) {
      if (in_row && bad == 1) continue;  // a number as good as others
      FewRows few(3, 200, 64);
      few.fill(codes_of(random, 10));
      (in_row ? few.row[1][130] : few.panel[130 * 64 + 7]) = bad;
      EXPECT_EQ(few.execute(), 128u);
      few.expect_sums(128);
    }
  }
}

// Whose row has no other exponent, so that none of the sums is wide.
TEST(FewRows, EndInFrontOfARowWithAnInfinity) {
  FewRows few(1, 128, 64);
  few.fill([] { return kOne; });
  std::ranges::fill(few.row[0], static_cast<wire::Dl16>(63 << 9));
  few.row[0][70] = wire::kDl16Infinity;
  EXPECT_EQ(few.execute(), 64u);
  few.expect_sums(64);
}

// Eight in each chunk: the third one would have more than the bound.
TEST(FewRows, HaveAsManyWideSumsAsTheBoundTogether) {
  FewRows few(1, 192, 64);
  few.fill([] { return kOne; });
  for (std::uint32_t c = 0; c < 3; ++c) {
    few.row[0][c * 64] = 56 << 9;
    for (unsigned lane = 0; lane < 8; ++lane) few.panel[(c * 64 + 1) * 64 + lane] = 20 << 9;
  }
  EXPECT_EQ(few.execute(), 128u);
  few.expect_sums(128);
}

TEST(FewRows, AreTheSameOnEveryTargetOfTheHost) {
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  unsigned targets = 0;
  svp::test::EachTarget().visit([&](const char* name) {
    SCOPED_TRACE(name);
    ++targets;
    for (std::uint32_t rows = 1; rows <= wire::array::kFewRows; ++rows) {
      FewRows few(rows, 100, 61);
      few.fill(codes_of(random, 12));
      ASSERT_EQ(few.execute(), 100u);
      few.expect_sums(100);
    }
  });
  EXPECT_GT(targets, 1u) << "every x86-64 has two";
}

// ---- FP8 ------------------------------------------------------------------------------------------------------------

// Numbers of rows and panel, and where they lie (docs/device-programs.md, MatMulFp8).
class Fp8Chunk {
 public:
  Fp8Chunk(std::uint32_t rows, std::uint32_t depth, std::uint32_t lanes, std::uint32_t half)
      : rows_(rows), depth_(depth), lanes_(lanes), half_(half), row_(rows * 128), panel_((depth + 1) / 2 * 128) {
    for (std::vector<std::uint8_t>* const codes : {&row_, &panel_}) std::ranges::fill(*codes, 0x7F);  // NaN
    sums.assign(std::size_t{rows} * 64, 0.5F);
    plan_->request = {};
    plan_->request.format = static_cast<std::uint32_t>(wire::program::Format::Fp8E4m3);
    plan_->request.rows = rows;
    plan_->request.depth = depth;
    plan_->request.lanes = lanes;
    plan_->request.half = half;
    for (std::size_t i = 0; i < rows; ++i) {
      plan_->row[i] = reinterpret_cast<const std::byte*>(&row_[i * 128]);
      for (std::size_t h = 0; h < 2; ++h) plan_->sums[i][h] = reinterpret_cast<std::byte*>(&sums[(h * rows + i) * 32]);
    }
    for (std::size_t k = 0; k < depth; k += 2)
      plan_->panel[k / 2] = reinterpret_cast<const std::byte*>(&panel_[k * 64]);
  }

  // All that takes part.
  template <typename Code>
  void fill(Code code) {
    for (std::uint32_t k = 0; k < depth_; ++k) {
      for (std::uint32_t i = 0; i < rows_; ++i) of_row(i, k) = code();
      for (std::uint32_t c = 0; c < lanes_; ++c) of_panel(k, c) = code();
    }
  }
  std::uint8_t& of_row(std::size_t i, std::size_t k) {
    return row_[i * 128 + k / 8 * 16 + std::size_t{half_} * 8 + k % 8];
  }
  std::uint8_t& of_panel(std::size_t k, std::size_t c) { return panel_[k / 2 * 128 + 2 * c + k % 2]; }
  bool execute() { return svp::array::execute(*plan_) != 0; }

  void expect_sums() {
    for (std::uint32_t i = 0; i < rows_; ++i) {
      for (unsigned place = 0; place < 64; ++place) {
        const unsigned c = wire::array::lane_of_sum(place / 32, place % 32);
        std::int64_t sum = 0;  // in units of 2^-18
        for (std::uint32_t k = 0; c < lanes_ && k < depth_; ++k) sum += units(of_row(i, k)) * units(of_panel(k, c));
        const float wanted = 0.5F + std::ldexp(static_cast<float>(sum), -18);
        ASSERT_EQ(sums[(place / 32 * rows_ + i) * 32 + place % 32], wanted) << "row " << i << ", column " << c;
      }
    }
  }

  std::vector<float> sums;

 private:
  static std::int64_t units(std::uint8_t code) {
    return std::llround(std::ldexp(svp::program::golden::value_of(wire::program::Format::Fp8E4m3, code), 9));
  }

  std::uint32_t rows_, depth_, lanes_, half_;
  std::vector<std::uint8_t> row_, panel_;
  std::unique_ptr<ChunkPlan> plan_ = std::make_unique<ChunkPlan>();
};

TEST(ChunkOfFp8, IsExactSumsRoundedOnceAndAdded) {
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  const auto any = [&] {
    const auto code = static_cast<std::uint8_t>(random());
    return static_cast<std::uint8_t>((code & 0x7F) == 0x7F ? 0 : code);
  };
  for (const std::uint32_t depth : {64u, 63u, 1u, 2u}) {
    for (const std::uint32_t lanes : {64u, 33u, 1u}) {
      for (const std::uint32_t half : {0u, 1u}) {
        Fp8Chunk chunk(wire::array::kMaxRows - half, depth, lanes, half);
        chunk.fill(any);
        ASSERT_TRUE(chunk.execute());
        chunk.expect_sums();
      }
    }
  }
}

TEST(ChunkOfFp8, HoldsTheLargestSumsAndTheSmallestNumbers) {
  for (const std::uint8_t small : {std::uint8_t{0x00}, std::uint8_t{0x01}, std::uint8_t{0x87}, std::uint8_t{0x08}}) {
    Fp8Chunk chunk(4, 64, 64, 0);
    chunk.fill([] { return std::uint8_t{0x7E}; });
    chunk.of_row(1, 63) = chunk.of_panel(63, 5) = small;
    ASSERT_TRUE(chunk.execute());
    chunk.expect_sums();
  }
}

TEST(ChunkOfFp8, WithANanIsRefusedAndNothingChanges) {
  for (const std::uint8_t nan : {std::uint8_t{0x7F}, std::uint8_t{0xFF}}) {
    for (const bool in_row : {true, false}) {
      Fp8Chunk chunk(2, 64, 64, 1);
      chunk.fill([] { return std::uint8_t{0x38}; });
      (in_row ? chunk.of_row(1, 63) : chunk.of_panel(63, 63)) = nan;
      EXPECT_FALSE(chunk.execute());
      EXPECT_EQ(chunk.sums, std::vector<float>(128, 0.5F));
    }
  }
}

}  // namespace
