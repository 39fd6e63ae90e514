// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// The products of one chunk. A sum of 64 products of ten-bit integers is exact in a double while the exponents of row
// and column spread over no more than 27 binades together. Rows with a wider spread are split into their larger and
// their smaller numbers, which have a sum each. Up to kMaxWideSums others are summed by integers. Products of FP8 are
// integers of 36 bits times 2^-18: a double holds all their sums.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "qemu/array/chunk.hpp"
#include "qemu/array/chunk_numbers.hpp"
#include "qemu/array/chunk_sum.hpp"
#include "qemu/array/exact_pair.hpp"
#include "qemu/array/few_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qemu/array/chunk_product.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "qemu/array/code_doubles-inl.hpp"

#ifndef SPYRE_QEMU_ARRAY_CHUNK_PRODUCT
#define SPYRE_QEMU_ARRAY_CHUNK_PRODUCT
namespace svp::array {

inline constexpr unsigned kDoubleExponentOfZero = 1023 - 31;  // of a DL16's exponent 0

// Lanes that are multiplied together: 8 KiB, which stay in the first-level cache while the rows pass by.
inline constexpr unsigned kPartLanes = 16;
inline constexpr unsigned kParts = kChunkLanes / kPartLanes;
using PanelPart = double[wire::array::kMaxDepth][kPartLanes];

// Operands as doubles, and sums; lanes stand in their order.
struct alignas(64) ChunkNumbers {
  double row[wire::array::kMaxRows][kChunkLanes];
  PanelPart panel[kParts];
  double sum[wire::array::kMaxRows][kChunkLanes];
  double low[wire::array::kMaxRows][kChunkLanes];  // the smaller numbers of the rows that were split
  double low_sum[wire::array::kMaxRows][kChunkLanes];
  Spread of_row[wire::array::kMaxRows];
  Spread of_lane[kChunkLanes];  // likewise
};
using Operand = double[kChunkLanes];

inline unsigned first_depth(const ChunkPlan& plan) { return std::min(plan.request.depth, wire::array::kMaxDepth); }

// Magnitudes of the smaller numbers of a row that was split; zeros take no part.
struct LowSpread {
  double smallest;
  double largest;
};

}  // namespace svp::array
#endif

