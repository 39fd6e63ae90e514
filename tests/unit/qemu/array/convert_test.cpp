// SPDX-License-Identifier: Apache-2.0
// Changes of format by the array, against the golden model and the engine's conversion of one element.
#include "qemu/array/convert.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "firmware/kernels/engine/number.hpp"
#include "host_driver/program/golden/numbers.hpp"
#include "shared/device_program_names.hpp"

namespace {

using svp::array::ConvertPlan;
using wire::array::unit_sticks;
using wire::program::Format;
using wire::program::Opcode;

constexpr std::byte kBefore{0xA5};

// Units that follow each other, and so do the sticks of a unit.
class Conversion {
 public:
  Conversion(Opcode opcode, Format from, Format to, std::uint32_t from_sticks, std::uint32_t to_sticks,
             std::size_t units)
      : from_(from), to_(to) {
    wire::array::ConvertRequest& request = plan_->request;
    request = {};
    request.kind = wire::array::Kind::Convert;
    request.opcode = static_cast<std::uint32_t>(opcode);
    request.from_format = static_cast<std::uint32_t>(from);
    request.to_format = static_cast<std::uint32_t>(to);
    request.from_sticks = from_sticks;
    request.to_sticks = to_sticks;
    request.count = units;
    request.from_step = request.to_step = wire::kStickBytes;
    request.from.step = from_sticks * wire::kStickBytes;
    request.to.step = to_sticks * wire::kStickBytes;
    input_.resize(units * request.from.step);
    output_.assign(units * request.to.step, kBefore);
    plan_->stretches = 1;
    plan_->stretch[0].count = units;
    for (std::size_t i = 0; i < from_sticks; ++i) plan_->stretch[0].from[i] = &input_[i * wire::kStickBytes];
    for (std::size_t i = 0; i < to_sticks; ++i) plan_->stretch[0].to[i] = &output_[i * wire::kStickBytes];
  }

  ConvertPlan& plan() { return *plan_; }
  std::size_t inputs() const { return input_.size() / wire::program::item_bytes(from_); }
  std::size_t outputs() const { return output_.size() / wire::program::item_bytes(to_); }
  void set(std::size_t i, std::uint32_t code) { put(input_, from_, i, code); }
  std::uint32_t input(std::size_t i) const { return take(input_, from_, i); }
  std::uint32_t output(std::size_t i) const { return take(output_, to_, i); }

 private:
  static void put(std::vector<std::byte>& bytes, Format format, std::size_t i, std::uint32_t code) {
    const std::size_t item = wire::program::item_bytes(format);
    std::memcpy(&bytes[i * item], &code, item);
  }
  static std::uint32_t take(const std::vector<std::byte>& bytes, Format format, std::size_t i) {
    const std::size_t item = wire::program::item_bytes(format);
    std::uint32_t code = 0;
    std::memcpy(&code, &bytes[i * item], item);
    return code;
  }

  Format from_, to_;
  std::unique_ptr<ConvertPlan> plan_ = std::make_unique<ConvertPlan>();
  std::vector<std::byte> input_, output_;
};

std::uint32_t golden(Format from, Format to, std::uint32_t code) {
  const std::uint32_t bits = svp::program::golden::bits_of(to, svp::program::golden::value_of(from, code));
  const unsigned width = 8 * wire::program::item_bytes(to);  // an integer has its sign above it, too
  return width < 32 ? bits & ((std::uint32_t{1} << width) - 1) : bits;
}
std::uint32_t of_engine(Format from, Format to, std::uint32_t code) {
  return kernel::engine::number::code_of(to, kernel::engine::number::value_of(from, code));
}

// Each exponent, and around what lies in the middle of two numbers of three, and of nine, bits of fraction.
std::vector<std::uint32_t> codes_of_fp32(std::mt19937& random) {
  std::vector<std::uint32_t> codes;
  const auto around = [&](std::uint32_t code) {
    for (const std::uint32_t each : {code - 1, code, code + 1}) codes.insert(codes.end(), {each, each ^ 0x80000000u});
  };
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (std::uint32_t i = 0; i < 32; ++i) {
      around(exponent << 23 | i << 18);
      around(exponent << 23 | static_cast<std::uint32_t>(random() % 1024) << 13);
    }
  }
  for (const std::uint32_t nan : {0x7F800001u, 0x7FA00000u, 0x7FC00001u, 0x7FFFFFFFu}) around(nan);
  while (codes.size() < 0x1C000) codes.push_back(static_cast<std::uint32_t>(random()));
  return codes;
}

