// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Lanes are computed in plain loops, which the compiler vectorizes for each target.
#include "qemu/array/row_functions.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "shared/device_program.hpp"
#include "shared/dl16.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qemu/array/row_functions.cpp"
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
using wire::array::kOutput;

template <typename Lane>
struct Stick {
  static constexpr unsigned kLanes = wire::kStickBytes / sizeof(Lane);
  Lane lane[kLanes];
};

template <typename Lane>
HWY_INLINE Stick<Lane> load(const RowsPlan& plan, const Stretch& stretch, unsigned input, std::uint64_t n) {
  Stick<Lane> stick;
  std::memcpy(&stick, stretch.at[input] + n * plan.request.row[input].step, sizeof stick);
  if ((plan.request.singles >> input & 1) != 0) {
    const Lane single = stick.lane[0];
    for (Lane& lane : stick.lane) lane = single;
  }
  return stick;
}

template <typename Lane>
HWY_INLINE void store(const RowsPlan& plan, const Stretch& stretch, std::uint64_t n, const Stick<Lane>& stick) {
  std::memcpy(stretch.at[kOutput] + n * plan.request.row[kOutput].step, &stick, sizeof stick);
}

// ---- numbers --------------------------------------------------------------------------------------------------------

template <typename Kind, Opcode kOpcode>
struct Function {
  using Lane = typename Kind::Lane;

  static HWY_INLINE Lane larger(Lane a, Lane b) {
    const float x = Kind::number(a);
    const float y = Kind::number(b);
    const Lane of_equal = (a & Kind::kSign) != 0 ? b : a;
    const Lane of_others = x > y ? a : b;
    const Lane number = x == y ? of_equal : of_others;
    return is_nan(x) || is_nan(y) ? Kind::kNan : number;
  }
  static HWY_INLINE Lane smaller(Lane a, Lane b) {
    const float x = Kind::number(a);
    const float y = Kind::number(b);
    const Lane of_equal = (a & Kind::kSign) != 0 ? a : b;
    const Lane of_others = x < y ? a : b;
    const Lane number = x == y ? of_equal : of_others;
    return is_nan(x) || is_nan(y) ? Kind::kNan : number;
  }

  static HWY_INLINE Lane of(Lane a, Lane b) {
    const float x = Kind::number(a);
    const float y = Kind::number(b);
    const auto truth = [](bool is_true) HWY_ATTR { return is_true ? Kind::kOne : Lane{0}; };
    if constexpr (kOpcode == Opcode::Add) return Kind::code(x + y);
    if constexpr (kOpcode == Opcode::Sub) return Kind::code(x - y);
    if constexpr (kOpcode == Opcode::Mul) return Kind::code(x * y);
    if constexpr (kOpcode == Opcode::Div) return Kind::code(x / y);
    if constexpr (kOpcode == Opcode::Maximum) return larger(a, b);
    if constexpr (kOpcode == Opcode::Minimum) return smaller(a, b);
    if constexpr (kOpcode == Opcode::Equal) return truth(x == y);
    if constexpr (kOpcode == Opcode::NotEqual) return truth(!(x == y));
    if constexpr (kOpcode == Opcode::Greater) return truth(x > y);
    if constexpr (kOpcode == Opcode::GreaterEqual) return truth(x >= y);
    if constexpr (kOpcode == Opcode::Less) return truth(x < y);
    return truth(x <= y);
  }

  static HWY_INLINE Lane of(Lane a, const std::uint32_t (&constant)[2]) {
    const float x = Kind::number(a);
    if constexpr (kOpcode == Opcode::Abs) return static_cast<Lane>(a & ~Kind::kSign);
    if constexpr (kOpcode == Opcode::Neg) return a ^ Kind::kSign;
    if constexpr (kOpcode == Opcode::Relu) {
      const Lane number = (a & Kind::kSign) != 0 ? Lane{0} : a;
      return is_nan(x) ? Kind::kNan : number;
    }
    if constexpr (kOpcode == Opcode::Clip) {
      return smaller(larger(a, static_cast<Lane>(constant[0])), static_cast<Lane>(constant[1]));
    }
    return Kind::code(std::floor(x));
  }
};

