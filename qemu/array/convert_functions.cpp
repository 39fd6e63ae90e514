// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Lanes become values in one loop and codes in a second one, which the compiler vectorizes for each target. A value is
// an fp32 where that holds every value of both formats, else an fp64.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "qemu/array/convert.hpp"
#include "shared/device_program.hpp"
#include "shared/dl16.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qemu/array/convert_functions.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "qemu/array/lane_numbers-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace svp::array {
namespace HWY_NAMESPACE {
namespace {

namespace program = wire::program;
using program::Format;
using program::Opcode;

constexpr unsigned kMostPositions = wire::kStickBytes;  // of a unit

// ---- values of codes ------------------------------------------------------------------------------------------------

template <Format kFormat>
struct Code;

template <>
struct Code<Format::Dl16> {
  using Lane = std::uint16_t;
  static HWY_INLINE float value(Lane code) { return Dl16::number(code); }
  static HWY_INLINE Lane of(float value) { return Dl16::code(value); }
  static HWY_INLINE Lane of(double value) { return Dl16::code_of_fp64(value); }
};

template <>
struct Code<Format::Fp32> {
  using Lane = std::uint32_t;
  static HWY_INLINE float value(Lane code) { return Fp32::number(code); }
  static HWY_INLINE Lane of(float value) { return Fp32::code(value); }
  static HWY_INLINE Lane of(double value) { return Fp32::code_of_fp64(value); }
};

// NaN becomes 0. A Real holds both ends of the range.
template <typename Int, typename Real>
HWY_INLINE Real saturated(Real value) {
  constexpr auto kSmallest = static_cast<Real>(std::numeric_limits<Int>::min());
  constexpr auto kLargest = static_cast<Real>(std::numeric_limits<Int>::max());
  const Real from_below = value < kSmallest ? kSmallest : value;
  const Real bounded = from_below > kLargest ? kLargest : from_below;
  return value == value ? bounded : Real{0};
}

// Of integers of which an fp32 holds every one. Into integers: toward zero.
template <typename Int>
struct SmallInteger {
  using Lane = std::make_unsigned_t<Int>;
  static HWY_INLINE float value(Lane code) { return static_cast<float>(static_cast<Int>(code)); }
  template <typename Real>
  static HWY_INLINE Lane of(Real value) {
    return static_cast<Lane>(static_cast<std::int32_t>(saturated<Int>(value)));
  }
};
template <>
struct Code<Format::Int16> : SmallInteger<std::int16_t> {};
template <>
struct Code<Format::Int8> : SmallInteger<std::int8_t> {};

template <>
struct Code<Format::Int32> {
  using Lane = std::uint32_t;
  static HWY_INLINE double value(Lane code) { return static_cast<double>(static_cast<std::int32_t>(code)); }
  static HWY_INLINE Lane of(double value) {
    return static_cast<Lane>(static_cast<std::int32_t>(saturated<std::int32_t>(value)));
  }
};

template <>
struct Code<Format::Uint32> {
  using Lane = std::uint32_t;
  static constexpr Lane kTop = Lane{1} << 31;
  static HWY_INLINE double value(Lane code) {
    return static_cast<double>(static_cast<std::int32_t>(code ^ kTop)) + 0x1p31;
  }
  static HWY_INLINE Lane of(double value) {
    return static_cast<Lane>(static_cast<std::int32_t>(std::trunc(saturated<std::uint32_t>(value)) - 0x1p31)) ^ kTop;
  }
};

// Formats of eight bits. The codes of numbers ascend with their magnitude; `kInfinity` is the first that is none.
template <int kFractionBits, int kBias, std::uint32_t kInfinity, std::uint32_t kOverflow>
struct Fp8 {
  using Lane = std::uint8_t;
  static constexpr std::uint32_t kNan = 0x7F;
  static constexpr std::uint32_t kSmallestNormal = 1u << kFractionBits;
  static constexpr int kDropped = 23 - kFractionBits;
  static constexpr std::uint32_t kRebias = (127u - kBias) << 23;
  // One unit of the subnormals, and a number whose last place is such a unit.
  static constexpr float kUnit = std::bit_cast<float>((127u + 1 - kBias - kFractionBits) << 23);
  static constexpr float kRounder = std::bit_cast<float>((127u + 1 - kBias - kFractionBits + 23) << 23);

