// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/flex/reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace flex_test {
namespace {

// A floating-point format: `exponent` bits above `fraction` bits.
struct Layout {
  int exponent;
  int fraction;
  int bias;
  bool subnormals;
  enum class Top { Infinity, OnlyNan, AllButLast, AllButTwo } top;  // what the largest exponent means
};

const Layout* layout_of(DataFormats format) {
  static constexpr Layout dl16{6, 9, 31, false, Layout::Top::AllButTwo};
  static constexpr Layout fp32{8, 23, 127, true, Layout::Top::Infinity};
  static constexpr Layout fp16{5, 10, 15, true, Layout::Top::Infinity};
  static constexpr Layout bf16{8, 7, 127, true, Layout::Top::Infinity};
  static constexpr Layout e4m3{4, 3, 7, true, Layout::Top::AllButLast};
  switch (format) {
    case DataFormats::SEN169_FP16: return &dl16;
    case DataFormats::IEEE_FP32: return &fp32;
    case DataFormats::IEEE_FP16: return &fp16;
    case DataFormats::BFLOAT16: return &bf16;
    case DataFormats::SEN143_FP8: return &e4m3;
    default: return nullptr;
  }
}

bool is_signed(DataFormats format) {
  return format != DataFormats::SENUINT32 && format != DataFormats::SENUINT2 && format != DataFormats::BOOL;
}

double float_value(const Layout& format, std::uint64_t code) {
  const std::uint64_t fraction = code & ((1U << format.fraction) - 1);
  const std::uint64_t exponent = code >> format.fraction & ((1U << format.exponent) - 1);
  const bool negative = (code >> (format.fraction + format.exponent) & 1) != 0;
  const std::uint64_t top = (1U << format.exponent) - 1;
  double value;
  if (exponent == top && format.top == Layout::Top::Infinity) {
    value = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == top && fraction == (1U << format.fraction) - 1) {
    value = format.top == Layout::Top::AllButTwo ? INFINITY : NAN;
  } else if (exponent == top && fraction == (1U << format.fraction) - 2 && format.top == Layout::Top::AllButTwo) {
    value = NAN;
  } else if (exponent == 0 && (format.subnormals || fraction == 0)) {
    value = std::ldexp(static_cast<double>(fraction), 1 - format.bias - format.fraction);
  } else {
    value = std::ldexp(1 + std::ldexp(static_cast<double>(fraction), -format.fraction),
                       static_cast<int>(exponent) - format.bias);
  }
  return negative ? -value : value;
}

// The nearest of all codes of this sign: searched, because the values rise with the codes.
std::uint64_t nearest_code(const Layout& format, double value, bool ties_away) {
  const int width = format.exponent + format.fraction;
  const std::uint64_t sign = std::signbit(value) ? std::uint64_t{1} << width : 0;
  const std::uint64_t last = (std::uint64_t{1} << width) - 1;
  const bool has_infinity = format.top == Layout::Top::Infinity;
  const std::uint64_t infinity = ((std::uint64_t{1} << format.exponent) - 1) << format.fraction;
  const bool all_but_two = format.top == Layout::Top::AllButTwo;
  const std::uint64_t beyond = has_infinity ? infinity : last - (all_but_two ? 1 : 0);  // above all numbers
  if (all_but_two && std::isnan(value)) return sign | beyond;
  if (all_but_two && std::isinf(value)) return sign | last;
  if (std::isnan(value)) return sign | (has_infinity ? infinity | std::uint64_t{1} << (format.fraction - 1) : last);
  const double size = std::fabs(value);
  std::uint64_t low = 0;        // value ≤ size
  std::uint64_t high = beyond;  // value > size, or what stands for it
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (float_value(format, middle) <= size ? low : high) = middle;
  }
  // Without subnormals the lowest code stands for zero where the number one step below the smallest would be.
  const bool lowest = low == 0 && !format.subnormals;
  const double below = lowest ? std::ldexp(1, -format.bias) : float_value(format, low);
  // As if the code above the largest number were one.
  const double above = high == beyond ? below + (below - float_value(format, low - 1)) : float_value(format, high);
  const double half = below + (above - below) / 2;
  if (all_but_two && high == beyond && size >= half) return sign | last;
  if (size < half) return sign | low;
  if (size > half) return sign | high;
  if (ties_away) return sign | high;
  return sign | ((low & 1) == 0 ? low : high);
}