HWY_BEFORE_NAMESPACE();
namespace svp::array {
namespace HWY_NAMESPACE {

// ---- DL16 -----------------------------------------------------------------------------------------------------------

// Sign and magnitude of a block of codes move to their places in the upper words of doubles, which get the exponent
// that DL16's lacks; zeros stay zeros. Vectors of 16 bytes: larger ones would leave the numbers in another order.
HWY_INLINE void put_numbers(const std::uint16_t* code, double* number) {
  constexpr hn::FixedTag<std::uint16_t, kBlockLanes> codes;
  constexpr hn::RepartitionToWide<decltype(codes)> words;
  constexpr hn::RepartitionToWide<hn::RebindToFloat<decltype(words)>> doubles;
  const auto none = hn::Zero(codes);
  const auto all = hn::LoadU(codes, code);
  const auto is_zero = hn::Eq(hn::And(all, hn::Set(codes, wire::kDl16MagnitudeBits)), none);
  const auto exponent = hn::IfThenZeroElse(is_zero, hn::Set(codes, kDoubleExponentOfZero << 4));
  const auto put = [&](auto high, auto high_exponent, double* to) {
    const auto upper = hn::Add(upper_words(words, high), hn::BitCast(words, high_exponent));
    const auto lower = hn::Zero(words);
    hn::Store(hn::BitCast(doubles, hn::InterleaveLower(words, lower, upper)), doubles, to);
    hn::Store(hn::BitCast(doubles, hn::InterleaveUpper(words, lower, upper)), doubles, to + 2);
  };
  put(hn::InterleaveLower(codes, none, all), hn::InterleaveLower(codes, none, exponent), number);
  put(hn::InterleaveUpper(codes, none, all), hn::InterleaveUpper(codes, none, exponent), number + 4);
}

// Of the first chunk. False: a number is not finite.
static bool load_rows(const ChunkPlan& plan, ChunkNumbers& numbers) {
  const unsigned depth = first_depth(plan);
  std::uint16_t largest = 0;
  for (unsigned i = 0; i < plan.request.rows; ++i) {
    std::uint16_t code[kChunkLanes];
    std::memcpy(code, plan.row[i], sizeof code);
    std::fill(code + depth, code + kChunkLanes, std::uint16_t{0});
    Spread spread;
    for (const std::uint16_t c : code) spread.include(c);
    for (unsigned k = 0; k < kChunkLanes; k += kBlockLanes) put_numbers(code + k, numbers.row[i] + k);
    numbers.of_row[i] = spread;
    largest = std::max(largest, spread.largest);
  }
  return largest <= wire::kDl16Max;
}

HWY_INLINE double& panel_number(ChunkNumbers& numbers, unsigned k, unsigned c) {
  return numbers.panel[c / kPartLanes][k][c % kPartLanes];
}

static bool load_panel(const ChunkPlan& plan, ChunkNumbers& numbers) {
  std::uint16_t below_smallest[kChunkLanes];
  std::uint16_t largest[kChunkLanes];
  std::fill_n(below_smallest, kChunkLanes, std::uint16_t{0xFFFF});
  std::fill_n(largest, kChunkLanes, std::uint16_t{0});
  for (unsigned k = 0; k < first_depth(plan); ++k) {
    std::uint16_t code[kChunkLanes];
    std::memcpy(code, plan.panel[k], sizeof code);
    std::fill(code + plan.request.lanes, code + kChunkLanes, std::uint16_t{0});
    for (unsigned c = 0; c < kChunkLanes; ++c) {
      const auto magnitude = static_cast<std::uint16_t>(code[c] & wire::kDl16MagnitudeBits);
      below_smallest[c] = std::min(below_smallest[c], static_cast<std::uint16_t>(magnitude - 1));
      largest[c] = std::max(largest[c], magnitude);
    }
    for (unsigned c = 0; c < kChunkLanes; c += kBlockLanes) put_numbers(code + c, &panel_number(numbers, k, c));
  }
  for (unsigned c = 0; c < kChunkLanes; ++c) numbers.of_lane[c] = {below_smallest[c], largest[c]};
  return *std::max_element(largest, largest + kChunkLanes) <= wire::kDl16Max;
}

// ---- FP8_E4M3 -------------------------------------------------------------------------------------------------------

inline constexpr std::uint8_t kFp8Magnitude = 0x7F;
inline constexpr std::uint8_t kFp8Nan = 0x7F;  // all larger magnitudes; there is no infinity
inline constexpr std::uint64_t kDoubleExponentOfFp8 = 1023 - 7;

HWY_INLINE double number_of_fp8(std::uint8_t code) {
  const std::uint64_t magnitude = code & kFp8Magnitude;
  const std::uint64_t normal = (magnitude << 49) + (kDoubleExponentOfFp8 << 52);
  const auto subnormal =
      std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int32_t>(magnitude)) * 0x1p-9);
  const std::uint64_t bits = magnitude < 8 ? subnormal : normal;
  return std::bit_cast<double>(bits | static_cast<std::uint64_t>(code & 0x80) << 56);
}