  static HWY_INLINE float value(Lane code) {
    const std::uint32_t magnitude = code & 0x7Fu;
    const std::uint32_t normal = (magnitude << kDropped) + kRebias;
    const auto subnormal =
        std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * kUnit);
    std::uint32_t bits = magnitude < kSmallestNormal ? subnormal : normal;
    bits = magnitude >= kInfinity ? 0x7F800000u : bits;
    bits = magnitude > kInfinity || magnitude == kNan ? 0x7FC00000u : bits;
    return std::bit_cast<float>(bits | (code & 0x80u) << 24);
  }
  // Nearest, ties to even.
  static HWY_INLINE Lane of(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    const std::uint32_t odd = magnitude >> kDropped & 1;
    const std::uint32_t rounded = (magnitude + ((1u << (kDropped - 1)) - 1) + odd) >> kDropped;
    const std::uint32_t normal = rounded - (kRebias >> kDropped);
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + kRounder) -
                                    std::bit_cast<std::uint32_t>(kRounder);
    std::uint32_t code = magnitude < kRebias + (1u << 23) ? subnormal : normal;
    code = code >= kInfinity ? kOverflow : code;
    code |= bits >> 24 & 0x80;
    return static_cast<Lane>(magnitude > 0x7F800000u ? kNan : code);
  }
  // Of an integer: those that an fp32 does not hold are beyond the range, and so is what they are rounded to.
  static HWY_INLINE Lane of(double value) { return of(static_cast<float>(value)); }
};
template <>
struct Code<Format::Fp8E4m3> : Fp8<3, 7, 0x7F, 0x7E> {};
template <>
struct Code<Format::Fp8E5m2> : Fp8<2, 15, 0x7C, 0x7C> {};

// ---- rows of lanes --------------------------------------------------------------------------------------------------

template <Format kFormat, typename Real>
void decode(const std::byte* codes, Real* values, unsigned count) {
  using Lane = typename Code<kFormat>::Lane;
  Lane lane[kMostPositions];
  std::memcpy(lane, codes, count * sizeof(Lane));
  for (unsigned i = 0; i < count; ++i) values[i] = static_cast<Real>(Code<kFormat>::value(lane[i]));
}

template <Format kFormat, typename Real>
void encode(const Real* values, std::byte* codes, unsigned count) {
  using Lane = typename Code<kFormat>::Lane;
  Lane lane[kMostPositions];
  for (unsigned i = 0; i < count; ++i) lane[i] = Code<kFormat>::of(values[i]);
  std::memcpy(codes, lane, count * sizeof(Lane));
}

template <typename Real>
using Decode = void (*)(const std::byte*, Real*, unsigned);
template <typename Real>
using Encode = void (*)(const Real*, std::byte*, unsigned);

constexpr bool is_wide(Format format) { return format == Format::Int32 || format == Format::Uint32; }

template <typename Real>
struct Functions {
  Decode<Real> to_values;
  Encode<Real> to_codes;
};
template <Format kFormat, typename Real>
Functions<Real> functions_of() {
  return {decode<kFormat, Real>, encode<kFormat, Real>};
}

// Of an fp32 there are none for the wide integers.
template <typename Real>
Functions<Real> find_functions(Format format) {
  switch (format) {
    case Format::Dl16: return functions_of<Format::Dl16, Real>();
    case Format::Fp32: return functions_of<Format::Fp32, Real>();
    case Format::Int16: return functions_of<Format::Int16, Real>();
    case Format::Int8: return functions_of<Format::Int8, Real>();
    case Format::Fp8E4m3: return functions_of<Format::Fp8E4m3, Real>();
    case Format::Fp8E5m2: return functions_of<Format::Fp8E5m2, Real>();
    default: break;
  }
  if constexpr (sizeof(Real) == sizeof(double)) {
    return format == Format::Int32 ? functions_of<Format::Int32, Real>() : functions_of<Format::Uint32, Real>();
  }
  return {};
}

// ---- where lanes go -------------------------------------------------------------------------------------------------

// One stick and two that have its pieces alternately; the second of the two follows the first.
template <typename Piece>
struct Pieces {
  static constexpr unsigned kHalf = wire::kStickBytes / sizeof(Piece) / 2;

