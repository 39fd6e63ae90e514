// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Reductions of lines. The sum of 64 DL16 numbers is one of doubles while their exponents spread over no more than 37
// binades (of their squares: 13) and are not among the smallest. Else it is one of 32-bit integers while they spread
// over no more than 15; else numbers of the upper and of the lower half of the exponents have a sum of 64 bits each,
// and squares those of each quarter.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "qemu/array/exact_pair.hpp"
#include "qemu/array/lines.hpp"
#include "shared/device_program.hpp"
#include "shared/dl16.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qemu/array/line_functions.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "qemu/array/code_doubles-inl.hpp"
#include "qemu/array/lane_numbers-inl.hpp"

#ifndef SPYRE_QEMU_ARRAY_LINE_FUNCTIONS
#define SPYRE_QEMU_ARRAY_LINE_FUNCTIONS
namespace svp::array {

inline constexpr unsigned kSumChunk = 64;  // positions

struct LineView {
  const std::byte* const* stick;
  unsigned sticks;
  unsigned lanes;
  bool negates;  // Min is minus the Max of the negated numbers
};

// Sums of DL16 before their rounding, and what is not finite.
struct LineSums {
  float sum[wire::kStickBytes / 2];
  std::uint16_t largest[wire::kStickBytes / 2];  // magnitudes
};

// Exx2 before its factor.
struct LineMoments {
  double sum;
  double squares;
  bool finite;
};

// The integer of which word g counts 2^(32 g), rounded once. Words are below 2^57.
inline double rounded_to_fp64(const std::uint64_t (&word)[4]) {
  using Wide = unsigned __int128;
  const Wide low = word[0] + (Wide{word[1]} << 32);
  const Wide high = word[2] + (Wide{word[3]} << 32) + (low >> 64);
  const auto rest = static_cast<std::uint64_t>(low);
  if (high >> 60 == 0) return static_cast<double>(high << 64 | rest);
  // Bits below the last two of a double's only tell whether anything is there.
  return static_cast<double>(high | (rest != 0 ? 1 : 0)) * 0x1p64;
}

}  // namespace svp::array
#endif

HWY_BEFORE_NAMESPACE();
namespace svp::array {
namespace HWY_NAMESPACE {
namespace {

constexpr unsigned kLanes16 = wire::kStickBytes / sizeof(std::uint16_t);
constexpr unsigned kLanes32 = wire::kStickBytes / sizeof(std::uint32_t);
constexpr unsigned kNarrow = 31 - 10 - 6;  // binades: an int32's bits, without those of a number and of 64 of them
constexpr std::uint32_t kUpperHalf = 32;   // exponents from here on
// Doubles of code_doubles-inl.hpp have exact sums of 64 numbers, and of their squares, over so many binades from this
// exponent on, whose last place is no subnormal double.
constexpr std::uint16_t kLowestOfDoubles = 10;
constexpr unsigned kExactSums = 53 - 10 - 6;
constexpr unsigned kExactSquares = (53 - 20 - 6) / 2;

struct Codes {
  std::uint16_t lane[kLanes16];
};
// Lanes that take no part become zero.
HWY_INLINE Codes load(const std::byte* stick, unsigned lanes) {
  Codes codes;
  std::memcpy(&codes, stick, sizeof codes);
  for (unsigned c = lanes; c < kLanes16; ++c) codes.lane[c] = 0;
  return codes;
}

// Of the magnitudes in each lane; the smallest of those that are not zero, less one.
struct Ranges {
  std::uint16_t below_smallest[kLanes16];
  std::uint16_t largest[kLanes16];

