// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/element_format.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "host_driver/tensor/number_format.hpp"
#include "shared/dl16.hpp"

namespace svp {
namespace {

using enum ElementFormat;

// ---- elements in memory ---------------------------------------------------------------------------------------------

template <ElementFormat kFormat>
constexpr auto word() {
  if constexpr (kFormat == Dl16 || kFormat == Fp16 || kFormat == Bf16) {
    return std::uint16_t{};
  } else if constexpr (kFormat == Fp32 || kFormat == Uint32) {
    return std::uint32_t{};
  } else if constexpr (kFormat == Int16) {
    return std::int16_t{};
  } else if constexpr (kFormat == Int32) {
    return std::int32_t{};
  } else if constexpr (kFormat == Int64) {
    return std::int64_t{};
  } else if constexpr (kFormat == Int4 || kFormat == Int8) {
    return std::int8_t{};
  } else {
    return std::uint8_t{};
  }
}
// What an element is as a number of C++: integers as themselves, floating-point numbers as their code.
template <ElementFormat kFormat>
using Word = decltype(word<kFormat>());

template <ElementFormat kFormat>
inline constexpr unsigned kPackedBits = kFormat == Int4    ? 4
                                        : kFormat == Uint2 ? 2
                                                           : 0;  // 0: whole bytes

template <ElementFormat kFormat>
Word<kFormat> load(const std::byte* memory, std::int64_t index) {
  Word<kFormat> value;
  if constexpr (kPackedBits<kFormat> != 0) {
    constexpr unsigned kBits = kPackedBits<kFormat>;
    constexpr auto kPerByte = static_cast<std::int64_t>(8 / kBits);
    const auto raw = std::to_integer<unsigned>(memory[index / kPerByte]);
    const unsigned code = raw >> (static_cast<unsigned>(index % kPerByte) * kBits) & ((1u << kBits) - 1);
    const bool negative = kFormat == Int4 && (code & 8u) != 0;
    value = static_cast<Word<kFormat>>(negative ? static_cast<int>(code) - 16 : static_cast<int>(code));
  } else {
    std::memcpy(&value, memory + index * static_cast<std::int64_t>(sizeof value), sizeof value);
  }
  return value;
}

template <ElementFormat kFormat>
void store(std::byte* memory, std::int64_t index, Word<kFormat> value) {
  if constexpr (kPackedBits<kFormat> != 0) {
    constexpr unsigned kBits = kPackedBits<kFormat>;
    constexpr auto kPerByte = static_cast<std::int64_t>(8 / kBits);
    const unsigned shift = static_cast<unsigned>(index % kPerByte) * kBits;
    const unsigned mask = ((1u << kBits) - 1) << shift;
    std::byte& at = memory[index / kPerByte];
    at = static_cast<std::byte>((std::to_integer<unsigned>(at) & ~mask) |
                                (static_cast<unsigned>(value) << shift & mask));
  } else {
    std::memcpy(memory + index * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
  }
}

// ---- one element ----------------------------------------------------------------------------------------------------

template <ElementFormat kFormat>
inline constexpr bool kFloating = kFormat == Dl16 || kFormat == Fp32 || kFormat == Fp16 || kFormat == Bf16 ||
                                  kFormat == Fp8E4m3 || kFormat == Fp8E5m2;

template <ElementFormat kFormat>
constexpr NumberFormat number_format() {
  switch (kFormat) {
    case Fp16: return NumberFormat::Fp16;
    case Bf16: return NumberFormat::Bf16;
    case Fp8E4m3: return NumberFormat::Fp8E4m3;
    case Fp8E5m2: return NumberFormat::Fp8E5m2;
    case Dl16: return NumberFormat::Dl16;
    default: return NumberFormat::Fp32;
  }
}

// Exact.
template <ElementFormat kFormat>
double number(Word<kFormat> code) {
  if constexpr (kFormat == Fp32) {
    return std::bit_cast<float>(code);
  } else if constexpr (kFormat == Bf16) {
    return std::bit_cast<float>(std::uint32_t{code} << 16);
  } else if constexpr (kFormat == Fp16) {
    return std::bit_cast<float>(wire::fp32_bits_from_fp16(code));
  } else if constexpr (kFormat == Dl16) {
    return wire::fp32_from_dl16(code);
  } else {
    return value_of(number_format<kFormat>(), code);
  }
}

template <typename Integer>
Integer saturated(double value, double lowest, double highest) {
  if (std::isnan(value)) return 0;
  const double whole = std::trunc(value);
  if (whole <= lowest) return static_cast<Integer>(lowest);
  // The largest int64 is no double; the next double is beyond it.
  if (whole >= highest) {
    return highest >= 0x1p63 ? std::numeric_limits<Integer>::max() : static_cast<Integer>(highest);
  }
  return static_cast<Integer>(whole);
}

template <ElementFormat kTo>
Word<kTo> integer_from(double value) {
  if constexpr (kTo == Bool) {
    return value != 0 ? 1 : 0;  // NaN too
  } else if constexpr (kTo == Int4) {
    return saturated<Word<kTo>>(value, -8, 7);
  } else if constexpr (kTo == Uint2) {
    return saturated<Word<kTo>>(value, 0, 3);
  } else {
    using Limits = std::numeric_limits<Word<kTo>>;
    return saturated<Word<kTo>>(value, static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max()));
  }
}

inline constexpr std::uint16_t kDl16One = wire::kDl16Bias << wire::kDl16FractionBits;

template <ElementFormat kFrom, ElementFormat kTo>
Word<kTo> converted(Word<kFrom> from) {
  if constexpr (kFrom == kTo) {
    return from;
  } else if constexpr (kFrom == Fp16 && kTo == Dl16) {
    return wire::dl16_from_fp16(from);
  } else if constexpr (kFrom == Dl16 && kTo == Fp16) {
    return wire::fp16_from_dl16(from);
  } else if constexpr (kFrom == Dl16 && kTo == Fp32) {
    return wire::fp32_bits_from_dl16(from);
  } else if constexpr (kFrom == Fp16 && kTo == Fp32) {
    return wire::fp32_bits_from_fp16(from);
  } else if constexpr (kFrom == Bf16 && kTo == Fp32) {
    return std::uint32_t{from} << 16;
  } else if constexpr (kFrom == Bool && kTo == Dl16) {
    return from != 0 ? kDl16One : std::uint16_t{0};
  } else if constexpr (kFrom == Dl16 && kTo == Bool) {
    return wire::dl16_is_zero(from) ? 0 : 1;  // NaN: 1
  } else if constexpr (kFloating<kFrom> && kFloating<kTo>) {
    return static_cast<Word<kTo>>(code_of(number_format<kTo>(), number<kFrom>(from)));
  } else if constexpr (kFloating<kFrom>) {
    return integer_from<kTo>(number<kFrom>(from));
  } else if constexpr (kFloating<kTo>) {
    // An integer that a double does not hold exactly is beyond every format but fp32, and none of those is paired with
    // it.
    static_assert(kTo == Dl16 || sizeof(Word<kFrom>) < 4);
    return static_cast<Word<kTo>>(code_of(number_format<kTo>(), static_cast<double>(from)));
  } else if constexpr (kFrom == Int64 && kTo == Int32) {
    using Limits = std::numeric_limits<Word<kTo>>;
    return static_cast<Word<kTo>>(std::clamp<Word<kFrom>>(from, Limits::min(), Limits::max()));
  } else {
    return static_cast<Word<kTo>>(from);
  }
}

// ---- runs -----------------------------------------------------------------------------------------------------------

// Elements of whole bytes without gaps. The compiler makes vector code of it where the conversion is of integers.
template <ElementFormat kFrom, ElementFormat kTo>
void convert_dense(const ElementRun& run) {
  constexpr auto kSourceBytes = static_cast<std::int64_t>(sizeof(Word<kFrom>));
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Word<kTo>));
  const std::byte* const src = run.src + run.src_first * kSourceBytes;
  std::byte* const dst = run.dst + run.dst_first * kBytes;
  if constexpr (kFrom == kTo) {
    std::memcpy(dst, src, static_cast<std::size_t>(run.count * kBytes));
  } else {
    for (std::int64_t i = 0; i < run.count; ++i) store<kTo>(dst, i, converted<kFrom, kTo>(load<kFrom>(src, i)));
  }
}

