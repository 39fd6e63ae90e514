// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/few_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "qemu/array/chunk_numbers.hpp"
#include "qemu/array/chunk_sum.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qemu/array/few_rows.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "qemu/array/code_doubles-inl.hpp"
#include "qemu/array/lane_numbers-inl.hpp"

#ifndef SPYRE_QEMU_ARRAY_FEW_ROWS
#define SPYRE_QEMU_ARRAY_FEW_ROWS
namespace svp::array {

// A double whose exponent still has a DL16's bias is the number times 2^(31 - 1023). No product may overflow, so a part
// of the factor that is missing goes into the rows, and the rest into the sums.
inline constexpr double kRowScale = 0x1p960;
inline constexpr double kSumScale = 0x1p32;
static_assert(kRowScale * kSumScale == 0x1p992);
// Codes below it, but for zero, would be subnormal doubles, which are other numbers.
inline constexpr std::uint16_t kSmallestCode = 1 << wire::kDl16FractionBits;

// One chunk of the rows, and its sums; lanes stand in their order. Rows that the request has not are zeros.
struct FewRows {
  alignas(64) double number[wire::array::kFewRows][kChunkLanes];
  alignas(64) double sum[wire::array::kFewRows][kChunkLanes];
  alignas(64) std::uint16_t counted[kChunkLanes];  // all bits of the lanes that take part
  alignas(64) std::uint16_t below_smallest[kChunkLanes];
  alignas(64) std::uint16_t largest[kChunkLanes];
  Spread of_row[wire::array::kFewRows];
};

struct PanelSpread {
  Spread all;
  unsigned widest_lane = 0;  // binades
};

}  // namespace svp::array
#endif

HWY_BEFORE_NAMESPACE();
namespace svp::array {
namespace HWY_NAMESPACE {

// The sums of the first kRows rows, for one vector of lanes from `lane` on, of kParts parts from kFirst on; and the
// spreads of these lanes.
template <unsigned kRows, unsigned kFirst, unsigned kParts>
HWY_ATTR void multiply_lanes(const std::byte* const* panel, unsigned depth, std::size_t lane, FewRows& few) {
  constexpr CodeTag codes;
  constexpr DoubleTag d;
  const CodeVector counted = hn::Load(codes, few.counted + lane);
  const CodeVector magnitudes = hn::Set(codes, wire::kDl16MagnitudeBits);
  const CodeVector one = hn::Set(codes, 1);
  CodeVector below_smallest = hn::Set(codes, 0xFFFF);
  CodeVector largest = hn::Zero(codes);
  DoubleVector sum[kRows][kParts];
  for (auto& of_row : sum) {
    for (DoubleVector& part : of_row) part = hn::Zero(d);
  }
  for (unsigned k = 0; k < depth; ++k) {
    const auto* const from = reinterpret_cast<const std::uint16_t*>(panel[k]) + lane;
    const CodeVector code = hn::And(hn::LoadU(codes, from), counted);
    const CodeVector magnitude = hn::And(code, magnitudes);
    below_smallest = hn::Min(below_smallest, hn::Sub(magnitude, one));
    largest = hn::Max(largest, magnitude);
    DoubleVector part[kParts];
    part[0] = part_of<kFirst>(code);
    part[1] = part_of<kFirst + 1>(code);
    if constexpr (kParts == kAllParts) part[2] = part_of<2>(code), part[3] = part_of<3>(code);
    for (unsigned r = 0; r < kRows; ++r) {
      const DoubleVector factor = hn::Set(d, few.number[r][k]);
      for (unsigned i = 0; i < kParts; ++i) sum[r][i] = hn::MulAdd(factor, part[i], sum[r][i]);
    }
  }
  hn::Store(below_smallest, codes, few.below_smallest + lane);
  hn::Store(largest, codes, few.largest + lane);
  alignas(64) double in_parts[HWY_MAX_BYTES / sizeof(double)];
  for (unsigned r = 0; r < kRows; ++r) {
    for (unsigned i = 0; i < kParts; ++i) {
      hn::Store(sum[r][i], d, in_parts);
      double* const to = few.sum[r] + lane + 2 * (kFirst + i);
      for (std::size_t n = 0; n < hn::Lanes(d); ++n) to[n / 2 * kBlockLanes + n % 2] = in_parts[n] * kSumScale;
    }
  }
}

void multiply_chunk(const std::byte* const* panel, unsigned depth, unsigned rows, FewRows& few) {
  for (std::size_t lane = 0; lane < kChunkLanes; lane += hn::Lanes(CodeTag())) {
    switch (rows) {
      case 1: multiply_lanes<1, 0, kAllParts>(panel, depth, lane, few); break;
      case 2: multiply_lanes<2, 0, kAllParts>(panel, depth, lane, few); break;
      default:  // their sums would not fit the registers of AVX2
        multiply_lanes<4, 0, kAllParts / 2>(panel, depth, lane, few);
        multiply_lanes<4, 2, kAllParts / 2>(panel, depth, lane, few);
        break;
    }
  }
}

void load_few_row(const std::byte* stick, unsigned depth, unsigned row, FewRows& few) {
  std::uint16_t code[kChunkLanes];
  std::memcpy(code, stick, sizeof code);
  std::fill(code + depth, code + kChunkLanes, std::uint16_t{0});
  Spread spread;
  for (const std::uint16_t c : code) spread.include(c);
  few.of_row[row] = spread;
  for (unsigned k = 0; k < kChunkLanes; ++k)
    few.number[row][k] = static_cast<double>(Dl16::number(code[k])) * kRowScale;
}

PanelSpread panel_spread(const FewRows& few) {
  PanelSpread spread;
  for (unsigned c = 0; c < kChunkLanes; ++c) {
    const Spread lane{few.below_smallest[c], few.largest[c]};
    spread.all.below_smallest = std::min(spread.all.below_smallest, lane.below_smallest);
    spread.all.largest = std::max(spread.all.largest, lane.largest);
    spread.widest_lane = std::max(spread.widest_lane, lane.binades());
  }
  return spread;
}

}  // namespace HWY_NAMESPACE
}  // namespace svp::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace svp::array {
namespace {

HWY_EXPORT(load_few_row);
HWY_EXPORT(multiply_chunk);
HWY_EXPORT(panel_spread);

class FewRowsProduct {
 public:
  explicit FewRowsProduct(const ChunkPlan& plan) : plan_(plan), request_(plan.request) {
    std::memset(few_.number, 0, sizeof few_.number);
    for (unsigned c = 0; c < kChunkLanes; ++c) few_.counted[c] = c < request_.lanes ? 0xFFFF : 0;
    each_sum([&](unsigned row, unsigned half, unsigned place, float& mine) {
      std::memcpy(&mine, plan_.sums[row][half] + place * sizeof mine, sizeof mine);
    });
  }

