// SPDX-License-Identifier: Apache-2.0
// Reductions of lines, against the plain meaning of docs/numerics.md.
#include "qemu/array/lines.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "shared/device_program_names.hpp"
#include "shared/dl16.hpp"

namespace {

using svp::array::LinesPlan;
using wire::program::Format;
using wire::program::Opcode;

constexpr std::uint32_t kFp32Nan = 0x7FC00000;
constexpr float kFactor = 0.3F;

// All positions of one result.
using Codes = std::vector<std::uint32_t>;

// A DL16 sum of a chunk in units of the smallest number's last place, 2^-40: exact, and rounded once.
float chunk_sum(const Codes& codes, std::size_t first, std::size_t end) {
  __int128 units = 0;
  for (std::size_t i = first; i < end; ++i) {
    const auto code = static_cast<wire::Dl16>(codes[i]);
    if (!wire::dl16_is_finite(code)) continue;
    const wire::Dl16Parts parts = wire::dl16_parts(code);
    units += static_cast<__int128>(parts.significand) << parts.exponent;
  }
  // 24 bits and one that stands for what is below them, which a double holds.
  const bool negative = units < 0;
  unsigned __int128 magnitude =
      negative ? -static_cast<unsigned __int128>(units) : static_cast<unsigned __int128>(units);
  int shift = 0;
  bool below = false;
  while (magnitude >> 50 != 0) {
    below = below || (magnitude & 1) != 0;
    magnitude >>= 1;
    ++shift;
  }
  const double value = std::ldexp(static_cast<double>(static_cast<std::uint64_t>(magnitude) << 1 | (below ? 1 : 0)),
                                  shift - 1 + wire::kDl16UnitExponent);
  return static_cast<float>(negative ? -value : value);
}

std::uint32_t sum_dl16(const Codes& codes, bool mean) {
  float sum = 0;
  float infinite = 0;
  bool finite = true;
  for (std::size_t first = 0; first < codes.size(); first += 64) {
    sum += chunk_sum(codes, first, std::min(first + 64, codes.size()));
  }
  for (const std::uint32_t code : codes) {
    if (wire::dl16_is_finite(static_cast<wire::Dl16>(code))) continue;
    finite = false;
    infinite += wire::fp32_from_dl16(static_cast<wire::Dl16>(code));
  }
  float result = finite ? sum : infinite;
  if (mean) result *= kFactor;
  return std::isnan(result) ? wire::kDl16Nan : wire::dl16_from_fp32(result);
}

std::uint32_t sum_fp32(const Codes& codes, bool mean) {
  double sum = 0;
  for (const std::uint32_t code : codes) sum += static_cast<double>(std::bit_cast<float>(code));
  if (mean) sum *= static_cast<double>(kFactor);
  const auto result = static_cast<float>(sum);
  return std::isnan(result) ? kFp32Nan : std::bit_cast<std::uint32_t>(result);
}

std::uint32_t extreme(const Codes& codes, Format format, bool smallest) {
  const auto number = [&](std::uint32_t code) {
    return format == Format::Dl16 ? wire::fp32_from_dl16(static_cast<wire::Dl16>(code)) : std::bit_cast<float>(code);
  };
  std::uint32_t best = codes[0];
  for (const std::uint32_t code : codes) {
    const float x = number(code);
    const float y = number(best);
    if (std::isnan(x)) return format == Format::Dl16 ? wire::kDl16Nan : kFp32Nan;
    const bool more = x != y ? x > y : std::signbit(y) && !std::signbit(x);
    const bool less = x != y ? x < y : std::signbit(x) && !std::signbit(y);
    if (smallest ? less : more) best = code;
  }
  return best;
}

std::uint32_t expected(Opcode opcode, Format format, const Codes& codes) {
  const bool mean = opcode == Opcode::Mean;
  if (opcode == Opcode::Sum || mean) return format == Format::Dl16 ? sum_dl16(codes, mean) : sum_fp32(codes, mean);
  return extreme(codes, format, opcode == Opcode::Min);
}

enum class Numbers { Near, All, WithInfinities, WithNan };

struct Case {
  const char* name;
  Numbers numbers;
  unsigned lines, sticks, lanes;
};

class Lines : public testing::TestWithParam<Case> {
 protected:
  std::mt19937 random_{static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed())};

  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
  std::uint32_t code(Format format, Numbers numbers) {
    const bool dl16 = format == Format::Dl16;
    const bool special = numbers >= Numbers::WithInfinities && below(512) == 0;
    if (special && numbers == Numbers::WithNan) return dl16 ? wire::kDl16Nan : kFp32Nan;
    const std::uint32_t sign = dl16 ? below(2) << 15 : below(2) << 31;
    if (special) return (dl16 ? wire::kDl16Infinity : 0x7F800000u) | sign;
    if (below(16) == 0) return sign;
    if (dl16) {
      const unsigned exponent = numbers == Numbers::Near ? 25 + below(12) : below(63);
      return sign | exponent << 9 | below(512);
    }
    const unsigned exponent = numbers == Numbers::Near ? 120 + below(12) : below(255);
    return sign | exponent << 23 | below(1u << 23);
  }