  static HWY_INLINE void join(const std::byte* parts, std::byte* stick) {
    Piece in[2 * kHalf];
    Piece out[2 * kHalf];
    std::memcpy(in, parts, sizeof in);
    for (unsigned i = 0; i < kHalf; ++i) {
      out[2 * i] = in[i];
      out[2 * i + 1] = in[kHalf + i];
    }
    std::memcpy(stick, out, sizeof out);
  }
  static HWY_INLINE void part(const std::byte* stick, std::byte* parts) {
    Piece in[2 * kHalf];
    Piece out[2 * kHalf];
    std::memcpy(in, stick, sizeof in);
    for (unsigned i = 0; i < kHalf; ++i) {
      out[i] = in[2 * i];
      out[kHalf + i] = in[2 * i + 1];
    }
    std::memcpy(parts, out, sizeof out);
  }
};
// Of weights single lanes, else four lanes of DL16 or eight of FP8.
using Single = Pieces<std::uint8_t>;
using Several = Pieces<std::uint64_t>;

// ---- units ----------------------------------------------------------------------------------------------------------

// The codes of a unit's positions in their order.
struct UnitCodes {
  alignas(64) std::byte of[kMaxUnitSticks * wire::kStickBytes];
};

template <typename Real>
class Units {
 public:
  explicit Units(const ConvertPlan& plan)
      : request_(plan.request),
        from_(static_cast<Format>(request_.from_format)),
        to_(static_cast<Format>(request_.to_format)),
        positions_(std::max(program::lanes_of(from_), program::lanes_of(to_))),
        opcode_(static_cast<Opcode>(request_.opcode)),
        has_two_inputs_(wire::array::unit_sticks(from_, to_) > 1),
        decode_(find_functions<Real>(from_).to_values),
        encode_(find_functions<Real>(to_).to_codes) {}

  void run(const UnitStretch& stretch) {
    for (std::uint64_t n = 0; n < stretch.count; ++n) {
      load(stretch, n);
      Real values[kMostPositions];
      decode_(in_.of, values, positions_);
      if (request_.single == 1) std::fill_n(values + 1, positions_ - 1, Real{values[0]});
      encode_(values, out_.of, positions_);
      store(stretch, n);
    }
  }

 private:
  void load(const UnitStretch& stretch, std::uint64_t n) {
    for (unsigned i = 0; i < request_.from_sticks; ++i) {
      const std::byte* const stick = stretch.from[i] + n * request_.from.step;
      if (opcode_ != Opcode::Copy && !has_two_inputs_) {
        Several::part(stick, in_.of);
      } else {
        std::memcpy(in_.of + i * wire::kStickBytes, stick, wire::kStickBytes);
      }
    }
  }
  void store(const UnitStretch& stretch, std::uint64_t n) {
    for (unsigned i = 0; i < request_.to_sticks; ++i) {
      std::byte* const stick = stretch.to[i] + n * request_.to.step;
      if (opcode_ == Opcode::Dl16ToFp8Weight) {
        Single::join(out_.of, stick);
      } else if (opcode_ != Opcode::Copy && has_two_inputs_) {
        Several::join(out_.of, stick);
      } else {
        std::memcpy(stick, out_.of + i * wire::kStickBytes, wire::kStickBytes);
      }
    }
  }

  const wire::array::ConvertRequest& request_;
  Format from_;
  Format to_;
  unsigned positions_;
  Opcode opcode_;
  bool has_two_inputs_;
  Decode<Real> decode_;
  Encode<Real> encode_;
  UnitCodes in_{};  // sticks that the input has not are zeros
  UnitCodes out_;
};

template <typename Real>
void convert_units(const ConvertPlan& plan) {
  Units<Real> units(plan);
  for (std::uint64_t i = 0; i < plan.stretches; ++i) units.run(plan.stretch[i]);
}

}  // namespace

void convert_for_target(const ConvertPlan& plan) {
  const bool wide =
      is_wide(static_cast<Format>(plan.request.from_format)) || is_wide(static_cast<Format>(plan.request.to_format));
  return wide ? convert_units<double>(plan) : convert_units<float>(plan);
}

}  // namespace HWY_NAMESPACE
}  // namespace svp::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace svp::array {
namespace {
HWY_EXPORT(convert_for_target);
}  // namespace

void execute(const ConvertPlan& plan) { HWY_DYNAMIC_DISPATCH(convert_for_target)(plan); }

}  // namespace svp::array
#endif