// ---- sticks ---------------------------------------------------------------------------------------------------------

template <typename Kind, Opcode kOpcode, typename Lane>
HWY_INLINE Stick<Lane> result_of(const Stick<Lane>& a, const Stick<Lane>& b) {
  Stick<Lane> result;
  for (unsigned i = 0; i < Stick<Lane>::kLanes; ++i) {
    result.lane[i] = Function<Kind, kOpcode>::of(a.lane[i], b.lane[i]);
  }
  return result;
}

template <typename Kind, Opcode kOpcode>
void on_pairs(const RowsPlan& plan, const Stretch& stretch) {
  using Lane = typename Kind::Lane;
  for (std::uint64_t n = 0; n < stretch.count; ++n) {
    const auto a = load<Lane>(plan, stretch, 0, n);
    const auto b = load<Lane>(plan, stretch, 1, n);
    store(plan, stretch, n, result_of<Kind, kOpcode>(a, b));
  }
}

HWY_INLINE bool are_numbers(const Stick<std::uint16_t>& a, const Stick<std::uint16_t>& b) {
  std::uint16_t largest = 0;
  for (unsigned i = 0; i < Stick<std::uint16_t>::kLanes; ++i) {
    const auto x = static_cast<std::uint16_t>(a.lane[i] & wire::kDl16MagnitudeBits);
    const auto y = static_cast<std::uint16_t>(b.lane[i] & wire::kDl16MagnitudeBits);
    const std::uint16_t larger = x < y ? y : x;
    largest = largest < larger ? larger : largest;
  }
  return largest <= wire::kDl16Max;
}

// Of DL16, which no operation on numbers makes a NaN of.
template <Opcode kOpcode>
void on_pairs_of_numbers(const RowsPlan& plan, const Stretch& stretch) {
  for (std::uint64_t n = 0; n < stretch.count; ++n) {
    const auto a = load<std::uint16_t>(plan, stretch, 0, n);
    const auto b = load<std::uint16_t>(plan, stretch, 1, n);
    store(plan, stretch, n, are_numbers(a, b) ? result_of<FiniteDl16, kOpcode>(a, b) : result_of<Dl16, kOpcode>(a, b));
  }
}

template <typename Kind, Opcode kOpcode>
void on_one(const RowsPlan& plan, const Stretch& stretch) {
  using Lane = typename Kind::Lane;
  for (std::uint64_t n = 0; n < stretch.count; ++n) {
    const auto a = load<Lane>(plan, stretch, 0, n);
    Stick<Lane> result;
    for (unsigned i = 0; i < Stick<Lane>::kLanes; ++i) {
      result.lane[i] = Function<Kind, kOpcode>::of(a.lane[i], plan.request.constant);
    }
    store(plan, stretch, n, result);
  }
}

// `kCounted`: the bits of a lane that make a condition true.
template <typename Lane, Lane kCounted>
void choose(const RowsPlan& plan, const Stretch& stretch) {
  for (std::uint64_t n = 0; n < stretch.count; ++n) {
    const auto condition = load<Lane>(plan, stretch, 0, n);
    const auto a = load<Lane>(plan, stretch, 1, n);
    const auto b = load<Lane>(plan, stretch, 2, n);
    Stick<Lane> result;
    for (unsigned i = 0; i < Stick<Lane>::kLanes; ++i) {
      result.lane[i] = (condition.lane[i] & kCounted) != 0 ? a.lane[i] : b.lane[i];
    }
    store(plan, stretch, n, result);
  }
}