  std::uint32_t run() {
    std::uint32_t done = 0;
    while (done < request_.depth) {
      const std::uint32_t depth = std::min(request_.depth - done, wire::array::kMaxDepth);
      if (!add_chunk(done, depth)) break;
      done += depth;
    }
    if (done != 0) {
      each_sum([&](unsigned row, unsigned half, unsigned place, const float& mine) {
        std::memcpy(plan_.sums[row][half] + place * sizeof mine, &mine, sizeof mine);
      });
    }
    return done;
  }

 private:
  // `visit` gets where a sum lies in the launch, and the one that is kept here.
  template <typename Visit>
  void each_sum(Visit visit) {
    for (unsigned row = 0; row < request_.rows; ++row) {
      for (unsigned half = 0; half < 2; ++half) {
        for (unsigned place = 0; place < kHalf; ++place) {
          visit(row, half, place, sum_[row][wire::array::lane_of_sum(half, place)]);
        }
      }
    }
  }

  // False: nothing has changed.
  bool add_chunk(std::uint32_t first, std::uint32_t depth) {
    const std::byte* const* const rows = plan_.row.data() + first / wire::array::kMaxDepth * request_.rows;
    const std::byte* const* const panel = plan_.panel.data() + first;
    std::uint16_t largest = 0;
    for (unsigned row = 0; row < request_.rows; ++row) {
      HWY_DYNAMIC_DISPATCH(load_few_row)(rows[row], depth, row, few_);
      largest = std::max(largest, few_.of_row[row].largest);
    }
    HWY_DYNAMIC_DISPATCH(multiply_chunk)(panel, depth, request_.rows, few_);
    const PanelSpread spread = HWY_DYNAMIC_DISPATCH(panel_spread)(few_);
    const bool all_finite = std::max(largest, spread.all.largest) <= wire::kDl16Max;
    if (!all_finite || spread.all.below_smallest < kSmallestCode - 1) return false;
    if (!correct_wide_sums(rows, panel, depth, spread.widest_lane)) return false;
    for (unsigned row = 0; row < request_.rows; ++row) {
      for (unsigned c = 0; c < kChunkLanes; ++c) sum_[row][c] += static_cast<float>(few_.sum[row][c]);
    }
    return true;
  }

  // By integers: a float is exact in the double that is rounded to it. False: there are too many.
  bool correct_wide_sums(const std::byte* const* rows, const std::byte* const* panel, unsigned depth, unsigned widest) {
    for (unsigned row = 0; row < request_.rows; ++row) {
      const unsigned of_row = few_.of_row[row].binades();
      if (of_row + widest <= kExactBinades) continue;
      for (unsigned c = 0; c < kChunkLanes; ++c) {
        const Spread lane{few_.below_smallest[c], few_.largest[c]};
        if (lane.largest == 0 || of_row + lane.binades() <= kExactBinades) continue;
        if (wide_++ == wire::array::kMaxWideSums) return false;
        few_.sum[row][c] = static_cast<double>(exact_sum(depth, rows[row], panel, c));
      }
    }
    return true;
  }

  const ChunkPlan& plan_;
  const wire::array::ChunkRequest& request_;
  FewRows few_;
  float sum_[wire::array::kFewRows][kChunkLanes];
  unsigned wide_ = 0;  // sums so far
};

}  // namespace

std::uint32_t multiply_few_rows(const ChunkPlan& plan) { return FewRowsProduct(plan).run(); }

}  // namespace svp::array
#endif
