// SPDX-License-Identifier: Apache-2.0
// The largest elements of lines, against a sort by the plain meaning of docs/device-programs.md.
#include "qemu/array/top_k.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "shared/array_merit.hpp"
#include "shared/device_program.hpp"
#include "shared/dl16.hpp"

namespace {

using svp::array::TopKPlan;
using wire::program::Format;

using Codes = std::vector<std::uint32_t>;

struct Shape {
  Format format;
  bool across;
  std::uint32_t rows;
  std::uint32_t sticks;
  std::uint32_t lanes;
  std::uint32_t ranks;
};

// Rows of elements with their lists. Behind each list and each row lies another one, so that lists which are written
// beyond their end change what is compared.
class TopK : public testing::Test {
 protected:
  static unsigned lanes_of(Format format) { return format == Format::Dl16 ? 64 : 32; }

  void make(const Shape& shape, auto&& code_of) {
    shape_ = shape;
    const unsigned lanes = lanes_of(shape.format);
    codes_.resize(std::size_t{shape.rows} * shape.sticks * lanes);
    for (std::size_t n = 0; n < codes_.size(); ++n) codes_[n] = code_of(n);
    bytes_.resize(codes_.size() * wire::kStickBytes / lanes);
    for (std::size_t n = 0; n < codes_.size(); ++n) {
      std::memcpy(&bytes_[n * wire::kStickBytes / lanes], &codes_[n], wire::kStickBytes / lanes);
    }
    merits_.assign(std::size_t{lines() * shape.ranks} + 16, kUntouched);
  }
  std::uint64_t lines() const { return std::uint64_t{shape_.rows} * (shape_.across ? shape_.lanes : 1); }
  std::uint32_t extent() const {
    return shape_.across ? shape_.sticks : (shape_.sticks - 1) * lanes_of(shape_.format) + shape_.lanes;
  }

  // Of sticks begin … end - 1 of rows first … last - 1. How many sticks of them are included.
  std::uint64_t include(std::uint32_t first, std::uint32_t last, std::uint32_t begin, std::uint32_t end) {
    const std::uint64_t lines_of_row = shape_.across ? shape_.lanes : 1;
    plan_->request = {};
    plan_->request.format = static_cast<std::uint32_t>(shape_.format);
    plan_->request.across = shape_.across ? 1 : 0;
    plan_->request.rows = last - first;
    plan_->request.sticks = end - begin;
    plan_->request.lanes = shape_.across || end == shape_.sticks ? shape_.lanes : lanes_of(shape_.format);
    plan_->request.ranks = shape_.ranks;
    plan_->request.first = begin * (shape_.across ? 1 : lanes_of(shape_.format));
    for (std::size_t i = first; i < last; ++i) {
      for (std::size_t n = begin; n < end; ++n) {
        plan_->stick[(i - first) * (end - begin) + n - begin] = &bytes_[(i * shape_.sticks + n) * wire::kStickBytes];
      }
    }
    auto* const lists = reinterpret_cast<std::byte*>(&merits_[first * lines_of_row * shape_.ranks]);
    for (std::size_t n = 0; n < plan_->list.size(); ++n) plan_->list[n] = lists + n * wire::kStickBytes;
    std::ranges::fill(plan_->merit, kOfAnother);
    return execute(*plan_);
  }
  // Until all is included.
  void include_all() {
    const std::uint64_t sticks = std::uint64_t{shape_.rows} * shape_.sticks;
    requests_ = 0;
    for (std::uint64_t done = 0; done < sticks; ++requests_) {
      const auto row = static_cast<std::uint32_t>(done / shape_.sticks);
      const auto begin = static_cast<std::uint32_t>(done % shape_.sticks);
      const std::uint64_t more = include(row, begin == 0 ? shape_.rows : row + 1, begin, shape_.sticks);
      ASSERT_GT(more, 0u);
      done += more;
    }
  }

  double number(std::uint32_t code) const {
    return shape_.format == Format::Dl16 ? static_cast<double>(wire::fp32_from_dl16(static_cast<wire::Dl16>(code)))
                                         : static_cast<double>(std::bit_cast<float>(code));
  }
  std::uint32_t code(std::uint64_t line, std::uint32_t index) const {
    const unsigned lanes = lanes_of(shape_.format);
    if (!shape_.across) return codes_[line * shape_.sticks * lanes + index];
    return codes_[(line / shape_.lanes * shape_.sticks + index) * lanes + line % shape_.lanes];
  }
  std::vector<std::uint32_t> expected(std::uint64_t line) const {
    std::vector<std::uint32_t> order(extent());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
      const double x = number(code(line, a)), y = number(code(line, b));
      if (std::isnan(x) != std::isnan(y)) return std::isnan(x);
      return std::isnan(x) || x == y ? a < b : x > y;
    });
    order.resize(std::min<std::size_t>(order.size(), shape_.ranks));
    return order;
  }
  void expect_best() const {
    for (std::uint64_t line = 0; line < lines(); ++line) {
      const std::vector<std::uint32_t> best = expected(line);
      for (std::size_t rank = 0; rank < best.size(); ++rank) {
        const std::uint64_t merit = merits_[line * shape_.ranks + rank];
        ASSERT_EQ(wire::array::index_of_merit(merit), best[rank]) << "line " << line << ", rank " << rank;
      }
      for (std::size_t rank = best.size(); rank < shape_.ranks; ++rank) {
        ASSERT_EQ(merits_[line * shape_.ranks + rank], kUntouched) << "line " << line << ", rank " << rank;
      }
    }
    for (std::size_t n = lines() * shape_.ranks; n < merits_.size(); ++n) ASSERT_EQ(merits_[n], kUntouched);
  }

  static constexpr std::uint64_t kUntouched = 0x2222222222222222, kOfAnother = 0xFFFFFFFF33333333;
  Shape shape_{};
  Codes codes_;
  std::vector<std::byte> bytes_;
  std::vector<std::uint64_t> merits_;
  std::unique_ptr<TopKPlan> plan_ = std::make_unique<TopKPlan>();
  unsigned requests_ = 0;
  std::mt19937 random_{static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed())};
};

