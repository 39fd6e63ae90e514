// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/element_format.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "host_driver/tensor/number_format.hpp"
#include "host_driver/tensor/stick_kernels.hpp"
#include "shared/dl16.hpp"

namespace svp {
namespace {

using enum ElementFormat;
using Pairs = std::set<std::pair<ElementFormat, ElementFormat>>;

constexpr ElementFormat kFormats[] = {Dl16,  Fp32,   Fp8E4m3, Fp8E5m2, Int4, Int8, Int16, Int64,
                                      Int32, Uint32, Uint2,   Fp16,    Bool, Bf16, Uint8};

const Pairs kTorchSpyrePairs = {
    {Fp32, Fp32},   {Fp32, Dl16},     {Fp32, Bf16},    {Fp32, Fp8E4m3},    {Fp32, Int4},    {Fp32, Int8},
    {Fp32, Uint2},  {Dl16, Dl16},     {Dl16, Fp32},    {Dl16, Fp16},       {Dl16, Bf16},    {Dl16, Bool},
    {Dl16, Int16},  {Dl16, Int64},    {Fp16, Dl16},    {Fp16, Fp32},       {Fp16, Bf16},    {Bf16, Fp32},
    {Bf16, Dl16},   {Bool, Dl16},     {Int64, Dl16},   {Int64, Int32},     {Int64, Uint32}, {Int32, Int32},
    {Int32, Int64}, {Uint32, Uint32}, {Uint32, Int64}, {Int16, Dl16},      {Int8, Int8},    {Int8, Fp32},
    {Int4, Int4},   {Int4, Fp32},     {Uint2, Fp32},   {Fp8E4m3, Fp8E4m3}, {Fp8E4m3, Fp32},
};
const Pairs kOwnPairs = {{Int16, Int16},  {Fp8E5m2, Fp8E5m2}, {Fp8E5m2, Fp32},
                         {Fp32, Fp8E5m2}, {Uint8, Uint32},    {Uint32, Uint8}};

TEST(ElementFormat, ThePairsAreThoseOfTorchSpyreAndSixOfOurOwn) {
  EXPECT_EQ(kTorchSpyrePairs.size(), 35u);
  Pairs expected = kTorchSpyrePairs;
  expected.insert(kOwnPairs.begin(), kOwnPairs.end());
  Pairs found;
  for (const auto from : kFormats) {
    for (const auto to : kFormats) {
      if (conversion(from, to) != nullptr) found.emplace(from, to);
    }
  }
  EXPECT_EQ(found, expected);
}

template <typename To, typename From>
To convert(ElementFormat from, ElementFormat to, From value) {
  To result{};
  conversion(from,
             to)({reinterpret_cast<const std::byte*>(&value), 0, 1, reinterpret_cast<std::byte*>(&result), 0, 1, 1});
  return result;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint16_t dl16(double value) { return wire::dl16_from_fp64(value); }

// ---- floating point -------------------------------------------------------------------------------------------------

TEST(ElementFormat, EveryDl16CodeGoesOutAsTheReferenceSays) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto value = static_cast<std::uint16_t>(code);
    const double number = wire::fp64_from_dl16(value);
    EXPECT_EQ(convert<std::uint16_t>(Dl16, Dl16, value), value);
    EXPECT_EQ(convert<std::uint16_t>(Dl16, Fp16, value), wire::fp16_from_dl16(value));
    EXPECT_EQ(convert<std::uint32_t>(Dl16, Fp32, value), wire::fp32_bits_from_dl16(value));
    EXPECT_EQ(convert<std::uint16_t>(Dl16, Bf16, value), code_of(NumberFormat::Bf16, number)) << code;
    EXPECT_EQ(convert<std::uint8_t>(Dl16, Bool, value), wire::dl16_is_zero(value) ? 0 : 1);
    std::int64_t integer = number > 0 ? INT64_MAX : INT64_MIN;  // of infinities
    if (std::isnan(number)) integer = 0;
    if (std::isfinite(number)) integer = static_cast<std::int64_t>(number);
    EXPECT_EQ(convert<std::int64_t>(Dl16, Int64, value), integer);
    const double clamped = std::isnan(number) ? 0 : std::clamp(std::trunc(number), -32768.0, 32767.0);
    EXPECT_EQ(convert<std::int16_t>(Dl16, Int16, value), static_cast<std::int16_t>(clamped));
  }
}

TEST(ElementFormat, EveryFp16AndBf16CodeComesInAsTheReferenceSays) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto value = static_cast<std::uint16_t>(code);
    EXPECT_EQ(convert<std::uint16_t>(Fp16, Dl16, value), wire::dl16_from_fp16(value));
    EXPECT_EQ(convert<std::uint32_t>(Fp16, Fp32, value), wire::fp32_bits_from_fp16(value));
    EXPECT_EQ(convert<std::uint16_t>(Bf16, Dl16, value), wire::dl16_from_bf16(value));
    EXPECT_EQ(convert<std::uint32_t>(Bf16, Fp32, value), code << 16);
    const double number = std::bit_cast<float>(wire::fp32_bits_from_fp16(value));
    EXPECT_EQ(convert<std::uint16_t>(Fp16, Bf16, value), code_of(NumberFormat::Bf16, number));
  }
}