template <ElementFormat kFrom, ElementFormat kTo>
void convert_run(const ElementRun& run) {
  if constexpr (kPackedBits<kFrom> == 0 && kPackedBits<kTo> == 0) {
    if (run.src_stride == 1 && run.dst_stride == 1) return convert_dense<kFrom, kTo>(run);
  }
  std::int64_t from = run.src_first;
  std::int64_t to = run.dst_first;
  for (std::int64_t i = 0; i < run.count; ++i, from += run.src_stride, to += run.dst_stride) {
    store<kTo>(run.dst, to, converted<kFrom, kTo>(load<kFrom>(run.src, from)));
  }
}

struct Pair {
  ElementFormat from;
  ElementFormat to;
  ConvertRun run;
};

template <ElementFormat kFrom, ElementFormat... kTo>
constexpr std::array<Pair, sizeof...(kTo)> pairs() {
  return {Pair{kFrom, kTo, convert_run<kFrom, kTo>}...};
}

template <typename... Arrays>
constexpr auto joined(const Arrays&... arrays) {
  std::array<Pair, (std::tuple_size_v<Arrays> + ...)> all{};
  std::size_t at = 0;
  const auto append = [&](const auto& some) {
    for (const Pair& pair : some) all[at++] = pair;
  };
  (append(arrays), ...);
  return all;
}

