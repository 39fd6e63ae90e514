// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// DL16, the card's 16-bit number ("SEN169_FP16", 1-6-9): sign bit 15, exponent 14..9 with bias 31, fraction 8..0.
//
//   value = (-1)^s * 2^(e - 31) * (1 + f / 512), also for e = 0 with f != 0 (there are no subnormals)
//   0x0000 / 0x8000 are +0 / -0, so 2^-31 itself has no code; the smallest positive number is 0x0001
//   0x7FFF / 0xFFFF are the infinities, 0x7FFE and 0xFFFE NaN; the largest finite number is 0x7FFD = 8564768768
//
// Into DL16: round to ten significant bits, nearest, ties away from zero, in one step from the source format.
// A result that rounds to 2^-31 or less becomes zero with the sign of the source; overflow and infinity become 0x7FFF
// with the sign of the source, NaN 0x7FFE likewise. Out of DL16 into fp32 and fp64 every conversion is exact. Into fp16
// a number below the fp16 normals is rounded to nearest even; 65536, which 65504 becomes in DL16, is 65504 again, and
// what is larger is infinity. So every fp16 number and infinity of ten significant bits survives a round trip.
//
// Everything here is a pure function on bit patterns, usable in constant expressions, on the host and on the card.
#pragma once

#include <bit>
#include <cstdint>

