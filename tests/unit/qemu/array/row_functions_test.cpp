// SPDX-License-Identifier: Apache-2.0
// What the array computes, against the plain meaning of each operation (docs/numerics.md).
#include "qemu/array/row_functions.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "shared/device_program_names.hpp"
#include "shared/dl16.hpp"

namespace {

using svp::array::RowsPlan;
using wire::program::Format;
using wire::program::Opcode;

constexpr std::uint32_t kFp32Nan = 0x7FC00000;
constexpr double kFp64Nan = std::numeric_limits<double>::quiet_NaN();

bool is_dl16(Format format) { return format == Format::Dl16; }
float number(Format format, std::uint32_t code) {
  return is_dl16(format) ? wire::fp32_from_dl16(static_cast<std::uint16_t>(code)) : std::bit_cast<float>(code);
}
std::uint32_t code(Format format, float value) {
  if (std::isnan(value)) return is_dl16(format) ? wire::kDl16Nan : kFp32Nan;
  return is_dl16(format) ? wire::dl16_from_fp32(value) : std::bit_cast<std::uint32_t>(value);
}
std::uint32_t sign(Format format) { return is_dl16(format) ? 0x8000u : 0x80000000u; }

float larger(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::nanf("");
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

std::uint32_t expected(Opcode opcode, Format format, std::uint32_t a, std::uint32_t b) {
  const float x = number(format, a);
  const float y = number(format, b);
  const auto truth = [&](bool is_true) { return code(format, is_true ? 1.0F : 0.0F); };
  switch (opcode) {
    case Opcode::Copy: return a;
    case Opcode::Add: return code(format, x + y);
    case Opcode::Sub: return code(format, x - y);
    case Opcode::Mul: return code(format, x * y);
    case Opcode::Div: return code(format, x / y);
    case Opcode::Maximum: return code(format, larger(x, y));
    case Opcode::Minimum: return code(format, -larger(-x, -y));
    case Opcode::Equal: return truth(x == y);
    case Opcode::NotEqual: return truth(!(x == y));
    case Opcode::Greater: return truth(x > y);
    case Opcode::GreaterEqual: return truth(x >= y);
    case Opcode::Less: return truth(x < y);
    case Opcode::LessEqual: return truth(x <= y);
    case Opcode::Abs: return a & ~sign(format);
    case Opcode::Neg: return a ^ sign(format);
    case Opcode::Relu: return code(format, std::isnan(x) || x > 0 ? x : 0.0F);
    case Opcode::Clip: return std::isnan(x) ? code(format, x) : code(format, -larger(-larger(x, -2.0F), -3.0F));
    default: return code(format, std::floor(x));
  }
}

// One operation on sticks of 128 bytes that follow each other.
class OneStretch {
 public:
  OneStretch(Opcode opcode, Format format, unsigned inputs, std::uint64_t sticks) : format_(format) {
    wire::array::Request& request = plan_->request;
    request = {};
    request.kind = wire::array::Kind::Rows;
    request.opcode = static_cast<std::uint32_t>(opcode);
    request.format = static_cast<std::uint32_t>(format);
    request.inputs = inputs;
    request.constant[0] = code(format, -2.0F);
    request.constant[1] = code(format, 3.0F);
    request.count = sticks;
    plan_->stretches = 1;
    plan_->stretch[0].count = sticks;
    for (unsigned o = 0; o <= wire::array::kOutput; ++o) {
      operand_[o].assign(sticks * wire::kStickBytes, std::byte{0xA5});
      plan_->stretch[0].at[o] = operand_[o].data();
      request.row[o].step = wire::kStickBytes;
    }
  }

  RowsPlan& plan() { return *plan_; }
  std::size_t elements() const { return operand_[0].size() / item(); }
  void set_moments(unsigned operand, std::size_t stick, double mean, double square) {
    std::memcpy(&operand_[operand][stick * wire::kStickBytes], &mean, sizeof mean);
    std::memcpy(&operand_[operand][stick * wire::kStickBytes + sizeof mean], &square, sizeof square);
  }
  void set(unsigned operand, std::size_t i, std::uint32_t value) {
    std::memcpy(&operand_[operand][i * item()], &value, item());
  }
  std::uint32_t get(unsigned operand, std::size_t i) const {
    std::uint32_t value = 0;
    std::memcpy(&value, &operand_[operand][i * item()], item());
    return value;
  }

 private:
  std::size_t item() const { return wire::program::item_bytes(format_); }

  Format format_;
  std::unique_ptr<RowsPlan> plan_ = std::make_unique<RowsPlan>();
  std::vector<std::byte> operand_[wire::array::kOutput + 1];
};

struct Case {
  Opcode opcode;
  Format format;
  unsigned inputs;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Format format : {Format::Dl16, Format::Fp32}) {
    for (const Opcode opcode : {Opcode::Copy, Opcode::Abs, Opcode::Neg, Opcode::Relu, Opcode::Clip, Opcode::Floor}) {
      cases.push_back({opcode, format, 1});
    }
    for (const Opcode opcode :
         {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div, Opcode::Maximum, Opcode::Minimum, Opcode::Equal,
          Opcode::NotEqual, Opcode::Greater, Opcode::GreaterEqual, Opcode::Less, Opcode::LessEqual}) {
      cases.push_back({opcode, format, 2});
    }
  }
  return cases;
}

class RowFunctions : public testing::TestWithParam<Case> {};

// Half of the numbers close to each other, so that sums cancel and compares are equal; special codes among them.
std::uint32_t random_code(Format format, std::mt19937& random) {
  static constexpr std::uint32_t kSpecialDl16[] = {0, 0x8000, 1, 0x7FFD, 0x7FFE, 0xFFFE, 0x7FFF, 0xFFFF, 0x3E00};
  static constexpr std::uint32_t kSpecialFp32[] = {0,          0x80000000, 1,          0x7F7FFFFF, 0x7FC00000,
                                                   0xFFC00001, 0x7F800000, 0xFF800000, 0x3F800000};
  const std::uint32_t kind = random() % 16;
  if (kind < 2) return is_dl16(format) ? kSpecialDl16[random() % 9] : kSpecialFp32[random() % 9];
  if (kind < 8) return code(format, static_cast<float>(static_cast<int>(random() % 64) - 32) / 8);
  const auto any = static_cast<std::uint32_t>(random());
  return is_dl16(format) ? any & 0xFFFF : any;
}

TEST_P(RowFunctions, AreWhatTheOperationMeans) {
  const auto [opcode, format, inputs] = GetParam();
  OneStretch rows(opcode, format, inputs, 1024);
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  for (std::size_t i = 0; i < rows.elements(); ++i) {
    // Of one input all codes of DL16, else random ones.
    rows.set(0, i, inputs == 1 && is_dl16(format) ? static_cast<std::uint32_t>(i) : random_code(format, random));
    rows.set(1, i, random_code(format, random));
  }
  ASSERT_NE(svp::array::find_row_function(rows.plan().request), nullptr);
  svp::array::execute(rows.plan());
  for (std::size_t i = 0; i < rows.elements(); ++i) {
    const std::uint32_t wanted = expected(opcode, format, rows.get(0, i), rows.get(1, i));
    ASSERT_EQ(rows.get(wire::array::kOutput, i), wanted)
        << std::hex << "of 0x" << rows.get(0, i) << " and 0x" << rows.get(1, i);
  }
}

TEST_P(RowFunctions, TakeSingleElementsForWholeSticks) {
  const auto [opcode, format, inputs] = GetParam();
  OneStretch rows(opcode, format, inputs, 4);
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  for (std::size_t i = 0; i < rows.elements(); ++i) {
    for (unsigned o = 0; o < inputs; ++o) rows.set(o, i, random_code(format, random));
  }
  rows.plan().request.singles = inputs == 1 ? 1 : 2;
  svp::array::execute(rows.plan());
  const std::size_t lanes = rows.elements() / 4;
  for (std::size_t i = 0; i < rows.elements(); ++i) {
    const std::size_t first = i / lanes * lanes;
    const std::uint32_t a = rows.get(0, inputs == 1 ? first : i);
    ASSERT_EQ(rows.get(wire::array::kOutput, i), expected(opcode, format, a, rows.get(1, first)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, RowFunctions, testing::ValuesIn(all_cases()), [](const auto& info) {
  return std::string(wire::program::name(info.param.opcode)) + (is_dl16(info.param.format) ? "Dl16" : "Fp32");
});

TEST(RowFunction, WhereChoosesByEachFormatsZero) {
  for (unsigned f = 0; f < wire::program::kFormats; ++f) {
    const auto format = static_cast<Format>(f);
    OneStretch rows(Opcode::Where, format, 3, 1);
    const bool has_signed_zero =
        format == Format::Dl16 || format == Format::Fp32 || format == Format::Fp8E4m3 || format == Format::Fp8E5m2;
    const std::uint32_t top = std::uint32_t{1} << (8 * wire::program::item_bytes(format) - 1);
    const std::uint32_t conditions[] = {0, 1, top, top | 1};
    for (std::size_t i = 0; i < rows.elements(); ++i) {
      rows.set(0, i, conditions[i % 4]);
      rows.set(1, i, 0x11);
      rows.set(2, i, 0x22);
    }
    svp::array::execute(rows.plan());
    for (std::size_t i = 0; i < rows.elements(); ++i) {
      const bool is_true = i % 4 == 1 || i % 4 == 3 || (i % 4 == 2 && !has_signed_zero);
      ASSERT_EQ(rows.get(wire::array::kOutput, i), is_true ? 0x11u : 0x22u) << "format " << f << ", element " << i;
    }
  }
}

class LayerNorm : public testing::TestWithParam<Format> {
 protected:
  static constexpr std::size_t kSticks = 1024;

  double number() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    static constexpr double kSpecial[] = {0,         -0.0,       1e300,    -1e300,  1e-310,
                                          kInfinity, -kInfinity, kFp64Nan, 0x1p-24, 3.14};
    if (random_() % 8 == 0) return kSpecial[random_() % std::size(kSpecial)];
    return std::ldexp(static_cast<double>(random_() % 100'000) - 30'000, static_cast<int>(random_() % 60) - 40);
  }
  std::uint32_t code_of_fp64(double value) const {
    if (is_dl16(GetParam())) return std::isnan(value) ? wire::kDl16Nan : wire::dl16_from_fp64(value);
    return code(GetParam(), static_cast<float>(value));
  }

  std::mt19937 random_{static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed())};
};

TEST_P(LayerNorm, ScalesAreWhatTheOperationMeans) {
  OneStretch rows(Opcode::LayerNormScale, GetParam(), 1, kSticks);
  const float epsilon = 1e-5F;
  rows.plan().request.constant[0] = std::bit_cast<std::uint32_t>(epsilon);
  std::vector<std::uint32_t> wanted(kSticks);
  for (std::size_t n = 0; n < kSticks; ++n) {
    const double mean = number();
    const double square = number();
    rows.set_moments(0, n, mean, square);
    const double product = mean * mean;
    double variance = square - product;
    if (variance < 0) variance = 0;
    wanted[n] = code_of_fp64(1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
  }
  ASSERT_NE(svp::array::find_row_function(rows.plan().request), nullptr);
  svp::array::execute(rows.plan());
  const std::size_t lanes = rows.elements() / kSticks;
  for (std::size_t i = 0; i < rows.elements(); ++i) {
    ASSERT_EQ(rows.get(wire::array::kOutput, i), wanted[i / lanes]) << "stick " << i / lanes;
  }
}

TEST_P(LayerNorm, IsFourOperationsEachRounded) {
  enum Input : unsigned { kX, kPair, kScale, kWeight, kBias, kInputs };
  OneStretch rows(Opcode::LayerNormNorm, GetParam(), kInputs, kSticks);
  rows.plan().request.singles = 1u << kPair | 1u << kScale;
  std::vector<double> mean(kSticks);
  for (std::size_t i = 0; i < rows.elements(); ++i) {
    for (const unsigned o : {kX, kScale, kWeight, kBias}) rows.set(o, i, random_code(GetParam(), random_));
  }
  for (std::size_t n = 0; n < kSticks; ++n) rows.set_moments(kPair, n, mean[n] = number(), number());
  ASSERT_NE(svp::array::find_row_function(rows.plan().request), nullptr);
  svp::array::execute(rows.plan());
  const std::size_t lanes = rows.elements() / kSticks;
  const auto of = [&](unsigned input, std::size_t i) { return ::number(GetParam(), rows.get(input, i)); };
  for (std::size_t i = 0; i < rows.elements(); ++i) {
    float value = of(kX, i) - static_cast<float>(mean[i / lanes]);
    value *= of(kScale, i / lanes * lanes);
    value *= of(kWeight, i);
    value += of(kBias, i);
    ASSERT_EQ(rows.get(wire::array::kOutput, i), code(GetParam(), value)) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LayerNorm, testing::Values(Format::Dl16, Format::Fp32),
                         [](const auto& info) { return is_dl16(info.param) ? "Dl16" : "Fp32"; });

TEST(RowFunction, AFunctionOfDl16IsItsTable) {
  OneStretch rows(Opcode::Gelu, Format::Dl16, 1, 1024);
  std::vector<std::uint16_t> table(65536);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint16_t>(i * 40503u);
  rows.plan().table = reinterpret_cast<const std::byte*>(table.data());
  for (std::size_t i = 0; i < rows.elements(); ++i) rows.set(0, i, static_cast<std::uint32_t>(i ^ 0x5A5A));
  svp::array::execute(rows.plan());
  for (std::size_t i = 0; i < rows.elements(); ++i) ASSERT_EQ(rows.get(wire::array::kOutput, i), table[i ^ 0x5A5A]);
}

TEST(RowFunction, ThereIsNoneOfWhatTheArrayHasNot) {
  wire::array::Request request{};
  for (std::uint32_t opcode = 0; opcode < 0x10100; ++opcode) {
    for (std::uint32_t format = 0; format < 10; ++format) {
      for (std::uint32_t inputs = 0; inputs < 8; ++inputs) {
        request.opcode = opcode;
        request.format = format;
        request.inputs = inputs;
        const bool found = svp::array::find_row_function(request) != nullptr;
        const bool element_wise = opcode == 0x10 || (opcode >= 0x20 && opcode <= 0x2F) ||
                                  (opcode >= 0x30 && opcode <= 0x34) || (opcode >= 0x40 && opcode <= 0x49) ||
                                  opcode == 0x69;
        const bool has_inputs = opcode == 0x6A ? inputs == 5 : element_wise && inputs >= 1 && inputs <= 3;
        if (found) ASSERT_TRUE(has_inputs && format < wire::program::kFormats) << opcode;
      }
    }
  }
}

}  // namespace