// Each number of bits, and its ends.
std::vector<std::uint32_t> codes_of_integers(std::mt19937& random) {
  std::vector<std::uint32_t> codes;
  for (unsigned bits = 0; bits < 32; ++bits) {
    const std::uint32_t end = std::uint32_t{1} << bits;
    for (const std::uint32_t code : {end - 1, end, end + 1}) codes.insert(codes.end(), {code, ~code, 0 - code});
    for (unsigned i = 0; i < 1024; ++i) codes.push_back(static_cast<std::uint32_t>(random()) >> bits);
    for (unsigned i = 0; i < 1024; ++i) codes.push_back(0 - (static_cast<std::uint32_t>(random()) >> bits));
  }
  return codes;
}

// All of them, of formats of up to 16 bits.
std::vector<std::uint32_t> codes_of(Format format) {
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  if (format == Format::Fp32) return codes_of_fp32(random);
  if (wire::program::item_bytes(format) == 4) return codes_of_integers(random);
  std::vector<std::uint32_t> codes(std::size_t{1} << 8 * wire::program::item_bytes(format));
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint32_t>(i);
  return codes;
}

struct Pair {
  Format from, to;
};
std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  for (unsigned from = 0; from < wire::program::kFormats; ++from) {
    for (unsigned to = 0; to < wire::program::kFormats; ++to) {
      if (from != to) pairs.push_back({static_cast<Format>(from), static_cast<Format>(to)});
    }
  }
  return pairs;
}
class Conversions : public testing::TestWithParam<Pair> {};

TEST_P(Conversions, AreThoseOfTheGoldenModelAndOfTheEngine) {
  const auto [from, to] = GetParam();
  const std::vector<std::uint32_t> codes = codes_of(from);
  const std::uint32_t from_sticks = unit_sticks(from, to), to_sticks = unit_sticks(to, from);
  const std::size_t positions = from_sticks * wire::program::lanes_of(from);
  Conversion made(Opcode::Copy, from, to, from_sticks, to_sticks, (codes.size() + positions - 1) / positions);
  for (std::size_t i = 0; i < made.inputs(); ++i) made.set(i, codes[i % codes.size()]);
  execute(made.plan());
  ASSERT_EQ(made.inputs(), made.outputs());
  for (std::size_t i = 0; i < made.outputs(); ++i) {
    const std::uint32_t code = made.input(i);
    ASSERT_EQ(made.output(i), golden(from, to, code)) << std::hex << "of 0x" << code;
    ASSERT_EQ(made.output(i), of_engine(from, to, code)) << std::hex << "of 0x" << code;
  }
}

TEST_P(Conversions, TakeALaneForAWholeStick) {
  const auto [from, to] = GetParam();
  Conversion made(Opcode::Copy, from, to, 1, 1, 8);
  made.plan().request.single = 1;
  for (std::size_t i = 0; i < made.inputs(); ++i) made.set(i, static_cast<std::uint32_t>(i * 40503));
  execute(made.plan());
  for (std::size_t i = 0; i < made.outputs(); ++i) {
    const std::size_t unit = i / wire::program::lanes_of(to);
    ASSERT_EQ(made.output(i), golden(from, to, made.input(unit * wire::program::lanes_of(from)))) << i;
  }
}

