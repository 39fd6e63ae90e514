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
#include "tests/unit/qemu/array/each_target.hpp"

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

// A whole number of any size that is needed here, as an fp64: rounded once.
class Natural {
 public:
  void add(std::uint64_t n, unsigned shift) {
    for (unsigned bit = 0; n != 0; ++bit, n >>= 1) {
      if ((n & 1) != 0) add_bit(bit + shift);
    }
  }
  double to_fp64() const {
    unsigned top = kBits;
    while (top > 0 && !bits_[top - 1]) --top;
    std::uint64_t significand = 0;  // 53 bits and the one behind them
    const unsigned end = top < 54 ? 0 : top - 54;
    for (unsigned b = top; b > end; --b) significand = significand << 1 | (bits_[b - 1] ? 1 : 0);
    bool rest = false;
    for (unsigned b = 0; b < end; ++b) rest = rest || bits_[b];
    if (end == 0) return std::ldexp(static_cast<double>(significand), static_cast<int>(end));
    const bool half = (significand & 1) != 0;
    significand >>= 1;
    if (half && (rest || (significand & 1) != 0)) ++significand;
    return std::ldexp(static_cast<double>(significand), static_cast<int>(end) + 1);
  }

 private:
  static constexpr unsigned kBits = 192;
  void add_bit(unsigned b) {
    while (bits_[b]) bits_[b++] = false;
    bits_[b] = true;
  }
  bool bits_[kBits]{};
};

struct Pair {
  double sum = 0;
  double squares = 0;
};

Pair moments_dl16(const Codes& codes) {
  Pair pair;
  for (std::size_t first = 0; first < codes.size(); first += 64) {
    Natural squares;
    __int128 units = 0;
    for (std::size_t i = first; i < std::min(first + 64, codes.size()); ++i) {
      const auto code = static_cast<wire::Dl16>(codes[i]);
      if (!wire::dl16_is_finite(code)) return {std::nan(""), std::nan("")};
      const wire::Dl16Parts parts = wire::dl16_parts(code);
      units += static_cast<__int128>(parts.significand) << parts.exponent;
      const auto magnitude = static_cast<std::uint64_t>(std::abs(parts.significand));
      squares.add(magnitude * magnitude, 2 * parts.exponent);
    }
    Natural sum;
    const auto magnitude = static_cast<unsigned __int128>(units < 0 ? -units : units);
    sum.add(static_cast<std::uint64_t>(magnitude), 0);
    sum.add(static_cast<std::uint64_t>(magnitude >> 64), 64);
    pair.sum += std::ldexp(units < 0 ? -sum.to_fp64() : sum.to_fp64(), wire::kDl16UnitExponent);
    pair.squares += std::ldexp(squares.to_fp64(), 2 * wire::kDl16UnitExponent);
  }
  return pair;
}

Pair moments_fp32(const Codes& codes) {
  Pair pair;
  for (const std::uint32_t code : codes) {
    const auto x = static_cast<double>(std::bit_cast<float>(code));
    pair.sum += x;
    const double square = x * x;
    pair.squares += square;
  }
  return pair;
}

std::uint64_t times_factor(double value) {
  const double product = value * static_cast<double>(kFactor);
  return std::isnan(product) ? std::uint64_t{0x7FF8} << 48 : std::bit_cast<std::uint64_t>(product);
}

enum class Numbers { Near, All, Apart, WithInfinities, WithNan };

