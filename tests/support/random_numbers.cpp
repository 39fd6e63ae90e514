// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_numbers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "shared/units.hpp"

namespace svp::test {
namespace {

using wire::program::Format;

enum class Style { AnyBits, NearOne, FarApart, Special, SmallIntegers };

// Sign, exponent and fraction of a floating-point format, and codes worth meeting.
struct FloatShape {
  unsigned exponent_bits;
  unsigned fraction_bits;
  std::array<std::uint32_t, 8> special;
};
const FloatShape* shape_of(Format format) {
  static constexpr FloatShape kDl16{6, 9, {0, 0x7FFF, 0x7FFE, 0x0001, 0x7FFD, 0x3E00, 0x3DFF, 0x01FF}};
  static constexpr FloatShape kFp32{
      8, 23, {0, 0x7FC00000, 0x7F800000, 0x00000001, 0x007FFFFF, 0x7F7FFFFF, 0x3F800000, 0x7F800001}};
  static constexpr FloatShape kE4m3{4, 3, {0, 0x7F, 0x01, 0x07, 0x08, 0x7E, 0x38, 0x3C}};
  static constexpr FloatShape kE5m2{5, 2, {0, 0x7F, 0x7C, 0x01, 0x03, 0x7B, 0x3C, 0x7E}};
  switch (format) {
    case Format::Dl16: return &kDl16;
    case Format::Fp32: return &kFp32;
    case Format::Fp8E4m3: return &kE4m3;
    case Format::Fp8E5m2: return &kE5m2;
    default: return nullptr;
  }
}

std::uint32_t random_float(std::mt19937_64& random, const FloatShape& shape, Style style) {
  const unsigned sign_shift = shape.exponent_bits + shape.fraction_bits;
  const auto sign = static_cast<std::uint32_t>(random() & 1) << sign_shift;
  const auto fraction = static_cast<std::uint32_t>(below(random, std::uint64_t{1} << shape.fraction_bits));
  const std::uint32_t bias = (1u << (shape.exponent_bits - 1)) - 1;
  const auto number = [&](std::uint64_t exponent) {
    return sign | static_cast<std::uint32_t>(exponent) << shape.fraction_bits | fraction;
  };
  switch (style) {
    case Style::AnyBits: return static_cast<std::uint32_t>(below(random, std::uint64_t{2} << sign_shift));
    case Style::NearOne: return number(bias - 2 + below(random, 4));
    case Style::FarApart: return number(below(random, 2 * bias + 1));
    case Style::Special:
      return one_in(random, 4) ? number(bias - 1 + below(random, 3)) : sign | shape.special[below(random, 8)];
    case Style::SmallIntegers: break;
  }
  return one_in(random, 2) ? sign : sign | bias << shape.fraction_bits;  // 0, 1
}

std::uint32_t random_integer(std::mt19937_64& random, Style style) {
  const auto any = static_cast<std::uint32_t>(random());
  switch (style) {
    case Style::Special: return std::array<std::uint32_t, 4>{0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x807F8080}[any % 4];
    case Style::SmallIntegers: return any % 7 - 3;
    case Style::FarApart: return any >> below(random, 31);
    default: return any;
  }
}

}  // namespace

void fill_with_any_bytes(std::mt19937_64& random, std::span<std::byte> bytes) {
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
}

void fill_with_numbers(std::mt19937_64& random, Format format, std::span<std::byte> bytes) {
  const auto style = static_cast<Style>(below(random, 5));
  const FloatShape* shape = shape_of(format);
  const unsigned size = item_bytes(format);
  for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
    const std::uint32_t bits = shape != nullptr ? random_float(random, *shape, style) : random_integer(random, style);
    std::memcpy(&bytes[at], &bits, size);
  }
}

void fill_with_indices(std::mt19937_64& random, std::uint32_t bound, std::span<std::byte> bytes) {
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    const auto index = static_cast<std::uint32_t>(below(random, bound));
    std::memcpy(&bytes[at], &index, 4);
  }
}

void fill_with_pairs(std::mt19937_64& random, std::span<std::byte> bytes) {
  fill_with_any_bytes(random, bytes);
  for (std::size_t at = 0; at + wire::kStickBytes <= bytes.size(); at += wire::kStickBytes) {
    const double mean = std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(below(random, 20)) - 60);
    double pair[] = {mean, mean * mean + static_cast<double>(below(random, 1000)) / 64};
    if (one_in(random, 8)) pair[below(random, 2)] = std::numeric_limits<double>::quiet_NaN();
    if (one_in(random, 8)) pair[1] = 0;  // below the square of the mean
    std::memcpy(&bytes[at], pair, sizeof pair);
  }
}

}  // namespace svp::test