// Spreads stay those of zeros: there is nothing to split. False: a number is not finite.
static bool load_fp8_rows(const ChunkPlan& plan, ChunkNumbers& numbers) {
  std::uint8_t largest = 0;
  for (unsigned i = 0; i < plan.request.rows; ++i) {
    std::uint8_t code[kChunkLanes];
    for (unsigned k = 0; k < kChunkLanes; k += 8) {
      std::memcpy(code + k, plan.row[i] + 2 * k + std::size_t{8} * plan.request.half, 8);
    }
    std::fill(code + plan.request.depth, code + kChunkLanes, std::uint8_t{0});
    for (const std::uint8_t c : code) largest = std::max(largest, static_cast<std::uint8_t>(c & kFp8Magnitude));
    for (unsigned k = 0; k < kChunkLanes; ++k) numbers.row[i][k] = number_of_fp8(code[k]);
    numbers.of_row[i] = {};
  }
  return largest < kFp8Nan;
}

static bool load_fp8_panel(const ChunkPlan& plan, ChunkNumbers& numbers) {
  std::uint8_t largest = 0;
  for (unsigned k = 0; k < plan.request.depth; ++k) {
    std::uint8_t pair[2 * kChunkLanes];
    std::memcpy(pair, plan.panel[k / 2], sizeof pair);
    std::uint8_t code[kChunkLanes];
    for (unsigned c = 0; c < kChunkLanes; ++c) code[c] = pair[2 * c + k % 2];
    std::fill(code + plan.request.lanes, code + kChunkLanes, std::uint8_t{0});
    for (const std::uint8_t c : code) largest = std::max(largest, static_cast<std::uint8_t>(c & kFp8Magnitude));
    for (unsigned c = 0; c < kChunkLanes; ++c) panel_number(numbers, k, c) = number_of_fp8(code[c]);
  }
  std::fill_n(numbers.of_lane, kChunkLanes, Spread{});
  return largest < kFp8Nan;
}

// ---- products -------------------------------------------------------------------------------------------------------

// Four rows at a time, two vectors of lanes: eight sums that do not wait for each other.
HWY_ATTR void multiply_part(unsigned rows, unsigned depth, const Operand* left, const PanelPart& panel, Operand* sum,
                            std::size_t first) {
  const hn::CappedTag<double, kPartLanes / 2> d;
  const std::size_t lanes = hn::Lanes(d);
  for (unsigned row = 0; row < rows; row += 4) {
    const double* const a[4] = {left[row], left[row + 1], left[row + 2], left[row + 3]};
    for (std::size_t c = 0; c < kPartLanes; c += 2 * lanes) {
      auto s00 = hn::Zero(d), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00;
      for (unsigned k = 0; k < depth; ++k) {
        const auto b0 = hn::Load(d, panel[k] + c);
        const auto b1 = hn::Load(d, panel[k] + c + lanes);
        const auto x0 = hn::Set(d, a[0][k]), x1 = hn::Set(d, a[1][k]), x2 = hn::Set(d, a[2][k]),
                   x3 = hn::Set(d, a[3][k]);
        s00 = hn::MulAdd(x0, b0, s00), s01 = hn::MulAdd(x0, b1, s01);
        s10 = hn::MulAdd(x1, b0, s10), s11 = hn::MulAdd(x1, b1, s11);
        s20 = hn::MulAdd(x2, b0, s20), s21 = hn::MulAdd(x2, b1, s21);
        s30 = hn::MulAdd(x3, b0, s30), s31 = hn::MulAdd(x3, b1, s31);
      }
      const std::size_t to = first + c;
      hn::Store(s00, d, sum[row] + to), hn::Store(s01, d, sum[row] + to + lanes);
      hn::Store(s10, d, sum[row + 1] + to), hn::Store(s11, d, sum[row + 1] + to + lanes);
      hn::Store(s20, d, sum[row + 2] + to), hn::Store(s21, d, sum[row + 2] + to + lanes);
      hn::Store(s30, d, sum[row + 3] + to), hn::Store(s31, d, sum[row + 3] + to + lanes);
    }
  }
}

void multiply(unsigned rows, unsigned depth, const Operand* left, const PanelPart* panel, Operand* sum) {
  for (unsigned part = 0; part < kParts; ++part) {
    multiply_part(rows, depth, left, panel[part], sum, std::size_t{part} * kPartLanes);
  }
}