  Ranges() {
    for (unsigned c = 0; c < kLanes16; ++c) {
      below_smallest[c] = 0xFFFF;
      largest[c] = 0;
    }
  }
  HWY_INLINE void include(const Codes& codes) {
    for (unsigned c = 0; c < kLanes16; ++c) {
      const auto magnitude = static_cast<std::uint16_t>(codes.lane[c] & wire::kDl16MagnitudeBits);
      const auto below = static_cast<std::uint16_t>(magnitude - 1);
      below_smallest[c] = below < below_smallest[c] ? below : below_smallest[c];
      largest[c] = largest[c] < magnitude ? magnitude : largest[c];
    }
  }
};

HWY_INLINE std::uint16_t exponent_of_smallest(std::uint16_t below_smallest) {
  return static_cast<std::uint16_t>(static_cast<std::uint16_t>(below_smallest + 1) >> wire::kDl16FractionBits);
}
// Zero for lanes that hold zeros only.
HWY_INLINE std::uint16_t spread_of(std::uint16_t below_smallest, std::uint16_t largest) {
  const auto binades =
      static_cast<std::uint16_t>((largest >> wire::kDl16FractionBits) - exponent_of_smallest(below_smallest));
  return largest == 0 ? std::uint16_t{0} : binades;
}

// A number as its significand, with its sign, and its exponent.
struct Units {
  std::int16_t significand[kLanes16];
  std::uint16_t exponent[kLanes16];

  HWY_INLINE explicit Units(const Codes& codes) {
    for (unsigned c = 0; c < kLanes16; ++c) {
      const std::uint16_t code = codes.lane[c];
      const auto magnitude = static_cast<std::uint16_t>(code & wire::kDl16MagnitudeBits);
      const auto digits = static_cast<std::uint16_t>((magnitude & 0x1FF) | 0x200);
      const auto number = static_cast<std::int16_t>(magnitude == 0 ? 0 : digits);
      significand[c] = static_cast<std::int16_t>((code & wire::kDl16SignBit) != 0 ? -number : number);
      exponent[c] = static_cast<std::uint16_t>(magnitude >> wire::kDl16FractionBits);
    }
  }
  bool is_upper(unsigned c) const { return exponent[c] >= kUpperHalf; }
  std::int64_t in_half(unsigned c) const { return static_cast<std::int64_t>(significand[c]) << (exponent[c] & 31); }
  // A unit is the last place of a number with exponent `low`.
  std::int32_t from(unsigned c, std::uint32_t low) const {
    return static_cast<std::int32_t>(significand[c]) << (exponent[c] - low & 31);
  }
};

HWY_INLINE float from_units(std::int32_t units, std::uint32_t low) {
  const std::uint32_t exponent = low + 127 - 31 - wire::kDl16FractionBits;
  return static_cast<float>(units) * std::bit_cast<float>(exponent << 23);
}
// 2^(exponent - 40), the value of a unit.
HWY_INLINE double unit_of(std::uint32_t exponent) {
  return std::bit_cast<double>(std::uint64_t{exponent + 1023 - 31 - wire::kDl16FractionBits} << 52);
}

// Sums of the numbers with the larger and with the smaller exponents, before they are added.
struct Halves {
  double upper;
  double lower;
};
HWY_INLINE Halves halves_of(std::int64_t upper, std::int64_t lower) {
  return {static_cast<double>(upper) * 0x1p-8, static_cast<double>(lower) * 0x1p-40};
}
HWY_INLINE float rounded_once(const Halves& halves) { return svp::array::rounded_once(halves.upper, halves.lower); }

// ---- across: one sum for each lane, of some sticks ------------------------------------------------------------------

HWY_INLINE void add_part(DoubleVector part, float* sum) {
  alignas(64) double number[HWY_MAX_BYTES / sizeof(double)];
  hn::Store(part, DoubleTag(), number);
  for (std::size_t n = 0; n < hn::Lanes(DoubleTag()); ++n) {
    sum[n / 2 * kBlockLanes + n % 2] += static_cast<float>(number[n] * kPartScale);
  }
}

// Also of lanes that take no part: nobody looks at their sums.
HWY_INLINE void add_in_doubles(const LineView& line, unsigned first, unsigned count, float (&sum)[kLanes16]) {
  for (std::size_t lane = 0; lane < kLanes16; lane += hn::Lanes(CodeTag())) {
    DoubleVector a = hn::Zero(DoubleTag()), b = a, c = a, d = a;
    for (unsigned n = first; n < first + count; ++n) {
      const auto* const stick = reinterpret_cast<const std::uint16_t*>(line.stick[n]);
      const CodeVector code = hn::LoadU(CodeTag(), stick + lane);
      a = hn::Add(a, part_of<0>(code)), b = hn::Add(b, part_of<1>(code));
      c = hn::Add(c, part_of<2>(code)), d = hn::Add(d, part_of<3>(code));
    }
    add_part(a, sum + lane), add_part(b, sum + lane + 2), add_part(c, sum + lane + 4), add_part(d, sum + lane + 6);
  }
}

HWY_INLINE void add_narrow(const LineView& line, unsigned first, unsigned count, const Ranges& ranges,
                           float (&sum)[kLanes16]) {
  std::int32_t total[kLanes16]{};
  std::uint16_t low[kLanes16];
  for (unsigned c = 0; c < kLanes16; ++c) low[c] = exponent_of_smallest(ranges.below_smallest[c]);
  for (unsigned n = first; n < first + count; ++n) {
    const Units units(load(line.stick[n], line.lanes));
    for (unsigned c = 0; c < kLanes16; ++c) total[c] += units.from(c, low[c]);
  }
  for (unsigned c = 0; c < kLanes16; ++c) sum[c] += from_units(total[c], low[c]);
}

HWY_INLINE void add_wide(const LineView& line, unsigned first, unsigned count, float (&sum)[kLanes16]) {
  std::int64_t upper[kLanes16]{};
  std::int64_t lower[kLanes16]{};
  for (unsigned n = first; n < first + count; ++n) {
    const Units units(load(line.stick[n], line.lanes));
    for (unsigned c = 0; c < kLanes16; ++c) {
      const std::int64_t value = units.in_half(c);
      upper[c] += units.is_upper(c) ? value : 0;
      lower[c] += units.is_upper(c) ? 0 : value;
    }
  }
  for (unsigned c = 0; c < kLanes16; ++c) sum[c] += rounded_once(halves_of(upper[c], lower[c]));
}

// ---- along: one sum of a stick --------------------------------------------------------------------------------------

HWY_INLINE double total(DoubleVector a, DoubleVector b, DoubleVector c, DoubleVector d) {
  return hn::GetLane(hn::SumOfLanes(DoubleTag(), hn::Add(hn::Add(a, b), hn::Add(c, d))));
}

HWY_INLINE double sum_in_doubles(const Codes& codes) {
  DoubleVector a = hn::Zero(DoubleTag()), b = a, c = a, d = a;
  for (std::size_t lane = 0; lane < kLanes16; lane += hn::Lanes(CodeTag())) {
    const CodeVector code = hn::LoadU(CodeTag(), codes.lane + lane);
    a = hn::Add(a, part_of<0>(code)), b = hn::Add(b, part_of<1>(code));
    c = hn::Add(c, part_of<2>(code)), d = hn::Add(d, part_of<3>(code));
  }
  return total(a, b, c, d) * kPartScale;
}

// Of the numbers times 2^-32, whose squares no double is too small for.
struct Moments {
  DoubleVector sum;
  DoubleVector squares;

