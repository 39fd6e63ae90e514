// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/golden/chunk_product.hpp"

#include <algorithm>
#include <cmath>

#include "shared/dl16.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host_driver/tensor/golden/chunk_product.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace svp::golden {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four vectors of columns at a time, so that the additions of one column do not wait for each other.
HWY_ATTR void accumulate(const ChunkStrip& strip, const ChunkPanel& panel, float* sums) {
  const hn::CappedTag<double, kBlockColumns / 4> d;
  const hn::Rebind<float, decltype(d)> f;
  const std::size_t lanes = hn::Lanes(d);
  const auto row_unit = hn::Set(d, strip.unit);
  const auto finish = [&](auto sum, std::size_t column) HWY_ATTR {
    const auto unit = hn::Mul(row_unit, hn::Load(d, panel.unit + column));
    const auto rounded = hn::DemoteTo(f, hn::Mul(sum, unit));
    hn::StoreU(hn::Add(hn::LoadU(f, sums + column), rounded), f, sums + column);
  };
  for (std::size_t column = 0; column < kBlockColumns; column += 4 * lanes) {
    auto s0 = hn::Zero(d);
    auto s1 = s0;
    auto s2 = s0;
    auto s3 = s0;
    for (std::size_t i = 0; i < kChunk; ++i) {
      const auto x = hn::Set(d, strip.value[i]);
      const double* row = panel.value[i] + column;
      s0 = hn::MulAdd(x, hn::Load(d, row), s0);
      s1 = hn::MulAdd(x, hn::Load(d, row + lanes), s1);
      s2 = hn::MulAdd(x, hn::Load(d, row + 2 * lanes), s2);
      s3 = hn::MulAdd(x, hn::Load(d, row + 3 * lanes), s3);
    }
    finish(s0, column);
    finish(s1, column + lanes);
    finish(s2, column + 2 * lanes);
    finish(s3, column + 3 * lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace svp::golden
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace svp::golden {
namespace {

HWY_EXPORT(accumulate);

// Smallest and largest exponent among the non-zero elements seen.
struct ExponentRange {
  int low = 64;
  int high = -1;
  void include(wire::Dl16Parts parts) {
    if (parts.significand == 0) return;
    low = std::min(low, parts.exponent);
    high = std::max(high, parts.exponent);
  }
  int spread() const { return high < 0 ? 0 : high - low; }
  double unit() const { return high < 0 ? 1.0 : std::ldexp(1.0, low + wire::kDl16UnitExponent); }
};

wire::Dl16Parts finite_parts(std::uint16_t bits) {
  return wire::dl16_is_finite(bits) ? wire::dl16_parts(bits) : wire::Dl16Parts{0, 0};
}

double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52); }

double in_units(wire::Dl16Parts parts, int low) {
  return parts.significand == 0 ? 0.0 : parts.significand * power_of_two(parts.exponent - low);
}

}  // namespace

void ChunkStrip::load(std::span<const std::uint16_t> elements) {
  ExponentRange range;
  for (const std::uint16_t bits : elements) range.include(finite_parts(bits));
  for (std::size_t i = 0; i < kChunk; ++i) {
    value[i] = i < elements.size() ? in_units(finite_parts(elements[i]), range.low) : 0.0;
  }
  unit = range.unit();
  spread = range.spread();
}

void ChunkPanel::load(std::span<const std::uint16_t> b, std::size_t row_length, std::size_t first_column,
                      std::size_t columns, std::size_t first_row, std::size_t end_row) {
  ExponentRange range[kBlockColumns];
  for (std::size_t row = first_row; row < end_row; ++row) {
    const auto line = b.subspan(row * row_length + first_column, columns);
    for (std::size_t j = 0; j < columns; ++j) range[j].include(finite_parts(line[j]));
  }
  for (std::size_t i = 0; i < kChunk; ++i) {
    const bool inside = first_row + i < end_row;
    for (std::size_t j = 0; j < kBlockColumns; ++j) {
      value[i][j] = inside && j < columns
                        ? in_units(finite_parts(b[(first_row + i) * row_length + first_column + j]), range[j].low)
                        : 0.0;
    }
  }
  largest_spread = 0;
  for (std::size_t j = 0; j < kBlockColumns; ++j) {
    unit[j] = range[j].unit();
    spread[j] = range[j].spread();
    largest_spread = std::max(largest_spread, spread[j]);
  }
}

void accumulate_chunk(const ChunkStrip& strip, const ChunkPanel& panel, float* sums) {
  HWY_DYNAMIC_DISPATCH(accumulate)(strip, panel, sums);
}

}  // namespace svp::golden
#endif  // HWY_ONCE