constexpr auto kPairs =
    joined(pairs<Fp32, Fp32, Dl16, Bf16, Fp8E4m3, Fp8E5m2, Int4, Int8, Uint2>(),
           pairs<Dl16, Dl16, Fp32, Fp16, Bf16, Bool, Int16, Int64>(), pairs<Fp16, Dl16, Fp32, Bf16>(),
           pairs<Bf16, Fp32, Dl16>(), pairs<Bool, Dl16>(), pairs<Int64, Dl16, Int32, Uint32>(),
           pairs<Int32, Int32, Int64>(), pairs<Uint32, Uint32, Int64, Uint8>(), pairs<Int16, Dl16, Int16>(),
           pairs<Int8, Int8, Fp32>(), pairs<Int4, Int4, Fp32>(), pairs<Uint2, Fp32>(), pairs<Fp8E4m3, Fp8E4m3, Fp32>(),
           pairs<Fp8E5m2, Fp8E5m2, Fp32>(), pairs<Uint8, Uint32>());

}  // namespace

std::string_view name(ElementFormat format) {
  switch (format) {
    case Dl16: return "SEN169_FP16";
    case Fp32: return "IEEE_FP32";
    case Fp8E4m3: return "SEN143_FP8";
    case Fp8E5m2: return "SEN152_FP8";
    case Int4: return "SENINT4";
    case Int8: return "SENINT8";
    case Int16: return "SENINT16";
    case Int64: return "IEEE_INT64";
    case Int32: return "IEEE_INT32";
    case Uint32: return "SENUINT32";
    case Uint2: return "SENUINT2";
    case Fp16: return "IEEE_FP16";
    case Bool: return "BOOL";
    case Bf16: return "BFLOAT16";
    case Uint8: return "UINT8";
  }
  return "unknown element format";
}

unsigned bits_of(ElementFormat format) {
  switch (format) {
    case Uint2: return 2;
    case Int4: return 4;
    case Fp8E4m3:
    case Fp8E5m2:
    case Int8:
    case Bool:
    case Uint8: return 8;
    case Dl16:
    case Fp16:
    case Bf16:
    case Int16: return 16;
    case Int64: return 64;
    case Fp32:
    case Int32:
    case Uint32: break;
  }
  return 32;
}

Expected<ElementFormat> format_of(DataType type) {
  switch (type) {
    case DataType::Float16: return Fp16;
    case DataType::BFloat16: return Bf16;
    case DataType::Float32: return Fp32;
    case DataType::Float8E4m3fn: return Fp8E4m3;
    case DataType::Float8E5m2: return Fp8E5m2;
    case DataType::Int8: return Int8;
    case DataType::Uint8: return Uint8;
    case DataType::Int16: return Int16;
    case DataType::Int32: return Int32;
    case DataType::Int64: return Int64;
    case DataType::Bool: return Bool;
    case DataType::Float64: break;
  }
  return std::unexpected(default_device_type(type).error());  // why, and what to do
}

ElementFormat format_of(DeviceType type) {
  switch (type) {
    case DeviceType::Fp32: return Fp32;
    case DeviceType::Int32: return Int32;
    case DeviceType::Int16: return Int16;
    case DeviceType::Int8: return Int8;
    case DeviceType::Uint32: return Uint32;
    case DeviceType::Fp8E4m3: return Fp8E4m3;
    case DeviceType::Fp8E5m2: return Fp8E5m2;
    case DeviceType::Dl16: break;
  }
  return Dl16;
}

ConvertRun conversion(ElementFormat from, ElementFormat to) {
  for (const Pair& pair : kPairs) {
    if (pair.from == from && pair.to == to) return pair.run;
  }
  return nullptr;
}

}  // namespace svp
