// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Codes of lanes as fp32 numbers and back, in what the compiler vectorizes; once for each target (Highway).
#if defined(SPYRE_QEMU_ARRAY_LANE_NUMBERS) == defined(HWY_TARGET_TOGGLE)
#ifdef SPYRE_QEMU_ARRAY_LANE_NUMBERS
#undef SPYRE_QEMU_ARRAY_LANE_NUMBERS
#else
#define SPYRE_QEMU_ARRAY_LANE_NUMBERS
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>

#include "shared/dl16.hpp"

HWY_BEFORE_NAMESPACE();
namespace svp::array {
namespace HWY_NAMESPACE {
namespace {

constexpr std::uint64_t kFp64Sign = std::uint64_t{1} << 63;
constexpr std::uint64_t kFp64Infinity = std::uint64_t{0x7FF} << 52;

// DL16 codes, of which fp32 holds every number.
struct Dl16 {
  using Lane = std::uint16_t;
  static constexpr Lane kOne = 0x3E00;
  static constexpr Lane kNan = wire::kDl16Nan;
  static constexpr Lane kSign = wire::kDl16SignBit;

  static HWY_INLINE bool is_nan(Lane magnitude) { return magnitude == kNan; }
  static HWY_INLINE float number(Lane code) {
    const std::uint32_t magnitude = code & wire::kDl16MagnitudeBits;
    std::uint32_t bits = (magnitude << 14) + (96u << 23);
    bits = magnitude == 0 ? 0 : bits;
    bits = magnitude >= wire::kDl16Nan ? 0x7F800000u : bits;
    bits = magnitude == wire::kDl16Nan ? 0x7FC00000u : bits;
    return std::bit_cast<float>(bits | static_cast<std::uint32_t>(code & kSign) << 16);
  }
  static HWY_INLINE Lane code(float value) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu;
    const Lane number = code_of_number(value);
    return magnitude > 0x7F800000u ? kNan : number;
  }
  static HWY_INLINE Lane code_of_number(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    const auto rounded = static_cast<std::int32_t>((magnitude + (1u << 13)) >> 14) - (96 << 9);
    std::int32_t result = rounded < 0 ? 0 : rounded;
    result = result > wire::kDl16Max ? wire::kDl16Infinity : result;
    return static_cast<Lane>(static_cast<std::uint32_t>(result) | (bits >> 16 & kSign));
  }
  static HWY_INLINE Lane code_of_fp64(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const std::uint64_t magnitude = bits & ~kFp64Sign;
    const auto rounded = static_cast<std::int64_t>((magnitude + (std::uint64_t{1} << 42)) >> 43) - (992 << 9);
    std::int64_t result = rounded < 0 ? 0 : rounded;
    result = result > wire::kDl16Max ? wire::kDl16Infinity : result;
    result |= static_cast<std::int64_t>(bits >> 48 & kSign);
    return static_cast<Lane>(magnitude > kFp64Infinity ? wire::kDl16Nan : result);
  }
};

// Of lanes that hold numbers, and of results that are no NaN: fewer instructions for the same bits.
struct FiniteDl16 : Dl16 {
  static HWY_INLINE float number(Lane code) {
    const auto extended = static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<std::int16_t>(code)));
    const std::uint32_t magnitude = code & wire::kDl16MagnitudeBits;
    const std::uint32_t bits = magnitude == 0 ? 0 : (magnitude << 14) + (96u << 23);
    return std::bit_cast<float>(bits | (extended & 0x80000000u));
  }
  static HWY_INLINE Lane code(float value) { return code_of_number(value); }
};

struct Fp32 {
  using Lane = std::uint32_t;
  static constexpr Lane kOne = 0x3F800000u;
  static constexpr Lane kNan = 0x7FC00000u;
  static constexpr Lane kSign = 0x80000000u;

  static HWY_INLINE bool is_nan(Lane magnitude) { return magnitude > 0x7F800000u; }
  static HWY_INLINE float number(Lane code) { return std::bit_cast<float>(code); }
  static HWY_INLINE Lane code(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? kNan : bits;
  }
  static HWY_INLINE Lane code_of_fp64(double value) { return code(static_cast<float>(value)); }
};

HWY_INLINE bool is_nan(float value) { return (std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu) > 0x7F800000u; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace svp::array
HWY_AFTER_NAMESPACE();
#endif
