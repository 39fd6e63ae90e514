// SPDX-License-Identifier: Apache-2.0
// Fills, constants and tables of formats.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>

#include "tests/conformance/flex/flex_runtime.hpp"
#include "tests/conformance/flex/reference.hpp"

namespace flex_test {
namespace {

using testing::HasSubstr;

class FlexFill : public FlexRuntime {};

// What a fill writes for each value: by the reference, from fp32 where the value is one.
TEST_F(FlexFill, EveryElementBecomesTheValue) {
  struct Case {
    DataFormats format;
    double value;
    std::uint64_t code;
  };
  const std::vector<Case> cases = {
      {DataFormats::SEN169_FP16, 3.14, 0x4124},
      {DataFormats::SEN169_FP16, -1, 0xBE00},
      {DataFormats::SEN169_FP16, -INFINITY, 0xFFFF},
      {DataFormats::SEN169_FP16, INFINITY, 0x7FFF},
      {DataFormats::SEN169_FP16, NAN, 0x7FFE},
      {DataFormats::IEEE_FP32, 0.1, std::bit_cast<std::uint32_t>(0.1F)},
      {DataFormats::IEEE_FP16, 1, 0x3C00},
      {DataFormats::BFLOAT16, 1, 0x3F80},
      {DataFormats::SEN143_FP8, 1, 0x38},
      {DataFormats::SEN143_FP8, 1000, 0x7E},
      {DataFormats::SEN143_FP8, -1e9, 0xFE},
      {DataFormats::SEN143_FP8, INFINITY, 0x7E},
      {DataFormats::SEN143_FP8, -INFINITY, 0xFE},
      {DataFormats::SEN152_FP8, 1, 0x3C},
      {DataFormats::SENINT8, -3, 0xFD},
      {DataFormats::SENINT8, 300, 0x7F},
      {DataFormats::SENINT16, -3.9, 0xFFFD},
      {DataFormats::IEEE_INT32, -1e12, 0x80000000},
      {DataFormats::IEEE_INT64, -2, ~std::uint64_t{0} - 1},
      {DataFormats::IEEE_INT64, 1e300, ~std::uint64_t{0} >> 1},
      {DataFormats::SENUINT32, 4e9, 4000000000},
      {DataFormats::SENUINT32, -1, 0},
      {DataFormats::SENUINT2, 7, 3},
      {DataFormats::SENINT4, -8, 8},
      {DataFormats::SENINT2, -1, 3},
      {DataFormats::BOOL, NAN, 1},
      {DataFormats::IEEE_INT32, NAN, 0},
  };
  const auto memory = tensor(1024);
  for (const Case& one : cases) {
    stream().fillAsync(&memory, one.value, one.format, true);
    const auto bytes = content(memory);
    const auto count = static_cast<std::int64_t>(bytes.size() * 8 / bits_of(one.format));
    std::int64_t right = 0;
    for (std::int64_t i = 0; i < count; ++i) right += element(bytes, one.format, i) == one.code ? 1 : 0;
    EXPECT_EQ(right, count) << EnumsConversion::dataFormatsToString(one.format) << " " << one.value << ": first code "
                            << std::hex << element(bytes, one.format, 0);
  }
}

TEST_F(FlexFill, APartIsFilledAlone) {
  const auto memory = tensor(1024);
  stream().fillAsync(&memory, 1, DataFormats::SENINT8, true);
  const auto part = part_of(memory, 256, 384);
  stream().fillAsync(&part, 2, DataFormats::SENINT8, true);
  std::vector<std::uint8_t> expected(1024, 1);
  std::fill(expected.begin() + 256, expected.begin() + 640, std::uint8_t{2});
  EXPECT_EQ(content(memory), expected);
}

TEST_F(FlexFill, FormatsWithoutElementsOnTheCardAreRefused) {
  const auto memory = tensor(128);
  for (const DataFormats format : {DataFormats::INVALID, DataFormats::SENINT24, DataFormats::SEN153_FP9,
                                   DataFormats::SEN18F_FP24, static_cast<DataFormats>(77)}) {
    EXPECT_THAT(what_of([&] { stream().fillAsync(&memory, 1, format, true); }), HasSubstr("no fill"));
    EXPECT_FALSE(dataFormatToStickSize.contains(format));
  }
}

TEST(FlexFormats, SticksHold128Bytes) {
  for (const auto& [format, count] : dataFormatToStickSize) {
    EXPECT_EQ(static_cast<unsigned>(count) * bits_of(format), 1024U) << EnumsConversion::dataFormatsToString(format);
  }
  EXPECT_EQ(dataFormatToStickSize.size(), 15U);
  EXPECT_EQ(EnumsConversion::dataFormatsToString(DataFormats::SEN169_FP16), "SEN169_FP16");
  EXPECT_EQ(EnumsConversion::dataFormatsToString(static_cast<DataFormats>(77)), "INVALID");
}

TEST(FlexFormats, ConstantsAreCodes) {
  EXPECT_EQ(deeptools::BinaryConvert<std::uint32_t>(1.0F), 0x3F800000U);
  EXPECT_EQ(deeptools::FloatToFp16Bin(1.0F), 0x3E00);
  EXPECT_EQ(deeptools::FloatToFp16Bin(3.14F), 0x4124);
  EXPECT_EQ(deeptools::FloatToFp16Bin(-0.0F), 0x8000);
  EXPECT_EQ(deeptools::FloatToFp16Bin(INFINITY), 0x7FFF);
  EXPECT_EQ(deeptools::FloatToFp16Bin(-INFINITY), 0xFFFF);
}

}  // namespace
}  // namespace flex_test
