// SPDX-License-Identifier: Apache-2.0
// The vector conversions give the bit patterns of shared/dl16.hpp, on every instruction set.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "host_driver/tensor/element_format.hpp"
#include "host_driver/tensor/stickify.hpp"
#include "hwy/highway.h"
#include "shared/dl16.hpp"
#include "tests/unit/host_driver/tensor/every_target.hpp"

namespace svp {
namespace {

using testing::on_every_target;

std::vector<std::uint16_t> all_codes() {
  std::vector<std::uint16_t> codes(65536);
  std::iota(codes.begin(), codes.end(), std::uint16_t{0});
  return codes;
}

template <typename From, typename To>
void expect_equal(const std::vector<From>& from, const std::vector<To>& actual, To (*reference)(From)) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (actual[i] == reference(from[i])) continue;
    if (++wrong < 5) ADD_FAILURE() << std::hex << from[i] << " gave " << actual[i] << ", not " << reference(from[i]);
  }
  EXPECT_EQ(wrong, 0U);
}

TEST(Conversion, SeveralInstructionSetsAreUnderTest) { EXPECT_GE(hwy::SupportedAndGeneratedTargets().size(), 2U); }

TEST(Conversion, EveryFp16BecomesTheReferenceDl16) {
  on_every_target([] {
    const auto from = all_codes();
    std::vector<wire::Dl16> to(from.size());
    convert_to_device(DataType::Float16, DeviceType::Dl16, from.data(), to.data(), from.size());
    expect_equal(from, to, wire::dl16_from_fp16);
  });
}

TEST(Conversion, EveryDl16BecomesTheReferenceFp16) {
  on_every_target([] {
    const auto from = all_codes();
    std::vector<std::uint16_t> to(from.size());
    convert_to_host(DeviceType::Dl16, DataType::Float16, from.data(), to.data(), from.size());
    expect_equal(from, to, wire::fp16_from_dl16);
  });
}

TEST(Conversion, EveryDl16BecomesTheReferenceFp32) {
  on_every_target([] {
    const auto from = all_codes();
    std::vector<std::uint32_t> to(from.size());
    convert_to_host(DeviceType::Dl16, DataType::Float32, from.data(), to.data(), from.size());
    expect_equal(from, to, wire::fp32_bits_from_dl16);
  });
}

// The conversion keeps 18 bits of an fp32 and rounds 14 away: all of the former, and of the latter everything that
// decides a rounding.
TEST(Conversion, Fp32BecomesTheReferenceDl16ForAllUpperBitsAroundEveryTie) {
  std::vector<std::uint32_t> from;
  for (std::uint32_t upper = 0; upper < (1U << 18); ++upper) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0x1FFFU, 0x2000U, 0x2001U, 0x3FFFU}) {
      from.push_back(upper << 14 | lower);
    }
  }
  std::vector<wire::Dl16> to(from.size());
  on_every_target([&] {
    convert_to_device(DataType::Float32, DeviceType::Dl16, from.data(), to.data(), from.size());
    expect_equal(from, to, wire::dl16_from_fp32_bits);
  });
}

TEST(Conversion, EveryBf16BecomesTheReferenceDl16) {
  on_every_target([] {
    const auto from = all_codes();
    std::vector<wire::Dl16> to(from.size());
    convert_to_device(DataType::BFloat16, DeviceType::Dl16, from.data(), to.data(), from.size());
    expect_equal(from, to, wire::dl16_from_bf16);
  });
}

std::uint16_t nearest_even_bf16(wire::Dl16 code) {
  const std::uint32_t bits = wire::fp32_bits_from_dl16(code);
  const std::uint32_t rest = bits & 0xFFFFU;
  const std::uint32_t kept = bits >> 16;
  const bool up = rest > 0x8000U || (rest == 0x8000U && (kept & 1U) != 0);
  return static_cast<std::uint16_t>(kept + up);
}

TEST(Conversion, EveryDl16BecomesTheNearestBf16) {
  on_every_target([] {
    const auto from = all_codes();
    std::vector<std::uint16_t> to(from.size());
    convert_to_host(DeviceType::Dl16, DataType::BFloat16, from.data(), to.data(), from.size());
    expect_equal(from, to, nearest_even_bf16);
  });
}