namespace wire {

using Dl16 = std::uint16_t;  // a bit pattern, never an integer value

inline constexpr Dl16 kDl16Infinity = 0x7FFF;
inline constexpr Dl16 kDl16Nan = 0x7FFE;
inline constexpr Dl16 kDl16Max = 0x7FFD;
inline constexpr Dl16 kDl16MagnitudeBits = 0x7FFF;
inline constexpr Dl16 kDl16MinPositive = 0x0001;
inline constexpr Dl16 kDl16SignBit = 0x8000;
inline constexpr int kDl16Bias = 31;
inline constexpr int kDl16FractionBits = 9;
inline constexpr std::uint16_t kFp16Max = 0x7BFF;  // 65504
inline constexpr std::uint16_t kFp16Infinity = 0x7C00;
inline constexpr Dl16 kDl16OfFp16Max = 0x5E00;  // 65536: ten significant bits do not hold 65504

constexpr bool dl16_is_nan(Dl16 value) { return (value & kDl16MagnitudeBits) == kDl16Nan; }
constexpr bool dl16_is_infinite(Dl16 value) { return (value & kDl16MagnitudeBits) == kDl16Infinity; }
constexpr bool dl16_is_finite(Dl16 value) { return (value & kDl16MagnitudeBits) <= kDl16Max; }
constexpr bool dl16_is_zero(Dl16 value) { return (value & kDl16MagnitudeBits) == 0; }
constexpr bool dl16_is_negative(Dl16 value) { return (value & kDl16SignBit) != 0; }

// A finite, non-zero number as integers: value = significand * 2^(exponent - 40), 512 <= |significand| <= 1023,
// 0 <= exponent <= 63. Zero gives significand 0. Not meaningful for NaN and infinity. Exact arithmetic is built from
// this.
struct Dl16Parts {
  std::int32_t significand;
  std::int32_t exponent;
};
inline constexpr int kDl16UnitExponent = -(kDl16Bias + kDl16FractionBits);  // weight of a significand at exponent 0

constexpr Dl16Parts dl16_parts(Dl16 value) {
  if (dl16_is_zero(value)) return {0, 0};
  const std::int32_t magnitude = 0x200 | (value & 0x1FF);
  return {dl16_is_negative(value) ? -magnitude : magnitude, (value >> kDl16FractionBits) & 0x3F};
}

namespace dl16_detail {

// One body for every IEEE source: moves the sign, rounds the magnitude half up (= away from zero) to nine fraction
// bits by adding half a unit before the shift (a carry runs into the exponent, as it should), then rebiases. All
// other cases fall out of the comparison with the two ends of the code range.
template <typename Bits, int kFractionBits, int kBias>
constexpr Dl16 from_ieee(Bits bits) {
  constexpr int kSignShift = sizeof(Bits) * 8 - 1;
  constexpr int kDrop = kFractionBits - kDl16FractionBits;
  constexpr std::int64_t kRebias = std::int64_t{kBias - kDl16Bias} << kDl16FractionBits;
  const auto sign = static_cast<Dl16>((bits >> kSignShift) << 15);
  const Bits magnitude = bits & static_cast<Bits>(~(Bits{1} << kSignShift));
  constexpr Bits kInfinity = static_cast<Bits>(2 * kBias + 1) << kFractionBits;
  if (magnitude > kInfinity) return static_cast<Dl16>(sign | kDl16Nan);
  const auto rounded = static_cast<std::int64_t>((magnitude + (Bits{1} << (kDrop - 1))) >> kDrop);
  const std::int64_t code = rounded - kRebias;
  if (code <= 0) return sign;
  if (code > kDl16Max) return static_cast<Dl16>(sign | kDl16Infinity);
  return static_cast<Dl16>(sign | code);
}

}  // namespace dl16_detail

constexpr Dl16 dl16_from_fp32_bits(std::uint32_t bits) { return dl16_detail::from_ieee<std::uint32_t, 23, 127>(bits); }
constexpr Dl16 dl16_from_fp32(float value) { return dl16_from_fp32_bits(std::bit_cast<std::uint32_t>(value)); }
constexpr Dl16 dl16_from_fp64(double value) {
  return dl16_detail::from_ieee<std::uint64_t, 52, 1023>(std::bit_cast<std::uint64_t>(value));
}
constexpr Dl16 dl16_from_bf16(std::uint16_t bits) { return dl16_from_fp32_bits(std::uint32_t{bits} << 16); }

constexpr std::uint32_t fp32_bits_from_dl16(Dl16 value) {
  const std::uint32_t sign = std::uint32_t{dl16_is_negative(value)} << 31;
  if (dl16_is_zero(value)) return sign;
  if (!dl16_is_finite(value)) return sign | (dl16_is_nan(value) ? 0x7FC00000u : 0x7F800000u);
  return sign | ((std::uint32_t{static_cast<std::uint16_t>(value & kDl16MagnitudeBits)} << 14) + (96u << 23));
}
constexpr float fp32_from_dl16(Dl16 value) { return std::bit_cast<float>(fp32_bits_from_dl16(value)); }
constexpr double fp64_from_dl16(Dl16 value) {
  const std::uint64_t sign = std::uint64_t{dl16_is_negative(value)} << 63;
  if (dl16_is_zero(value)) return std::bit_cast<double>(sign);
  if (!dl16_is_finite(value)) {
    return std::bit_cast<double>(sign | ((dl16_is_nan(value) ? 0x7FF8ull : 0x7FF0ull) << 48));
  }
  return std::bit_cast<double>(sign | ((std::uint64_t{static_cast<std::uint16_t>(value & kDl16MagnitudeBits)} << 43) +
                                       (std::uint64_t{992} << 52)));
}

// fp16 as bit patterns (no compiler support for half precision is needed on either side). An fp16 is widened to fp32
// exactly, so the rounding into DL16 is still one step.
constexpr std::uint32_t fp32_bits_from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{static_cast<std::uint16_t>(bits & 0x8000)} << 16;
  const std::uint32_t magnitude = bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) return sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13);
  if (magnitude >= 0x0400u) return sign | ((magnitude << 13) + (112u << 23));
  if (magnitude == 0) return sign;
  const int top = 31 - std::countl_zero(magnitude);  // a subnormal: magnitude * 2^-24
  return sign | (static_cast<std::uint32_t>(top + 103) << 23) | ((magnitude << (23 - top)) & 0x7FFFFFu);
}
constexpr Dl16 dl16_from_fp16(std::uint16_t bits) { return dl16_from_fp32_bits(fp32_bits_from_fp16(bits)); }