  HWY_INLINE Moments() : sum(hn::Zero(DoubleTag())), squares(sum) {}
  HWY_INLINE void include(DoubleVector part) {
    const DoubleVector number = hn::Mul(part, hn::Set(DoubleTag(), kPartScale * 0x1p-32));
    sum = hn::Add(sum, number);
    squares = hn::MulAdd(number, number, squares);
  }
};

HWY_INLINE void add_in_doubles(const Codes& codes, LineMoments& moments) {
  Moments a, b, c, d;
  for (std::size_t lane = 0; lane < kLanes16; lane += hn::Lanes(CodeTag())) {
    const CodeVector code = hn::LoadU(CodeTag(), codes.lane + lane);
    a.include(part_of<0>(code)), b.include(part_of<1>(code));
    c.include(part_of<2>(code)), d.include(part_of<3>(code));
  }
  moments.sum += total(a.sum, b.sum, c.sum, d.sum) * 0x1p32;
  moments.squares += total(a.squares, b.squares, c.squares, d.squares) * 0x1p64;
}

HWY_INLINE std::int32_t sum_in_units(const Units& units, std::uint32_t low) {
  std::int32_t total = 0;
  for (unsigned c = 0; c < kLanes16; ++c) total += units.from(c, low);
  return total;
}

HWY_INLINE std::int64_t squares_in_units(const Units& units, std::uint32_t low) {
  std::int64_t total = 0;
  for (unsigned c = 0; c < kLanes16; ++c) {
    const std::int64_t value = units.from(c, low);
    total += value * value;
  }
  return total;
}

HWY_INLINE Halves sum_in_halves(const Units& units) {
  std::int64_t upper = 0;
  std::int64_t lower = 0;
  for (unsigned c = 0; c < kLanes16; ++c) {
    const std::int64_t value = units.in_half(c);
    upper += units.is_upper(c) ? value : 0;
    lower += units.is_upper(c) ? 0 : value;
  }
  return halves_of(upper, lower);
}

HWY_INLINE double exact_squares(const Units& units) {
  std::uint64_t total[4]{};
  for (unsigned c = 0; c < kLanes16; ++c) {
    const std::int32_t significand = units.significand[c];
    const auto square = static_cast<std::uint64_t>(significand * significand) << 2 * (units.exponent[c] & 15);
    for (unsigned g = 0; g < 4; ++g) total[g] += units.exponent[c] >> 4 == g ? square : 0;
  }
  return rounded_to_fp64(total) * 0x1p-80;
}

// Of all lanes of a stick.
struct Range {
  std::uint16_t largest = 0;
  std::uint16_t spread = 0;
  std::uint16_t low = 0;  // the exponent of the smallest that is not zero