// What lies below `cut` goes from the row into `low`. `spread` becomes that of what went.
void split_row(double cut, double* row, double* low, LowSpread& spread) {
  double smallest = cut;
  double largest = 0;
  for (unsigned k = 0; k < kChunkLanes; ++k) {
    const double magnitude = row[k] < 0 ? -row[k] : row[k];
    const bool goes = magnitude < cut;
    low[k] = goes ? row[k] : 0;
    row[k] = goes ? 0 : row[k];
    const double of_smallest = goes && magnitude != 0 ? magnitude : cut;
    const double of_largest = goes ? magnitude : 0;
    smallest = smallest < of_smallest ? smallest : of_smallest;
    largest = largest > of_largest ? largest : of_largest;
  }
  spread = {smallest, largest};
}

void round_row(const double* sum, float* chunk) {
  for (unsigned c = 0; c < kChunkLanes; ++c) chunk[c] = static_cast<float>(sum[c]);
}
void round_split_row(const double* sum, const double* low, float* chunk) {
  for (unsigned c = 0; c < kChunkLanes; ++c) chunk[c] = rounded_once(sum[c], low[c]);
}

// Adds the chunk's sums of a row to those that the launch has: of four lanes in a row the second and the fourth go to
// the second half, the third and the fourth 16 places further.
HWY_ATTR void add_row(const ChunkPlan& plan, unsigned row, const float* chunk) {
  const hn::CappedTag<float, kHalf / 2> d;
  const auto add = [&](unsigned half, std::size_t place, auto more) {
    auto* const sum = reinterpret_cast<float*>(plan.sums[row][half]) + place;
    hn::StoreU(hn::Add(hn::LoadU(d, sum), more), d, sum);
  };
  for (std::size_t place = 0; place < kHalf / 2; place += hn::Lanes(d)) {
    hn::VFromD<decltype(d)> first, second, third, fourth;
    hn::LoadInterleaved4(d, chunk + 4 * place, first, second, third, fourth);
    add(0, place, first), add(1, place, second);
    add(0, kHalf / 2 + place, third), add(1, kHalf / 2 + place, fourth);
  }
}
static_assert(wire::array::lane_of_sum(1, 0) == 1 && wire::array::lane_of_sum(0, kHalf / 2) == 2 &&
              wire::array::lane_of_sum(0, 1) == 4);

// False: a number is not finite.
bool load(const ChunkPlan& plan, ChunkNumbers& numbers) {
  if (!is_dl16(plan.request)) {
    const bool fp8_rows = load_fp8_rows(plan, numbers);
    return load_fp8_panel(plan, numbers) && fp8_rows;
  }
  const bool rows = load_rows(plan, numbers);
  return load_panel(plan, numbers) && rows;
}

}  // namespace HWY_NAMESPACE
}  // namespace svp::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace svp::array {
namespace {

HWY_EXPORT(load);
HWY_EXPORT(multiply);
HWY_EXPORT(split_row);
HWY_EXPORT(round_row);
HWY_EXPORT(round_split_row);
HWY_EXPORT(add_row);

// The rows that were split, and the sums that are wide nevertheless.
class Bands {
 public:
  Bands(const ChunkPlan& plan, ChunkNumbers& numbers) : plan_(plan), numbers_(numbers) {
    for (const Spread& lane : numbers.of_lane) widest_ = std::max(widest_, lane.binades());
    for (unsigned row = 0; row < plan.request.rows; ++row) {
      low_of_[row] = kNone;
      const unsigned binades = numbers.of_row[row].binades();
      widths_[row] = binades;
      if (binades + widest_ > kExactBinades && widest_ <= kExactBinades) split(row);
    }
  }

  unsigned low_rows() const { return low_rows_; }