struct Case {
  const char* name;
  Numbers numbers;
  unsigned lines, sticks, lanes;
  unsigned apart = 0;  // binades between the numbers of Apart, most of which are as large as their exponents allow
  unsigned from = 5;   // the exponent of the smaller ones of DL16
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
    if (numbers == Numbers::Apart) {
      const unsigned exponent = (dl16 ? GetParam().from : 100) + below(2) * GetParam().apart;
      const unsigned places = dl16 ? 9 : 23;
      const std::uint32_t digits = below(8) != 0 ? (1u << places) - 1 : below(1u << places);
      return (below(8) == 0 ? sign : 0) | exponent << places | digits;
    }
    if (dl16) {
      const unsigned exponent = numbers == Numbers::Near ? 25 + below(12) : below(63);
      return sign | exponent << 9 | below(512);
    }
    const unsigned exponent = numbers == Numbers::Near ? 120 + below(12) : below(255);
    return sign | exponent << 23 | below(1u << 23);
  }

  template <typename Lane>
  struct Executed {
    static constexpr unsigned kLanes = wire::kStickBytes / sizeof(Lane);
    Case c;
    unsigned lanes;
    std::vector<Lane> input, output;

    // Of a line across sticks: of that lane.
    Codes codes(std::size_t i, bool along, unsigned lane) const {
      const Lane* const line = &input[i * c.sticks * kLanes];
      Codes all;
      for (unsigned n = 0; n < c.sticks; ++n) {
        const unsigned end = n + 1 == c.sticks ? lanes : kLanes;
        if (!along) all.push_back(line[n * kLanes + lane]);
        for (unsigned l = 0; along && l < end; ++l) all.push_back(line[n * kLanes + l]);
      }
      return all;
    }
  };

  template <typename Lane>
  Executed<Lane> executed(Opcode opcode, Format format, bool along) {
    constexpr unsigned kLanes = Executed<Lane>::kLanes;
    const Case c = GetParam();
    EXPECT_LE(c.lines * c.sticks, wire::array::kMaxLineSticks) << "no request can be that";
    Executed<Lane> lines{c, std::min(c.lanes, kLanes), {}, {}};
    lines.input.resize(std::size_t{c.lines} * c.sticks * kLanes);
    lines.output.assign(std::size_t{c.lines} * kLanes, Lane{0x55});
    for (Lane& lane : lines.input) lane = static_cast<Lane>(code(format, c.numbers));
    const auto plan = std::make_unique<LinesPlan>();
    plan->request = {};
    plan->request.opcode = static_cast<std::uint32_t>(opcode);
    plan->request.format = static_cast<std::uint32_t>(format);
    plan->request.along = along ? 1 : 0;
    plan->request.lines = c.lines;
    plan->request.sticks = c.sticks;
    plan->request.lanes = lines.lanes;
    plan->request.factor = std::bit_cast<std::uint32_t>(kFactor);
    for (std::size_t n = 0; n < std::size_t{c.lines} * c.sticks; ++n) {
      plan->stick[n] = reinterpret_cast<const std::byte*>(&lines.input[n * kLanes]);
    }
    for (std::size_t i = 0; i < c.lines; ++i) {
      plan->result[i] = reinterpret_cast<std::byte*>(&lines.output[i * kLanes]);
    }
    execute(*plan);
    return lines;
  }

  template <typename Lane>
  void expect_all(Opcode opcode, Format format, bool along) {
    const auto lines = executed<Lane>(opcode, format, along);
    for (std::size_t i = 0; i < lines.c.lines; ++i) {
      for (unsigned lane = 0; lane < (along ? 3 : lines.kLanes); ++lane) {
        const std::uint32_t wanted =
            along || lane < lines.lanes ? expected(opcode, format, lines.codes(i, along, lane)) : 0;
        ASSERT_EQ(lines.output[i * lines.kLanes + lane], wanted)
            << wire::program::name(opcode) << (along ? " along, " : " across, ") << "line " << i << ", lane " << lane;
      }
    }
  }

  template <typename Lane>
  void expect_moments(Format format) {
    const auto lines = executed<Lane>(Opcode::Exx2, format, true);
    for (std::size_t i = 0; i < lines.c.lines; ++i) {
      const Codes codes = lines.codes(i, true, 0);
      const Pair pair = format == Format::Dl16 ? moments_dl16(codes) : moments_fp32(codes);
      std::uint64_t words[wire::kStickBytes / 8];
      std::memcpy(words, &lines.output[i * lines.kLanes], sizeof words);
      ASSERT_EQ(words[0], times_factor(pair.sum)) << "line " << i;
      ASSERT_EQ(words[1], times_factor(pair.squares)) << "line " << i;
      for (unsigned w = 2; w < std::size(words); ++w) ASSERT_EQ(words[w], 0u) << "line " << i << ", word " << w;
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

TEST_P(Lines, AreTheSameOnEveryTargetOfTheHost) {
  unsigned targets = 0;
  svp::test::EachTarget().visit([&](const char* name) {
    SCOPED_TRACE(name);
    ++targets;
    for (const bool along : {false, true}) expect_all<std::uint16_t>(Opcode::Sum, Format::Dl16, along);
    expect_moments<std::uint16_t>(Format::Dl16);
  });
  EXPECT_GT(targets, 1u) << "every x86-64 has two";
}

TEST_P(Lines, HaveTheirMomentsToTheBit) {
  expect_moments<std::uint16_t>(Format::Dl16);
  expect_moments<std::uint32_t>(Format::Fp32);
}

INSTANTIATE_TEST_SUITE_P(
    All, Lines,
    testing::Values(Case{"Near", Numbers::Near, 8, 100, 64}, Case{"Wide", Numbers::All, 8, 100, 64},
                    Case{"Apart15", Numbers::Apart, 8, 100, 64, 15}, Case{"Apart16", Numbers::Apart, 8, 100, 64, 16},
                    Case{"Apart57", Numbers::Apart, 8, 100, 64, 57},
                    Case{"SmallestExponents", Numbers::Apart, 8, 100, 64, 3, 0},
                    Case{"Apart13From10", Numbers::Apart, 8, 100, 64, 13, 10},
                    Case{"Apart14From10", Numbers::Apart, 8, 100, 64, 14, 10},
                    Case{"Apart15From10", Numbers::Apart, 8, 100, 64, 15, 10},
                    Case{"Apart37From10", Numbers::Apart, 8, 100, 64, 37, 10},
                    Case{"Apart38From10", Numbers::Apart, 8, 100, 64, 38, 10},
                    Case{"Apart13From9", Numbers::Apart, 8, 100, 64, 13, 9},
                    Case{"Infinities", Numbers::WithInfinities, 20, 17, 64}, Case{"Nan", Numbers::WithNan, 20, 17, 64},
                    Case{"OneStick", Numbers::All, 5, 1, 64}, Case{"Part", Numbers::All, 7, 70, 9},
                    Case{"OneLane", Numbers::WithNan, wire::array::kMaxLines, 16, 1},
                    Case{"Long", Numbers::All, 1, wire::array::kMaxLineSticks, 64}),
    [](const auto& info) { return info.param.name; });

// The sum of the first 62 numbers lies in the middle between two numbers of DL16. With half a last place of fp32 less
// the last number's sign says whether fp32 holds this middle, which is rounded away from zero, or less.
TEST(LineSums, ATieIsDecidedByTheSmallestNumber) {
  constexpr unsigned kLanes = wire::kStickBytes / sizeof(wire::Dl16);
  for (unsigned apart = 19; apart <= 47; ++apart) {  // a larger sum would be infinite
    wire::Dl16 of_sign[2]{};
    for (const std::uint32_t sign : {0u, std::uint32_t{wire::kDl16SignBit}}) {
      const unsigned exponent = 10 + apart;
      // In units of 2^(exponent - 9): 61 times 1023, and 29, make 975 times 64, and 32. fp32 has eight places below
      // one.
      std::vector<wire::Dl16> line(kLanes, static_cast<wire::Dl16>(exponent << 9 | 511));
      line[61] = static_cast<wire::Dl16>((exponent - 5) << 9 | 416);
      line[62] = static_cast<wire::Dl16>(wire::kDl16SignBit | (exponent - 18) << 9);
      line[63] = static_cast<wire::Dl16>(sign | 10 << 9);
      const Codes codes(line.begin(), line.end());
      std::vector<wire::Dl16> result(kLanes);
      const auto plan = std::make_unique<LinesPlan>();
      plan->request = {};
      plan->request.opcode = static_cast<std::uint32_t>(Opcode::Sum);
      plan->request.format = static_cast<std::uint32_t>(Format::Dl16);
      plan->request.along = 1;
      plan->request.lines = 1;
      plan->request.sticks = 1;
      plan->request.lanes = kLanes;
      plan->stick[0] = reinterpret_cast<const std::byte*>(line.data());
      plan->result[0] = reinterpret_cast<std::byte*>(result.data());
      execute(*plan);
      EXPECT_EQ(result[0], expected(Opcode::Sum, Format::Dl16, codes)) << apart << " binades, sign " << sign;
      of_sign[sign != 0] = result[0];
    }
    EXPECT_EQ(of_sign[0], of_sign[1] + 1) << apart << " binades";
  }
}

}  // namespace