  HWY_INLINE explicit Range(const Codes& codes) {
    Ranges ranges;
    ranges.include(codes);
    std::uint16_t below_smallest = 0xFFFF;
    for (unsigned c = 0; c < kLanes16; ++c) {
      below_smallest = ranges.below_smallest[c] < below_smallest ? ranges.below_smallest[c] : below_smallest;
      largest = largest < ranges.largest[c] ? ranges.largest[c] : largest;
    }
    spread = spread_of(below_smallest, largest);
    low = exponent_of_smallest(below_smallest);
  }
};

}  // namespace

void sums_across(const LineView& line, LineSums& sums) {
  for (unsigned first = 0; first < line.sticks; first += kSumChunk) {
    const unsigned count = std::min(kSumChunk, line.sticks - first);
    Ranges ranges;
    for (unsigned n = first; n < first + count; ++n) ranges.include(load(line.stick[n], line.lanes));
    std::uint16_t spread = 0;
    std::uint16_t low = 0xFFFF;
    for (unsigned c = 0; c < kLanes16; ++c) {
      const std::uint16_t of_lane = spread_of(ranges.below_smallest[c], ranges.largest[c]);
      spread = spread < of_lane ? of_lane : spread;
      const auto smallest = exponent_of_smallest(ranges.below_smallest[c]);
      const auto low_of_lane = ranges.largest[c] == 0 ? std::uint16_t{0xFFFF} : smallest;
      low = low_of_lane < low ? low_of_lane : low;
      sums.largest[c] = sums.largest[c] < ranges.largest[c] ? ranges.largest[c] : sums.largest[c];
    }
    if (low >= kLowestOfDoubles && spread <= kExactSums) {
      add_in_doubles(line, first, count, sums.sum);
    } else {
      spread <= kNarrow ? add_narrow(line, first, count, ranges, sums.sum) : add_wide(line, first, count, sums.sum);
    }
  }
}

HWY_INLINE float sum_in_integers(const Codes& codes, const Range& range) {
  const Units units(codes);
  return range.spread <= kNarrow ? from_units(sum_in_units(units, range.low), range.low)
                                 : rounded_once(sum_in_halves(units));
}

// Into lane 0.
void sums_along(const LineView& line, LineSums& sums) {
  float sum = 0;
  std::uint16_t largest = 0;
  for (unsigned n = 0; n < line.sticks; ++n) {
    const Codes codes = load(line.stick[n], n + 1 == line.sticks ? line.lanes : kLanes16);
    const Range range(codes);
    sum += range.low >= kLowestOfDoubles && range.spread <= kExactSums ? static_cast<float>(sum_in_doubles(codes))
                                                                       : sum_in_integers(codes, range);
    largest = std::max(largest, range.largest);
  }
  sums.sum[0] = sum;
  sums.largest[0] = largest;
}

void moments_along(const LineView& line, LineMoments& moments) {
  for (unsigned n = 0; n < line.sticks; ++n) {
    const Codes codes = load(line.stick[n], n + 1 == line.sticks ? line.lanes : kLanes16);
    const Range range(codes);
    moments.finite = moments.finite && range.largest <= wire::kDl16Max;
    if (range.low >= kLowestOfDoubles && range.spread <= kExactSquares) {
      add_in_doubles(codes, moments);
      continue;
    }
    const Units units(codes);
    if (range.spread <= kNarrow) {
      const double unit = unit_of(range.low);
      moments.sum += static_cast<double>(sum_in_units(units, range.low)) * unit;
      moments.squares += static_cast<double>(squares_in_units(units, range.low)) * (unit * unit);
    } else {
      const Halves halves = sum_in_halves(units);
      moments.sum += halves.upper + halves.lower;
      moments.squares += exact_squares(units);
    }
  }
}

// The sums of lanes that hold an infinity or a NaN become those of these alone.
void sum_infinities(const LineView& line, bool along, LineSums& sums) {
  float infinite[kLanes16]{};
  for (unsigned n = 0; n < line.sticks; ++n) {
    std::uint16_t code[kLanes16];
    std::memcpy(code, line.stick[n], sizeof code);
    const unsigned lanes = !along || n + 1 == line.sticks ? line.lanes : kLanes16;
    for (unsigned c = lanes; c < kLanes16; ++c) code[c] = 0;
    for (unsigned c = 0; c < kLanes16; ++c) {
      const bool counts = (code[c] & wire::kDl16MagnitudeBits) > wire::kDl16Max;
      infinite[c] += counts ? Dl16::number(code[c]) : 0;
    }
  }
  for (unsigned c = 1; along && c < kLanes16; ++c) infinite[0] += infinite[c];
  for (unsigned c = 0; c < kLanes16; ++c) sums.sum[c] = sums.largest[c] > wire::kDl16Max ? infinite[c] : sums.sum[c];
}

// Of lane 0 alone, or of all.
void codes_of_sums(const LineSums& sums, bool along, bool mean, float factor, std::uint16_t (&code)[kLanes16]) {
  const auto code_of = [&](unsigned c) { return Dl16::code(mean ? sums.sum[c] * factor : sums.sum[c]); };
  if (along) {
    code[0] = code_of(0);
    return;
  }
  for (unsigned c = 0; c < kLanes16; ++c) code[c] = code_of(c);
}

void fp32_sums_across(const LineView& line, double (&sum)[kLanes32]) {
  for (unsigned n = 0; n < line.sticks; ++n) {
    float number[kLanes32];
    std::memcpy(number, line.stick[n], sizeof number);
    for (unsigned c = 0; c < kLanes32; ++c) sum[c] += static_cast<double>(number[c]);
  }
}

// ---- extremes -------------------------------------------------------------------------------------------------------

template <typename Kind>
class Extremes {
 public:
  using Lane = typename Kind::Lane;
  using Order = std::make_signed_t<Lane>;
  static constexpr unsigned kLanes = wire::kStickBytes / sizeof(Lane);