constexpr std::uint16_t fp16_from_dl16(Dl16 value) {
  constexpr int kSmallestNormal = 17;  // exponent code of 2^-14
  const auto sign = static_cast<std::uint16_t>(value & kDl16SignBit);
  if (dl16_is_zero(value)) return sign;
  if (dl16_is_nan(value)) return static_cast<std::uint16_t>(sign | 0x7E00);
  const std::uint32_t magnitude = value & kDl16MagnitudeBits;
  if (magnitude > kDl16OfFp16Max) return static_cast<std::uint16_t>(sign | kFp16Infinity);
  if (magnitude == kDl16OfFp16Max) return static_cast<std::uint16_t>(sign | kFp16Max);
  const int exponent = static_cast<int>(magnitude >> kDl16FractionBits);
  if (exponent >= kSmallestNormal) {
    return static_cast<std::uint16_t>(sign | ((magnitude << 1) - (std::uint32_t{kDl16Bias - 15} << 10)));
  }
  // Below the normals: significand * 2^(exponent - 40) in units of 2^-24, rounded to nearest even.
  const std::uint32_t significand = 0x200u | (magnitude & 0x1FFu);
  const int shift = kSmallestNormal - 1 - exponent;
  if (shift > 10) return sign;  // less than half a unit
  const std::uint32_t quotient = significand >> shift;
  const std::uint32_t rest = significand & ((1u << shift) - 1);
  const std::uint32_t half = (1u << shift) >> 1;
  const bool up = shift > 0 && (rest > half || (rest == half && (quotient & 1) != 0));
  return static_cast<std::uint16_t>(sign | (quotient + up));
}

// The published vectors. Tests add the exhaustive properties; these hold wherever the header compiles.
static_assert(dl16_from_fp32(1.0f) == 0x3E00 && dl16_from_fp32(-1.0f) == 0xBE00);
static_assert(dl16_from_fp32(0.5f) == 0x3C00 && dl16_from_fp32(3.14f) == 0x4124 && dl16_from_fp64(3.14) == 0x4124);
static_assert(dl16_from_fp32(65504.0f) == 0x5E00 && dl16_from_fp16(0x7BFF) == 0x5E00);
static_assert(dl16_from_fp32(0x1p-14f) == 0x2200 && dl16_from_fp32(0x1p-24f) == 0x0E00);
static_assert(dl16_from_fp16(0x0400) == 0x2200 && dl16_from_fp16(0x0001) == 0x0E00);
static_assert(dl16_from_fp32(1.0f + 1.0f / 1024) == 0x3E01);  // a tie goes away from zero
static_assert(dl16_from_fp32(-(1.0f + 1.0f / 1024)) == 0xBE01);
static_assert(dl16_from_fp32(1.9990234375f) == 0x4000);  // the carry reaches the exponent
static_assert(dl16_from_fp32(0x1p32f) == 0x7E00 && dl16_from_fp64(0x1p33) == kDl16Infinity);
static_assert(dl16_from_fp32(-0.0f) == 0x8000 && dl16_from_fp32_bits(0x7F800000u) == 0x7FFF);
static_assert(dl16_from_fp32_bits(0xFF800000u) == 0xFFFF && dl16_from_fp32_bits(0x7FC00000u) == kDl16Nan);
static_assert(fp64_from_dl16(kDl16Max) == 8564768768.0 && fp32_from_dl16(kDl16Max) == 8564768768.0f);
static_assert(fp64_from_dl16(kDl16MinPositive) == 0x1p-31 * (1 + 1.0 / 512));
static_assert(dl16_from_fp64(0x1p-31) == 0x0000 && dl16_from_fp64(-0x1p-31) == 0x8000);
static_assert(dl16_from_fp64(0x1p-31 * (1 + 1.0 / 1024)) == kDl16MinPositive);
static_assert(dl16_from_fp64(8568963072.0) == kDl16Infinity && dl16_from_fp64(8568963071.0) == kDl16Max);
static_assert(fp32_bits_from_dl16(0xFFFF) == 0xFF800000u && fp32_bits_from_dl16(kDl16Nan) == 0x7FC00000u);
static_assert(fp16_from_dl16(0x5E00) == kFp16Max && fp16_from_dl16(0x5E01) == kFp16Infinity);
static_assert(fp16_from_dl16(0xFFFF) == 0xFC00 && fp16_from_dl16(kDl16Nan) == 0x7E00);
static_assert(fp16_from_dl16(0x3E00) == 0x3C00 && fp16_from_dl16(0x0E00) == 0x0001);

}  // namespace wire