constexpr Shape kShapes[] = {
    {Format::Dl16, false, 1, 5, 17, 7}, {Format::Dl16, false, 20, 3, 64, 50},  {Format::Fp32, false, 20, 3, 5, 128},
    {Format::Dl16, false, 64, 1, 1, 1}, {Format::Dl16, false, 1, 1, 3, 40},    {Format::Fp32, false, 1, 40, 32, 1024},
    {Format::Dl16, true, 1, 40, 64, 5}, {Format::Dl16, true, 3, 100, 10, 100}, {Format::Fp32, true, 2, 9, 32, 9},
    {Format::Fp32, true, 1, 3, 1, 8},   {Format::Dl16, true, 64, 2, 1, 1},
};

// Any code; few different ones; those around the two zeros, the infinities and NaN.
std::uint32_t any_code(Format format, std::uint64_t random, unsigned kind) {
  constexpr std::uint32_t kDl16[] = {0, 0x8000, 1, 0x8001, 0x7FFF, 0xFFFF, 0x7FFE, 0xFFFE, 0x7FFD, 0xFFFD};
  constexpr std::uint32_t kFp32[] = {0,          0x80000000, 1,          0x80000001, 0x7F800000,
                                     0xFF800000, 0x7FC00000, 0xFF800001, 0x7F7FFFFF, 0xFF7FFFFF};
  if (kind == 2) return format == Format::Dl16 ? kDl16[random % 10] : kFp32[random % 10];
  const auto code = static_cast<std::uint32_t>(random) & (format == Format::Dl16 ? 0xFFFFu : 0xFFFFFFFFu);
  return kind == 1 ? code & (format == Format::Dl16 ? 0xC300u : 0xC0C00000u) : code;
}

TEST_F(TopK, AreThoseOfASort) {
  for (const Shape& shape : kShapes) {
    for (unsigned kind = 0; kind < 3; ++kind) {
      SCOPED_TRACE(testing::Message() << "shape " << &shape - kShapes << ", kind " << kind);
      make(shape, [&](std::size_t) { return any_code(shape.format, random_(), kind); });
      include_all();
      expect_best();
    }
  }
}

TEST_F(TopK, AreTheSameWhereverALineIsCut) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << "shape " << &shape - kShapes);
    make(shape, [&](std::size_t) { return any_code(shape.format, random_(), 1); });
    for (std::uint32_t row = 0; row < shape.rows; ++row) {
      for (std::uint32_t begin = 0; begin < shape.sticks;) {
        const std::uint32_t end = std::min<std::uint32_t>(shape.sticks, begin + 1 + random_() % 4);
        begin += static_cast<std::uint32_t>(include(row, row + 1, begin, end));
      }
    }
    expect_best();
  }
}

// Each element is better than all before.
TEST_F(TopK, TakeSeveralRequestsWhereEveryElementIsInserted) {
  for (const bool across : {false, true}) {
    SCOPED_TRACE(across);
    const Shape shape{Format::Fp32, across, 1, 1024, 32, across ? 256u : 1024u};
    make(shape, [](std::size_t n) { return std::bit_cast<std::uint32_t>(static_cast<float>(n)); });
    include_all();
    expect_best();
    EXPECT_GT(requests_, 1u) << "a request is bounded by its work";
    make(shape, [](std::size_t n) { return std::bit_cast<std::uint32_t>(-static_cast<float>(n)); });
    include_all();
    expect_best();
  }
}

TEST_F(TopK, OfLinesThatAreSearchedInVainAreOneRequest) {
  make({Format::Dl16, false, 1, wire::array::kMaxLineSticks, 64, 64}, [](std::size_t) { return 0x3E00u; });
  include_all();
  expect_best();
  EXPECT_EQ(requests_, 1u);
}

// What the lists hold is no promise: words without any order.
TEST_F(TopK, StayInListsThatHaveNoOrder) {
  for (unsigned i = 0; i < 200; ++i) {
    const Shape shape = kShapes[i % std::size(kShapes)];
    make(shape, [&](std::size_t) { return any_code(shape.format, random_(), 0); });
    for (std::size_t n = 0; n < lines() * shape.ranks; ++n) merits_[n] = std::uint64_t{random_()} << 32 | random_();
    shape_.sticks += 1;  // the elements are those of a line that has begun before
    bytes_.resize(std::size_t{shape_.rows} * shape_.sticks * wire::kStickBytes);
    EXPECT_GT(include(0, shape_.rows, 1, shape_.sticks), 0u);
    for (std::size_t n = lines() * shape.ranks; n < merits_.size(); ++n) ASSERT_EQ(merits_[n], kUntouched);
  }
}

}  // namespace