  explicit Extremes(bool negates) : flip_(negates ? Kind::kSign : Lane{0}) {
    for (unsigned c = 0; c < kLanes; ++c) {
      order_[c] = std::numeric_limits<Order>::min();
      nan_[c] = 0;
    }
  }

  HWY_INLINE void include(const std::byte* stick, unsigned lanes) {
    Lane code[kLanes];
    std::memcpy(code, stick, sizeof code);
    for (unsigned c = lanes; c < kLanes; ++c) code[c] = code[0];
    for (unsigned c = 0; c < kLanes; ++c) {
      const Lane magnitude = code[c] & static_cast<Lane>(~Kind::kSign);
      nan_[c] = static_cast<Lane>(nan_[c] | (Kind::is_nan(magnitude) ? ~Lane{0} : Lane{0}));
      const Order order = in_order(static_cast<Lane>(code[c] ^ flip_));
      order_[c] = order_[c] < order ? order : order_[c];
    }
  }
  Lane across(unsigned c) const { return nan_[c] != 0 ? Kind::kNan : code_of(order_[c]); }
  Lane along() const {
    Order largest = order_[0];
    Lane nan = 0;
    for (unsigned c = 0; c < kLanes; ++c) {
      largest = largest < order_[c] ? order_[c] : largest;
      nan = static_cast<Lane>(nan | nan_[c]);
    }
    return nan != 0 ? Kind::kNan : code_of(largest);
  }