TEST(Conversion, EveryFp16SubnormalSurvivesTheRoundTrip) {
  on_every_target([] {
    std::vector<std::uint16_t> from;
    for (std::uint32_t m = 0; m < 0x400; ++m) {
      from.push_back(static_cast<std::uint16_t>(m));
      from.push_back(static_cast<std::uint16_t>(m | 0x8000U));
    }
    std::vector<std::uint16_t> device(from.size());
    std::vector<std::uint16_t> back(from.size());
    convert_to_device(DataType::Float16, DeviceType::Dl16, from.data(), device.data(), from.size());
    convert_to_host(DeviceType::Dl16, DataType::Float16, device.data(), back.data(), from.size());
    EXPECT_EQ(back, from);
  });
}

// Lengths around the vector and stick sizes; what lies behind the end stays as it was.
TEST(Conversion, EveryLengthEndsExactlyWhereItShould) {
  on_every_target([] {
    for (std::size_t count = 0; count <= 200; ++count) {
      std::vector<std::uint32_t> from(count);
      for (std::size_t i = 0; i < count; ++i) from[i] = 0x3F800000U + static_cast<std::uint32_t>(i << 16);
      std::vector<wire::Dl16> device(count + 1, 0xABCD);
      convert_to_device(DataType::Float32, DeviceType::Dl16, from.data(), device.data(), count);
      std::vector<std::uint32_t> back(count + 1, 0xDEADBEEF);
      convert_to_host(DeviceType::Dl16, DataType::Float32, device.data(), back.data(), count);
      ASSERT_EQ(device.back(), 0xABCD);
      ASSERT_EQ(back.back(), 0xDEADBEEF);
      back.pop_back();
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(device[i], wire::dl16_from_fp32_bits(from[i]));
        ASSERT_EQ(back[i], wire::fp32_bits_from_dl16(device[i]));
      }
    }
  });
}

// Every code of DL16 and of bytes, random 32 and 64 bits; lengths that end inside of a vector.
TEST(Conversion, IntegersAndBooleansAreAsTheConversionOfOneElement) {
  on_every_target([] {
    std::mt19937_64 random(3);
    for (const auto& [host, device] : {std::pair{DataType::Int64, DeviceType::Int32},
                                       {DataType::Uint8, DeviceType::Uint32},
                                       {DataType::Bool, DeviceType::Dl16}}) {
      const ElementFormat on_host = format_of(host).value();
      const ElementFormat on_card = format_of(device);
      const std::size_t count = 65'536 + 37;
      std::vector<std::uint64_t> from(count);
      for (std::uint64_t& word : from) word = random() >> random() % 64;  // within int32 and beyond
      std::vector<std::uint64_t> ours(count), expected(count);
      const auto* const source = reinterpret_cast<const std::byte*>(from.data());
      auto* const reference = reinterpret_cast<std::byte*>(expected.data());
      const auto length = static_cast<std::int64_t>(count);
      convert_to_device(host, device, from.data(), ours.data(), count);
      conversion(on_host, on_card)({source, 0, 1, reference, 0, 1, length});
      EXPECT_EQ(ours, expected);
      if (device == DeviceType::Dl16) {
        auto* const codes = reinterpret_cast<std::uint16_t*>(from.data());
        for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint16_t>(i);
      }
      convert_to_host(device, host, from.data(), ours.data(), count);
      conversion(on_card, on_host)({source, 0, 1, reference, 0, 1, length});
      EXPECT_EQ(ours, expected);
    }
  });
}

TEST(Conversion, PairsWithoutARuleAreRefused) {
  std::uint64_t memory = 0;
  for (const auto& [host, device] : {std::pair{DataType::Float64, DeviceType::Fp32},
                                     {DataType::Float16, DeviceType::Fp32},
                                     {DataType::Int16, DeviceType::Dl16}}) {
    EXPECT_THROW(convert_to_device(host, device, &memory, &memory, 0), InvalidArgument);
  }
}

}  // namespace
}  // namespace svp