std::int64_t integer_value(DataFormats format, std::uint64_t code) {
  const unsigned bits = bits_of(format);
  if (!is_signed(format) || bits == 64) return static_cast<std::int64_t>(code);
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  return static_cast<std::int64_t>((code ^ sign) - sign);
}

std::uint64_t masked(DataFormats format, std::uint64_t code) {
  const unsigned bits = bits_of(format);
  return bits == 64 ? code : code & ((std::uint64_t{1} << bits) - 1);
}

std::uint64_t integer_from(DataFormats to, double value) {
  if (to == DataFormats::BOOL) return value != 0 ? 1 : 0;
  if (std::isnan(value)) return 0;
  const unsigned bits = bits_of(to);
  const double lowest = is_signed(to) ? -std::exp2(bits - 1) : 0;
  const double limit = is_signed(to) ? std::exp2(bits - 1) : std::exp2(bits);
  const double whole = std::trunc(value);
  const std::uint64_t most = is_signed(to) ? (std::uint64_t{1} << (bits - 1)) - 1 : (std::uint64_t{1} << bits) - 1;
  if (whole >= limit) return most;
  if (whole < lowest) return masked(to, static_cast<std::uint64_t>(static_cast<std::int64_t>(lowest)));
  return masked(to, static_cast<std::uint64_t>(static_cast<std::int64_t>(whole)));
}

std::uint64_t dl16_to_fp16(double value, std::uint64_t code) {
  // What does not fit is infinite, but for what 65504 becomes in DL16.
  const Layout& fp16 = *layout_of(DataFormats::IEEE_FP16);
  const std::uint64_t sign = (code >> 15 & 1) << 15;
  if (std::fabs(value) == 65536) return sign | 0x7BFF;
  if (!std::isnan(value) && std::fabs(value) > 65504) return sign | 0x7C00;
  return nearest_code(fp16, value, false);
}

}  // namespace

const std::vector<std::pair<DataFormats, DataFormats>> kPairs = [] {
  using enum DataFormats;
  return std::vector<std::pair<DataFormats, DataFormats>>{
      {IEEE_FP32, IEEE_FP32},    {IEEE_FP32, SEN169_FP16},  {IEEE_FP32, BFLOAT16},    {IEEE_FP32, SEN143_FP8},
      {IEEE_FP32, SENINT4},      {IEEE_FP32, SENINT8},      {IEEE_FP32, SENUINT2},    {SEN169_FP16, SEN169_FP16},
      {SEN169_FP16, IEEE_FP32},  {SEN169_FP16, IEEE_FP16},  {SEN169_FP16, BFLOAT16},  {SEN169_FP16, BOOL},
      {SEN169_FP16, SENINT16},   {SEN169_FP16, IEEE_INT64}, {IEEE_FP16, SEN169_FP16}, {IEEE_FP16, IEEE_FP32},
      {IEEE_FP16, BFLOAT16},     {BFLOAT16, IEEE_FP32},     {BFLOAT16, SEN169_FP16},  {BOOL, SEN169_FP16},
      {IEEE_INT64, SEN169_FP16}, {IEEE_INT64, IEEE_INT32},  {IEEE_INT64, SENUINT32},  {IEEE_INT32, IEEE_INT32},
      {IEEE_INT32, IEEE_INT64},  {SENUINT32, SENUINT32},    {SENUINT32, IEEE_INT64},  {SENINT16, SEN169_FP16},
      {SENINT8, SENINT8},        {SENINT8, IEEE_FP32},      {SENINT4, SENINT4},       {SENINT4, IEEE_FP32},
      {SENUINT2, IEEE_FP32},     {SEN143_FP8, SEN143_FP8},  {SEN143_FP8, IEEE_FP32}};
}();

unsigned bits_of(DataFormats format) {
  switch (format) {
    case DataFormats::IEEE_INT64: return 64;
    case DataFormats::IEEE_FP32:
    case DataFormats::IEEE_INT32:
    case DataFormats::SENUINT32: return 32;
    case DataFormats::SEN169_FP16:
    case DataFormats::IEEE_FP16:
    case DataFormats::BFLOAT16:
    case DataFormats::SENINT16: return 16;
    case DataFormats::SENINT4: return 4;
    case DataFormats::SENINT2:
    case DataFormats::SENUINT2: return 2;
    default: return 8;
  }
}