  // False: more sums than the bound are wide.
  bool find_wide() {
    for (unsigned row = 0; row < plan_.request.rows; ++row) {
      if (widths_[row] + widest_ <= kExactBinades) continue;
      for (unsigned c = 0; c < kChunkLanes; ++c) {
        const Spread& lane = numbers_.of_lane[c];
        if (lane.largest == 0 || widths_[row] + lane.binades() <= kExactBinades) continue;
        if (count_ == wide_.size()) return false;
        wide_[count_++] = {static_cast<std::uint8_t>(row), static_cast<std::uint8_t>(c)};
      }
    }
    return true;
  }

  // Of the rows one after the other.
  void round(unsigned row, float* chunk) {
    if (low_of_[row] == kNone) {
      HWY_DYNAMIC_DISPATCH(round_row)(numbers_.sum[row], chunk);
    } else {
      HWY_DYNAMIC_DISPATCH(round_split_row)(numbers_.sum[row], numbers_.low_sum[low_of_[row]], chunk);
    }
    for (; next_ < count_ && wide_[next_].row == row; ++next_) {
      const std::uint8_t lane = wide_[next_].lane;
      chunk[lane] = exact_sum(first_depth(plan_), plan_.row[row], plan_.panel.data(), lane);
    }
  }

 private:
  struct Sum {
    std::uint8_t row;
    std::uint8_t lane;
  };
  static constexpr std::uint8_t kNone = 0xFF;
  static_assert(wire::array::kMaxRows < kNone);

  static unsigned exponent(double number) {
    return static_cast<unsigned>(std::bit_cast<std::uint64_t>(number) >> 52) - kDoubleExponentOfZero;
  }

  // Numbers whose exponents lie more than `kept` binades below the row's largest have a sum of their own.
  void split(unsigned row) {
    const unsigned kept = kExactBinades - widest_;
    const std::uint64_t cut = (numbers_.of_row[row].largest >> wire::kDl16FractionBits) - kept + kDoubleExponentOfZero;
    LowSpread spread;
    HWY_DYNAMIC_DISPATCH(split_row)
    (std::bit_cast<double>(cut << 52), numbers_.row[row], numbers_.low[low_rows_], spread);
    widths_[row] = std::max(kept, exponent(spread.largest) - exponent(spread.smallest));
    low_of_[row] = static_cast<std::uint8_t>(low_rows_++);
  }

  const ChunkPlan& plan_;
  ChunkNumbers& numbers_;
  unsigned widest_ = 0;
  std::array<std::uint8_t, wire::array::kMaxRows> low_of_;
  std::array<unsigned, wire::array::kMaxRows> widths_;  // of a split row, of its wider part
  unsigned low_rows_ = 0;
  unsigned count_ = 0;
  unsigned next_ = 0;
  std::array<Sum, wire::array::kMaxWideSums> wide_;
};

}  // namespace

std::uint32_t execute(const ChunkPlan& plan) {
  if (is_dl16(plan.request) && plan.request.rows <= wire::array::kFewRows) {
    if (const std::uint32_t done = multiply_few_rows(plan); done != 0) return done;
  }
  static thread_local ChunkNumbers numbers;
  if (!HWY_DYNAMIC_DISPATCH(load)(plan, numbers)) return 0;
  Bands bands(plan, numbers);
  if (!bands.find_wide()) return 0;
  const unsigned depth = first_depth(plan);
  const auto multiply = HWY_DYNAMIC_DISPATCH(multiply);
  multiply(plan.request.rows, depth, numbers.row, numbers.panel, numbers.sum);
  multiply(bands.low_rows(), depth, numbers.low, numbers.panel, numbers.low_sum);
  for (unsigned row = 0; row < plan.request.rows; ++row) {
    alignas(64) float chunk[kChunkLanes];
    bands.round(row, chunk);
    HWY_DYNAMIC_DISPATCH(add_row)(plan, row, chunk);
  }
  return depth;
}

}  // namespace svp::array
#endif