 private:
  static HWY_INLINE Order in_order(Lane code) {
    const auto order = static_cast<Order>(code);
    return order < 0 ? static_cast<Order>(order ^ static_cast<Order>(~Kind::kSign)) : order;
  }
  Lane code_of(Order order) const {
    return static_cast<Lane>(static_cast<Lane>(in_order(static_cast<Lane>(order))) ^ flip_);
  }

  Lane flip_;
  Order order_[kLanes];
  Lane nan_[kLanes];
};

template <typename Kind>
HWY_INLINE void extreme(const LineView& line, bool along, std::byte* result) {
  using Lane = typename Kind::Lane;
  constexpr unsigned kLanes = Extremes<Kind>::kLanes;
  Extremes<Kind> extremes(line.negates);
  for (unsigned n = 0; n < line.sticks; ++n) {
    extremes.include(line.stick[n], along && n + 1 == line.sticks ? line.lanes : kLanes);
  }
  Lane code[kLanes];
  const Lane all = along ? extremes.along() : Lane{0};
  for (unsigned c = 0; c < kLanes; ++c) {
    const Lane across = c < line.lanes ? extremes.across(c) : Lane{0};
    code[c] = along ? all : across;
  }
  std::memcpy(result, code, sizeof code);
}

void extreme_dl16(const LineView& line, bool along, std::byte* result) { extreme<Dl16>(line, along, result); }
void extreme_fp32(const LineView& line, bool along, std::byte* result) { extreme<Fp32>(line, along, result); }

}  // namespace HWY_NAMESPACE
}  // namespace svp::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace svp::array {
namespace {

HWY_EXPORT(sums_across);
HWY_EXPORT(sums_along);
HWY_EXPORT(moments_along);
HWY_EXPORT(sum_infinities);
HWY_EXPORT(codes_of_sums);
HWY_EXPORT(fp32_sums_across);
HWY_EXPORT(extreme_dl16);
HWY_EXPORT(extreme_fp32);

using wire::array::LinesRequest;
using wire::program::Format;
using wire::program::Opcode;

constexpr unsigned kLanes16 = wire::kStickBytes / sizeof(wire::Dl16);
constexpr unsigned kLanes32 = wire::kStickBytes / sizeof(float);

bool is_mean(const LinesRequest& request) { return static_cast<Opcode>(request.opcode) == Opcode::Mean; }

void sum_dl16(const LinesRequest& request, const LineView& line, std::byte* result) {
  const bool along = request.along != 0;
  LineSums sums{};
  along ? HWY_DYNAMIC_DISPATCH(sums_along)(line, sums) : HWY_DYNAMIC_DISPATCH(sums_across)(line, sums);
  const unsigned lanes = along ? 1 : kLanes16;
  if (*std::max_element(sums.largest, sums.largest + lanes) > wire::kDl16Max) {
    HWY_DYNAMIC_DISPATCH(sum_infinities)(line, along, sums);
  }
  wire::Dl16 code[kLanes16];
  HWY_DYNAMIC_DISPATCH(codes_of_sums)(sums, along, is_mean(request), std::bit_cast<float>(request.factor), code);
  if (along) {
    std::fill_n(code + 1, kLanes16 - 1, code[0]);
  } else {
    std::fill(code + line.lanes, code + kLanes16, wire::Dl16{0});
  }
  std::memcpy(result, code, sizeof code);
}

std::uint32_t code_of_fp32(const LinesRequest& request, double sum) {
  if (is_mean(request)) sum *= static_cast<double>(std::bit_cast<float>(request.factor));
  const auto rounded = static_cast<float>(sum);
  return rounded != rounded ? 0x7FC00000u : std::bit_cast<std::uint32_t>(rounded);
}

void sum_fp32(const LinesRequest& request, const LineView& line, std::byte* result) {
  std::uint32_t code[kLanes32]{};
  if (request.along != 0) {
    double sum = 0;
    for (unsigned n = 0; n < line.sticks; ++n) {
      float number[kLanes32];
      std::memcpy(number, line.stick[n], sizeof number);
      const unsigned end = n + 1 == line.sticks ? line.lanes : kLanes32;
      for (unsigned c = 0; c < end; ++c) sum += static_cast<double>(number[c]);
    }
    std::fill_n(code, kLanes32, code_of_fp32(request, sum));
  } else {
    double sum[kLanes32]{};
    HWY_DYNAMIC_DISPATCH(fp32_sums_across)(line, sum);
    for (unsigned c = 0; c < line.lanes; ++c) code[c] = code_of_fp32(request, sum[c]);
  }
  std::memcpy(result, code, sizeof code);
}

LineMoments fp32_moments(const LineView& line) {
  LineMoments moments{.sum = 0, .squares = 0, .finite = true};
  for (unsigned n = 0; n < line.sticks; ++n) {
    float number[kLanes32];
    std::memcpy(number, line.stick[n], sizeof number);
    const unsigned end = n + 1 == line.sticks ? line.lanes : kLanes32;
    for (unsigned c = 0; c < end; ++c) {
      const auto x = static_cast<double>(number[c]);
      moments.sum += x;
      moments.squares += x * x;
    }
  }
  return moments;
}

// The NaN of all results.
double with_one_nan(double value) {
  return value != value ? std::bit_cast<double>(std::uint64_t{0x7FF8} << 48) : value;
}

void moments(const LinesRequest& request, const LineView& line, std::byte* result) {
  LineMoments moments{.sum = 0, .squares = 0, .finite = true};
  if (static_cast<Format>(request.format) == Format::Dl16) {
    HWY_DYNAMIC_DISPATCH(moments_along)(line, moments);
    if (!moments.finite) moments.sum = moments.squares = std::numeric_limits<double>::quiet_NaN();
  } else {
    moments = fp32_moments(line);
  }
  const auto factor = static_cast<double>(std::bit_cast<float>(request.factor));
  const double pair[wire::kStickBytes / sizeof(double)]{with_one_nan(moments.sum * factor),
                                                        with_one_nan(moments.squares * factor)};
  std::memcpy(result, pair, sizeof pair);
}

void execute_line(const LinesRequest& request, const LineView& line, std::byte* result) {
  const bool dl16 = static_cast<Format>(request.format) == Format::Dl16;
  switch (static_cast<Opcode>(request.opcode)) {
    case Opcode::Sum:
    case Opcode::Mean: dl16 ? sum_dl16(request, line, result) : sum_fp32(request, line, result); return;
    case Opcode::Exx2: moments(request, line, result); return;
    default: break;
  }
  const auto extreme = dl16 ? HWY_DYNAMIC_DISPATCH(extreme_dl16) : HWY_DYNAMIC_DISPATCH(extreme_fp32);
  extreme(line, request.along != 0, result);
}

}  // namespace

void execute(const LinesPlan& plan) {
  const LinesRequest& request = plan.request;
  const bool negates = static_cast<Opcode>(request.opcode) == Opcode::Min;
  for (std::uint32_t i = 0; i < request.lines; ++i) {
    const LineView line{plan.stick.data() + std::size_t{i} * request.sticks, request.sticks, request.lanes, negates};
    execute_line(request, line, plan.result[i]);
  }
}

}  // namespace svp::array
#endif