  template <typename Lane>
  void expect_all(Opcode opcode, Format format, bool along) {
    constexpr unsigned kLanes = wire::kStickBytes / sizeof(Lane);
    const Case c = GetParam();
    const unsigned lanes = std::min(c.lanes, kLanes);
    std::vector<Lane> input(std::size_t{c.lines} * c.sticks * kLanes),
        output(std::size_t{c.lines} * kLanes, Lane{0x55});
    for (Lane& lane : input) lane = static_cast<Lane>(code(format, c.numbers));
    const auto plan = std::make_unique<LinesPlan>();
    plan->request = {};
    plan->request.opcode = static_cast<std::uint32_t>(opcode);
    plan->request.format = static_cast<std::uint32_t>(format);
    plan->request.along = along ? 1 : 0;
    plan->request.lines = c.lines;
    plan->request.sticks = c.sticks;
    plan->request.lanes = lanes;
    plan->request.factor = std::bit_cast<std::uint32_t>(kFactor);
    for (std::size_t n = 0; n < std::size_t{c.lines} * c.sticks; ++n) {
      plan->stick[n] = reinterpret_cast<const std::byte*>(&input[n * kLanes]);
    }
    for (std::size_t i = 0; i < c.lines; ++i) plan->result[i] = reinterpret_cast<std::byte*>(&output[i * kLanes]);
    execute(*plan);
    for (std::size_t i = 0; i < c.lines; ++i) {
      const Lane* const line = &input[i * c.sticks * kLanes];
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        Codes codes;
        for (unsigned n = 0; n < c.sticks; ++n) {
          const unsigned end = n + 1 == c.sticks ? lanes : kLanes;
          if (!along) codes.push_back(line[n * kLanes + lane]);
          for (unsigned l = 0; along && l < end; ++l) codes.push_back(line[n * kLanes + l]);
        }
        const std::uint32_t wanted = along || lane < lanes ? expected(opcode, format, codes) : 0;
        ASSERT_EQ(output[i * kLanes + lane], wanted)
            << wire::program::name(opcode) << (along ? " along, " : " across, ") << "line " << i << ", lane " << lane;
        if (along && lane > 2) break;
      }
    }
  }
};

TEST_P(Lines, AreReducedToTheBit) {
  for (const Opcode opcode : {Opcode::Sum, Opcode::Mean, Opcode::Max, Opcode::Min}) {
    for (const bool along : {false, true}) {
      expect_all<std::uint16_t>(opcode, Format::Dl16, along);
      expect_all<std::uint32_t>(opcode, Format::Fp32, along);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Lines,
    testing::Values(Case{"Near", Numbers::Near, 8, 100, 64}, Case{"Wide", Numbers::All, 8, 100, 64},
                    Case{"Infinities", Numbers::WithInfinities, 20, 17, 64}, Case{"Nan", Numbers::WithNan, 20, 17, 64},
                    Case{"OneStick", Numbers::All, 5, 1, 64}, Case{"Part", Numbers::All, 7, 70, 9},
                    Case{"OneLane", Numbers::WithNan, 64, 16, 1}, Case{"Long", Numbers::All, 1, 1024, 64}),
    [](const auto& info) { return info.param.name; });

}  // namespace