template <typename Lane>
void copy(const RowsPlan& plan, const Stretch& stretch) {
  const wire::array::Request& request = plan.request;
  if (request.singles == 0 && request.row[0].step == wire::kStickBytes &&
      request.row[kOutput].step == wire::kStickBytes) {
    std::memmove(stretch.at[kOutput], stretch.at[0], stretch.count * wire::kStickBytes);
    return;
  }
  for (std::uint64_t n = 0; n < stretch.count; ++n) store(plan, stretch, n, load<Lane>(plan, stretch, 0, n));
}

void look_up(const RowsPlan& plan, const Stretch& stretch) {
  for (std::uint64_t n = 0; n < stretch.count; ++n) {
    const auto code = load<std::uint16_t>(plan, stretch, 0, n);
    Stick<std::uint16_t> result;
    for (unsigned i = 0; i < Stick<std::uint16_t>::kLanes; ++i) {
      std::memcpy(&result.lane[i], plan.table + std::size_t{code.lane[i]} * 2, 2);
    }
    store(plan, stretch, n, result);
  }
}

// ---- layer norm -----------------------------------------------------------------------------------------------------

// What Exx2 leaves in a stick.
struct Moments {
  double mean;
  double square;
};
HWY_INLINE Moments load_moments(const RowsPlan& plan, const Stretch& stretch, unsigned input, std::uint64_t n) {
  Moments moments;
  std::memcpy(&moments, stretch.at[input] + n * plan.request.row[input].step, sizeof moments);
  return moments;
}

template <typename Kind>
void scale(const RowsPlan& plan, const Stretch& stretch) {
  using Lane = typename Kind::Lane;
  const auto epsilon = static_cast<double>(std::bit_cast<float>(plan.request.constant[0]));
  for (std::uint64_t n = 0; n < stretch.count; ++n) {
    const Moments moments = load_moments(plan, stretch, 0, n);
    const double difference = moments.square - moments.mean * moments.mean;
    const double variance = difference < 0 ? 0 : difference;
    const Lane code = Kind::code_of_fp64(1.0 / std::sqrt(variance + epsilon));
    Stick<Lane> result;
    for (Lane& lane : result.lane) lane = code;
    store(plan, stretch, n, result);
  }
}

enum NormInput : unsigned { kX, kPair, kScale, kWeight, kBias, kNormInputs };

template <typename Kind>
void normalize(const RowsPlan& plan, const Stretch& stretch) {
  using Lane = typename Kind::Lane;
  for (std::uint64_t n = 0; n < stretch.count; ++n) {
    const auto x = load<Lane>(plan, stretch, kX, n);
    const auto mean = static_cast<float>(load_moments(plan, stretch, kPair, n).mean);
    const auto scale = load<Lane>(plan, stretch, kScale, n);
    const auto weight = load<Lane>(plan, stretch, kWeight, n);
    const auto bias = load<Lane>(plan, stretch, kBias, n);
    Stick<Lane> result;
    for (unsigned i = 0; i < Stick<Lane>::kLanes; ++i) {
      float value = Kind::number(x.lane[i]) - mean;
      value = value * Kind::number(scale.lane[i]);
      value = value * Kind::number(weight.lane[i]);
      result.lane[i] = Kind::code(value + Kind::number(bias.lane[i]));
    }
    store(plan, stretch, n, result);
  }
}

// ---- which ----------------------------------------------------------------------------------------------------------