// The end of a line: sticks that the input has not are zeros, and sticks that the output has not are not written.
TEST_P(Conversions, HaveUnitsOfFewerSticks) {
  const auto [from, to] = GetParam();
  for (std::uint32_t from_sticks = 1; from_sticks <= unit_sticks(from, to); ++from_sticks) {
    for (std::uint32_t to_sticks = 1; to_sticks <= unit_sticks(to, from); ++to_sticks) {
      Conversion made(Opcode::Copy, from, to, from_sticks, to_sticks, 3);
      for (std::size_t i = 0; i < made.inputs(); ++i) made.set(i, 0x3E3E3E3E);
      execute(made.plan());
      const std::size_t of_unit = made.outputs() / 3;
      const std::size_t filled = std::size_t{from_sticks} * wire::program::lanes_of(from);
      for (std::size_t i = 0; i < made.outputs(); ++i) {
        ASSERT_EQ(made.output(i), i % of_unit < filled ? golden(from, to, made.input(0)) : 0) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Conversions, testing::ValuesIn(all_pairs()), [](const auto& info) {
  std::string name =
      std::string(wire::program::name(info.param.from)) + "To" + std::string(wire::program::name(info.param.to));
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
});

// ---- staggered lanes (docs/device-programs.md) ----------------------------------------------------------------------

struct Staggering {
  Opcode opcode;
  Format from, to;
  // Where position p of a unit lies in the one stick.
  unsigned (*lane)(unsigned p);
};
const Staggering kStaggerings[] = {
    {Opcode::Dl16ToFp32, Format::Dl16, Format::Fp32, [](unsigned p) { return p % 32 / 4 * 8 + p / 32 * 4 + p % 4; }},
    {Opcode::Fp32ToDl16, Format::Fp32, Format::Dl16, [](unsigned p) { return p % 32 / 4 * 8 + p / 32 * 4 + p % 4; }},
    {Opcode::Dl16ToFp8, Format::Dl16, Format::Fp8E4m3, [](unsigned p) { return p % 64 / 8 * 16 + p / 64 * 8 + p % 8; }},
    {Opcode::Fp8ToDl16, Format::Fp8E4m3, Format::Dl16, [](unsigned p) { return p % 64 / 8 * 16 + p / 64 * 8 + p % 8; }},
    {Opcode::Dl16ToFp8Weight, Format::Dl16, Format::Fp8E4m3, [](unsigned p) { return p / 64 + 2 * (p % 64); }},
};
class StaggeredConversions : public testing::TestWithParam<Staggering> {};

TEST_P(StaggeredConversions, PutEachPositionIntoItsLane) {
  const auto [opcode, from, to, lane] = GetParam();
  const std::vector<std::uint32_t> codes = codes_of(from);
  const bool narrows = unit_sticks(from, to) == 2;
  const std::size_t positions = 2 * wire::program::lanes_of(narrows ? from : to);
  for (std::uint32_t sticks = 1; sticks <= 2; ++sticks) {  // of the side that has two
    Conversion made(opcode, from, to, narrows ? sticks : 1, narrows ? 1 : sticks, codes.size() / positions);
    for (std::size_t i = 0; i < made.inputs(); ++i) made.set(i, codes[i % codes.size()]);
    execute(made.plan());
    for (std::size_t unit = 0; unit < codes.size() / positions; ++unit) {
      for (unsigned p = 0; p < positions; ++p) {
        const std::size_t apart = unit * positions / 2 * sticks + p;
        const std::size_t together = unit * positions + lane(p);
        const bool there = p < positions / 2 * sticks;
        if (narrows) {
          ASSERT_EQ(made.output(together), there ? golden(from, to, made.input(apart)) : 0) << p;
        } else if (there) {
          ASSERT_EQ(made.output(apart), golden(from, to, made.input(together))) << p;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, StaggeredConversions, testing::ValuesIn(kStaggerings),
                         [](const auto& info) { return std::string(wire::program::name(info.param.opcode)); });

}  // namespace
