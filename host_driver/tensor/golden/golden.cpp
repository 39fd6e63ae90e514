// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/golden/golden.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/tensor/golden/chunk_product.hpp"
#include "host_driver/tensor/golden/wide_sum.hpp"
#include "shared/dl16.hpp"

namespace svp::golden {
namespace {

using Patterns = std::span<const std::uint16_t>;

void require(const char* what, std::size_t have, std::size_t rows, std::size_t columns) {
  if (have == rows * columns) return;
  throw InvalidArgument(what,
                        std::string("golden model: ") + what + " has " + std::to_string(have) +
                            " elements, its shape [" + std::to_string(rows) + ", " + std::to_string(columns) +
                            "] needs " + std::to_string(rows * columns),
                        "give every element of its shape, and no more");
}

void require_product(Patterns a, Patterns b, std::span<std::uint16_t> c, std::size_t m, std::size_t n, std::size_t k) {
  require("A", a.size(), m, k);
  require("B", b.size(), k, n);
  require("C", c.size(), m, n);
}

float wide_chunk(Patterns a, Patterns b, std::size_t n, std::size_t k, std::size_t row, std::size_t column,
                 std::size_t begin, std::size_t end) {
  WideSum sum;
  for (std::size_t i = begin; i < end; ++i) sum.add_product(a[row * k + i], b[i * n + column]);
  return sum.to_fp32();
}

// Where the product is NaN: a row or a column that holds a NaN or an infinity.
struct NanMap {
  NanMap(Patterns a, Patterns b, std::size_t m, std::size_t n, std::size_t k) : rows(m), columns(n) {
    for (std::size_t i = 0; i < m * k; ++i) {
      if (!wire::dl16_is_finite(a[i])) rows[i / k] = true;
    }
    for (std::size_t i = 0; i < k * n; ++i) {
      if (!wire::dl16_is_finite(b[i])) columns[i % n] = true;
    }
  }
  std::vector<bool> rows;
  std::vector<bool> columns;
};

// One column block of the product, all rows.
class ColumnBlock {
 public:
  ColumnBlock(Patterns a, Patterns b, std::size_t m, std::size_t n, std::size_t k, std::size_t first_column)
      : a_(a),
        b_(b),
        m_(m),
        n_(n),
        k_(k),
        first_(first_column),
        width_(std::min(kBlockColumns, n - first_column)),
        sums_(m * kBlockColumns, 0.0f) {}

  void add_chunk(std::size_t begin, std::size_t end) {
    panel_.load(b_, n_, first_, width_, begin, end);
    for (std::size_t row = 0; row < m_; ++row) {
      strip_.load(a_.subspan(row * k_ + begin, end - begin));
      float* sums = &sums_[row * kBlockColumns];
      if (strip_.spread + panel_.largest_spread <= kExactSpread) {
        accumulate_chunk(strip_, panel_, sums);
      } else {
        add_checked(row, begin, end, sums);
      }
    }
  }

  void store(std::span<std::uint16_t> c, const NanMap& nan) const {
    for (std::size_t row = 0; row < m_; ++row) {
      for (std::size_t i = 0; i < width_; ++i) {
        const bool is_nan = nan.rows[row] || nan.columns[first_ + i];
        c[row * n_ + first_ + i] = is_nan ? wire::kDl16Nan : wire::dl16_from_fp32(sums_[row * kBlockColumns + i]);
      }
    }
  }

 private:
  // Some columns spread too far for this row: those take the wide path, the others keep the quick result.
  void add_checked(std::size_t row, std::size_t begin, std::size_t end, float* sums) {
    float before[kBlockColumns];
    std::copy_n(sums, kBlockColumns, before);
    accumulate_chunk(strip_, panel_, sums);
    for (std::size_t i = 0; i < width_; ++i) {
      if (strip_.spread + panel_.spread[i] <= kExactSpread) continue;
      sums[i] = before[i] + wide_chunk(a_, b_, n_, k_, row, first_ + i, begin, end);
    }
  }

  Patterns a_;
  Patterns b_;
  std::size_t m_, n_, k_;
  std::size_t first_, width_;
  std::vector<float> sums_;
  ChunkPanel panel_;
  ChunkStrip strip_;
};

}  // namespace

void matmul_dl16(Patterns a, Patterns b, std::span<std::uint16_t> c, std::size_t m, std::size_t n, std::size_t k) {
  require_product(a, b, c, m, n, k);
  const NanMap nan(a, b, m, n, k);
  for (std::size_t first = 0; first < n; first += kBlockColumns) {
    ColumnBlock block(a, b, m, n, k, first);
    for (std::size_t begin = 0; begin < k; begin += kChunk) block.add_chunk(begin, std::min(begin + kChunk, k));
    block.store(c, nan);
  }
}

void matmul_dl16_wide(Patterns a, Patterns b, std::span<std::uint16_t> c, std::size_t m, std::size_t n, std::size_t k) {
  require_product(a, b, c, m, n, k);
  const NanMap nan(a, b, m, n, k);
  for (std::size_t row = 0; row < m; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      float sum = 0;
      for (std::size_t begin = 0; begin < k; begin += kChunk) {
        sum += wide_chunk(a, b, n, k, row, column, begin, std::min(begin + kChunk, k));
      }
      c[row * n + column] = nan.rows[row] || nan.columns[column] ? wire::kDl16Nan : wire::dl16_from_fp32(sum);
    }
  }
}

void add_dl16(Patterns a, Patterns b, std::span<std::uint16_t> c) {
  require("B", b.size(), 1, a.size());
  require("C", c.size(), 1, a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float sum = wire::fp32_from_dl16(a[i]) + wire::fp32_from_dl16(b[i]);
    c[i] = std::isnan(sum) ? wire::kDl16Nan : wire::dl16_from_fp32(sum);
  }
}

}  // namespace svp::golden