TEST(ElementFormat, RandomFp32GoesInAsTheReferenceSays) {
  std::mt19937 random(3);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const double number = std::bit_cast<float>(bits);
    ASSERT_EQ(convert<std::uint16_t>(Fp32, Dl16, bits), wire::dl16_from_fp32_bits(bits)) << bits;
    ASSERT_EQ(convert<std::uint16_t>(Fp32, Bf16, bits), code_of(NumberFormat::Bf16, number)) << bits;
    ASSERT_EQ(convert<std::uint8_t>(Fp32, Fp8E4m3, bits), code_of(NumberFormat::Fp8E4m3, number)) << bits;
    ASSERT_EQ(convert<std::uint8_t>(Fp32, Fp8E5m2, bits), code_of(NumberFormat::Fp8E5m2, number)) << bits;
  }
}

TEST(ElementFormat, Fp8GoesOutExactly) {
  for (unsigned code = 0; code < 256; ++code) {
    for (const auto& [from, format] : {std::pair{Fp8E4m3, NumberFormat::Fp8E4m3}, {Fp8E5m2, NumberFormat::Fp8E5m2}}) {
      const auto value = convert<float>(from, Fp32, static_cast<std::uint8_t>(code));
      const double expected = value_of(format, code);
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(value) : value == expected) << code;
      EXPECT_EQ(convert<std::uint8_t>(from, from, static_cast<std::uint8_t>(code)), code);
    }
  }
}

// Both ways through the vector code, every instruction set of this machine: conversion_test does that for dense arrays.
TEST(ElementFormat, TheFastKernelsAgreeOnEveryCode) {
  std::vector<std::uint16_t> codes(0x10000);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  const auto expect_same = [&](ElementFormat from, ElementFormat to, kernels::Conversion fast, bool to_device) {
    std::vector<std::uint16_t> ours(codes.size());
    std::vector<std::uint16_t> theirs(codes.size());
    conversion(from, to)({reinterpret_cast<const std::byte*>(codes.data()), 0, 1,
                          reinterpret_cast<std::byte*>(ours.data()), 0, 1, static_cast<std::int64_t>(codes.size())});
    kernels::convert(fast, to_device, codes.data(), theirs.data(), codes.size());
    EXPECT_EQ(ours, theirs) << name(from) << " to " << name(to);
  };
  expect_same(Fp16, Dl16, kernels::Conversion::Fp16Dl16, true);
  expect_same(Dl16, Fp16, kernels::Conversion::Fp16Dl16, false);
  expect_same(Bf16, Dl16, kernels::Conversion::Bf16Dl16, true);
  expect_same(Dl16, Bf16, kernels::Conversion::Bf16Dl16, false);
}

// ---- integers -------------------------------------------------------------------------------------------------------

TEST(ElementFormat, FloatsBecomeIntegersTowardZeroAndSaturate) {
  EXPECT_EQ(convert<std::int8_t>(Fp32, Int8, 1.9f), 1);
  EXPECT_EQ(convert<std::int8_t>(Fp32, Int8, -1.9f), -1);
  EXPECT_EQ(convert<std::int8_t>(Fp32, Int8, 1e9f), 127);
  EXPECT_EQ(convert<std::int8_t>(Fp32, Int8, -kInfinity), -128);
  EXPECT_EQ(convert<std::int8_t>(Fp32, Int8, kNan), 0);
  EXPECT_EQ(convert<std::int64_t>(Dl16, Int64, dl16(-8564768768.0)), -8564768768);
  EXPECT_EQ(convert<std::int16_t>(Dl16, Int16, dl16(1e6)), 32767);
}

TEST(ElementFormat, Int64SaturatesInInt32) {
  EXPECT_EQ(convert<std::int32_t>(Int64, Int32, std::int64_t{0x1'0000'0001}), INT32_MAX);
  EXPECT_EQ(convert<std::int32_t>(Int64, Int32, std::int64_t{-0x1'0000'0001}), INT32_MIN);
  EXPECT_EQ(convert<std::int32_t>(Int64, Int32, std::int64_t{INT32_MAX}), INT32_MAX);
  EXPECT_EQ(convert<std::int32_t>(Int64, Int32, std::int64_t{INT32_MIN}), INT32_MIN);
}