std::uint64_t element(std::span<const std::uint8_t> memory, DataFormats format, std::int64_t index) {
  const unsigned bits = bits_of(format);
  const auto first = static_cast<std::uint64_t>(index) * bits;
  std::uint64_t code = 0;
  for (unsigned i = 0; i < bits; ++i) {
    const std::uint64_t bit = first + i;
    code |= static_cast<std::uint64_t>(memory[bit / 8] >> (bit % 8) & 1) << i;
  }
  return code;
}

void set_element(std::span<std::uint8_t> memory, DataFormats format, std::int64_t index, std::uint64_t code) {
  const unsigned bits = bits_of(format);
  const auto first = static_cast<std::uint64_t>(index) * bits;
  for (unsigned i = 0; i < bits; ++i) {
    const std::uint64_t bit = first + i;
    auto& byte = memory[bit / 8];
    const auto mask = static_cast<std::uint8_t>(1U << (bit % 8));
    byte = static_cast<std::uint8_t>((code >> i & 1) != 0 ? byte | mask : byte & ~mask);
  }
}

std::uint64_t converted(DataFormats from, DataFormats to, std::uint64_t code) {
  if (from == to) return code;
  const Layout* source = layout_of(from);
  const Layout* target = layout_of(to);
  if (from == DataFormats::IEEE_INT64 && to == DataFormats::IEEE_INT32) {
    const auto whole = std::clamp<std::int64_t>(integer_value(from, code), INT32_MIN, INT32_MAX);
    return masked(to, static_cast<std::uint64_t>(whole));
  }
  if (source == nullptr && target == nullptr) {
    return masked(to, static_cast<std::uint64_t>(integer_value(from, code)));
  }
  const double value = source != nullptr           ? float_value(*source, code)
                       : from == DataFormats::BOOL ? (code != 0 ? 1.0 : 0.0)
                                                   : static_cast<double>(integer_value(from, code));
  if (target == nullptr) return integer_from(to, value);
  if (from == DataFormats::SEN169_FP16 && to == DataFormats::IEEE_FP16) return dl16_to_fp16(value, code);
  const std::uint64_t nearest = nearest_code(*target, value, to == DataFormats::SEN169_FP16);
  // FP8_E4M3 saturates: the code of NaN is that of a NaN only.
  const bool beyond = to == DataFormats::SEN143_FP8 && !std::isnan(value) && (nearest & 0x7F) == 0x7F;
  return beyond ? nearest - 1 : nearest;
}

std::uint64_t some_code(DataFormats format, std::uint64_t random) {
  if (format == DataFormats::BOOL) return random & 1;
  if (format == DataFormats::IEEE_INT64) {
    // Exact as a double, so that one rounding is one rounding.
    const auto value = static_cast<std::int64_t>(random >> 12) >> (random % 52);
    return static_cast<std::uint64_t>((random >> 11 & 1) != 0 ? -value : value);
  }
  std::uint64_t code = masked(format, random >> 8);
  const Layout* layout = layout_of(format);
  if (layout == nullptr) return code;
  const std::uint64_t size = (std::uint64_t{1} << (layout->exponent + layout->fraction)) - 1;
  switch (random % 8) {
    case 0: code = (code & ~size) | 0; break;                                        // zero, with its sign
    case 1: code = (code & ~size) | (code & ((1U << layout->fraction) - 1)); break;  // the smallest exponent
    case 2: code |= size; break;                                                     // NaN
    case 3:                                                                          // near one
      code = (code & ~(size ^ ((std::uint64_t{1} << layout->fraction) - 1))) | static_cast<std::uint64_t>(layout->bias)
                                                                                   << layout->fraction;
      break;
    default: break;
  }
  return code;
}

void convert(const data_conversion_info& conversion, std::span<const std::uint8_t> source,
             std::span<std::uint8_t> destination) {
  for (const data_conversion_stride_info& nest : conversion.dcsi_) {
    std::int64_t count = 1;
    for (const std::int64_t size : nest.size_) count *= size;
    for (std::int64_t number = 0; number < count; ++number) {
      std::int64_t from = nest.offset_src_;
      std::int64_t to = nest.offset_dst_;
      std::int64_t left = number;
      for (std::size_t i = 0; i < nest.size_.size(); ++i) {
        from += left % nest.size_[i] * nest.stride_src_[i];
        to += left % nest.size_[i] * nest.stride_dst_[i];
        left /= nest.size_[i];
      }
      const std::uint64_t code = element(source, conversion.dataformat_src_, from);
      set_element(destination, conversion.dataformat_dst_, to,
                  converted(conversion.dataformat_src_, conversion.dataformat_dst_, code));
    }
  }
}

}  // namespace flex_test