template <typename Kind>
RowFunction find_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::Add: return on_pairs<Kind, Opcode::Add>;
    case Opcode::Sub: return on_pairs<Kind, Opcode::Sub>;
    case Opcode::Mul: return on_pairs<Kind, Opcode::Mul>;
    case Opcode::Div: return on_pairs<Kind, Opcode::Div>;
    case Opcode::Maximum: return on_pairs<Kind, Opcode::Maximum>;
    case Opcode::Minimum: return on_pairs<Kind, Opcode::Minimum>;
    case Opcode::Equal: return on_pairs<Kind, Opcode::Equal>;
    case Opcode::NotEqual: return on_pairs<Kind, Opcode::NotEqual>;
    case Opcode::Greater: return on_pairs<Kind, Opcode::Greater>;
    case Opcode::GreaterEqual: return on_pairs<Kind, Opcode::GreaterEqual>;
    case Opcode::Less: return on_pairs<Kind, Opcode::Less>;
    case Opcode::LessEqual: return on_pairs<Kind, Opcode::LessEqual>;
    case Opcode::Abs: return on_one<Kind, Opcode::Abs>;
    case Opcode::Neg: return on_one<Kind, Opcode::Neg>;
    case Opcode::Relu: return on_one<Kind, Opcode::Relu>;
    case Opcode::Clip: return on_one<Kind, Opcode::Clip>;
    case Opcode::Floor: return on_one<Kind, Opcode::Floor>;
    case Opcode::LayerNormScale: return scale<Kind>;
    case Opcode::LayerNormNorm: return normalize<Kind>;
    default: return nullptr;
  }
}

RowFunction find_choice(Format format) {
  switch (format) {
    case Format::Dl16: return choose<std::uint16_t, 0x7FFF>;
    case Format::Fp32: return choose<std::uint32_t, 0x7FFFFFFF>;
    case Format::Fp8E4m3:
    case Format::Fp8E5m2: return choose<std::uint8_t, 0x7F>;
    case Format::Int16: return choose<std::uint16_t, 0xFFFF>;
    case Format::Int8: return choose<std::uint8_t, 0xFF>;
    case Format::Int32:
    case Format::Uint32: return choose<std::uint32_t, 0xFFFFFFFF>;
  }
  return nullptr;
}

RowFunction find_copy(Format format) {
  switch (program::item_bytes(format)) {
    case 1: return copy<std::uint8_t>;
    case 2: return copy<std::uint16_t>;
    default: return copy<std::uint32_t>;
  }
}

RowFunction find(Opcode opcode, Format format) {
  if (opcode == Opcode::Copy) return find_copy(format);
  if (opcode == Opcode::Where) return find_choice(format);
  if (opcode >= Opcode::Exp && opcode <= Opcode::Softplus) return format == Format::Dl16 ? look_up : nullptr;
  if (format == Format::Dl16) {
    switch (opcode) {
      case Opcode::Add: return on_pairs_of_numbers<Opcode::Add>;
      case Opcode::Sub: return on_pairs_of_numbers<Opcode::Sub>;
      case Opcode::Mul: return on_pairs_of_numbers<Opcode::Mul>;
      default: return find_of<Dl16>(opcode);
    }
  }
  if (format == Format::Fp32) return find_of<Fp32>(opcode);
  return nullptr;
}

}  // namespace

RowFunction find_for_target(Opcode opcode, Format format) { return find(opcode, format); }

}  // namespace HWY_NAMESPACE
}  // namespace svp::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace svp::array {
namespace {

HWY_EXPORT(find_for_target);

using wire::program::Format;
using wire::program::Opcode;

unsigned inputs_of(Opcode opcode) {
  if (opcode == Opcode::Where) return 3;
  if (opcode == Opcode::LayerNormNorm) return 5;
  return opcode >= Opcode::Add && opcode <= Opcode::LessEqual ? 2 : 1;
}

}  // namespace

RowFunction find_row_function(const wire::array::Request& request) {
  constexpr auto kLastFormat = static_cast<std::uint32_t>(Format::Fp8E5m2);
  if (request.opcode > 0xFFFF || request.format > kLastFormat) return nullptr;
  const auto opcode = static_cast<Opcode>(request.opcode);
  if (request.inputs != inputs_of(opcode)) return nullptr;
  return HWY_DYNAMIC_DISPATCH(find_for_target)(opcode, static_cast<Format>(request.format));
}

bool reads_table(const wire::array::Request& request) {
  return request.opcode >= static_cast<std::uint32_t>(Opcode::Exp) &&
         request.opcode <= static_cast<std::uint32_t>(Opcode::Softplus);
}

}  // namespace svp::array
#endif