TEST(ElementFormat, OtherNarrowerIntegersKeepTheLowBits) {
  EXPECT_EQ(convert<std::uint32_t>(Int64, Uint32, std::int64_t{-1}), 0xffff'ffffu);
  EXPECT_EQ(convert<std::uint8_t>(Uint32, Uint8, std::uint32_t{0x1ff}), 0xff);
}

TEST(ElementFormat, WiderIntegersKeepTheirValue) {
  EXPECT_EQ(convert<std::int64_t>(Int32, Int64, std::int32_t{-5}), -5);
  EXPECT_EQ(convert<std::int64_t>(Uint32, Int64, 0xffff'ffffu), 0xffff'ffff);
  EXPECT_EQ(convert<std::uint32_t>(Uint8, Uint32, std::uint8_t{200}), 200u);
}

TEST(ElementFormat, IntegersBecomeDl16InOneRounding) {
  EXPECT_EQ(convert<std::uint16_t>(Int64, Dl16, std::int64_t{1025}), dl16(1026)) << "a tie goes away from zero";
  EXPECT_EQ(convert<std::uint16_t>(Int64, Dl16, std::int64_t{-1}), dl16(-1));
  EXPECT_EQ(convert<std::uint16_t>(Int64, Dl16, std::numeric_limits<std::int64_t>::min()), 0xFFFF);
  EXPECT_EQ(convert<std::uint16_t>(Int16, Dl16, std::int16_t{-32768}), dl16(-32768));
}

TEST(ElementFormat, BoolIsOneForAnythingButZero) {
  EXPECT_EQ(convert<std::uint16_t>(Bool, Dl16, std::uint8_t{0}), 0);
  EXPECT_EQ(convert<std::uint16_t>(Bool, Dl16, std::uint8_t{1}), dl16(1));
  EXPECT_EQ(convert<std::uint16_t>(Bool, Dl16, std::uint8_t{255}), dl16(1));
  EXPECT_EQ(convert<std::uint8_t>(Dl16, Bool, std::uint16_t{0x8000}), 0);
  EXPECT_EQ(convert<std::uint8_t>(Dl16, Bool, std::uint16_t{0x7fff}), 1);
  EXPECT_EQ(convert<std::uint8_t>(Dl16, Bool, std::uint16_t{0x7ffe}), 1);
  EXPECT_EQ(convert<std::uint8_t>(Dl16, Bool, std::uint16_t{0x0001}), 1);
}

// ---- less than a byte -----------------------------------------------------------------------------------------------

TEST(ElementFormat, SmallElementsArePackedLowBitsFirst) {
  const float values[] = {1, -2, 7, -8, 9};
  std::array<std::uint8_t, 3> packed{0xff, 0xff, 0xff};
  conversion(Fp32, Int4)(
      {reinterpret_cast<const std::byte*>(values), 0, 1, reinterpret_cast<std::byte*>(packed.data()), 0, 1, 5});
  EXPECT_EQ(packed, (std::array<std::uint8_t, 3>{0xe1, 0x87, 0xf7})) << "the last half byte belongs to somebody else";
  std::array<float, 5> back{};
  conversion(Int4, Fp32)(
      {reinterpret_cast<const std::byte*>(packed.data()), 0, 1, reinterpret_cast<std::byte*>(back.data()), 0, 1, 5});
  EXPECT_EQ(back, (std::array<float, 5>{1, -2, 7, -8, 7}));

  std::array<std::uint8_t, 2> pairs{};
  conversion(Fp32, Uint2)(
      {reinterpret_cast<const std::byte*>(values), 0, 1, reinterpret_cast<std::byte*>(pairs.data()), 1, 1, 5});
  EXPECT_EQ(pairs, (std::array<std::uint8_t, 2>{0b11'00'01'00, 0b00'00'11'00}));
}

TEST(ElementFormat, RunsStepInBothDirections) {
  const std::uint16_t from[] = {1, 2, 3, 4, 5, 6};
  std::array<std::uint16_t, 6> to{9, 9, 9, 9, 9, 9};
  conversion(Dl16,
             Dl16)({reinterpret_cast<const std::byte*>(from), 5, -2, reinterpret_cast<std::byte*>(to.data()), 0, 2, 3});
  EXPECT_EQ(to, (std::array<std::uint16_t, 6>{6, 9, 4, 9, 2, 9}));
}

TEST(ElementFormat, TypesOfHostAndCardHaveAFormat) {
  EXPECT_EQ(format_of(DataType::BFloat16).value(), Bf16);
  EXPECT_EQ(format_of(DeviceType::Dl16), Dl16);
  EXPECT_FALSE(format_of(DataType::Float64).has_value());
}

}  // namespace
}  // namespace svp
