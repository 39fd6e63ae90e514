// SPDX-License-Identifier: Apache-2.0
// Element-wise operations of the engine against the golden model: random layouts, broadcast, masks and numbers of
// cores, and all codes of DL16.
#include <gtest/gtest.h>

#include <random>

#include "tests/device/kernels/engine_fixture.hpp"
#include "tests/device/kernels/engine_programs.hpp"

namespace kernel_test {
namespace {

using program::Access;
using program::Family;
using program::Format;
using program::Opcode;
using wire::Dl16;

constexpr unsigned kMostCores = 5;

class EngineElementwise : public EngineTest {
 protected:
  // Of one operation, without a workspace: any number of cores.
  void expect_random_golden(Opcode opcode, std::vector<Format> formats, int programs, std::uint64_t positions) {
    const svp::test::ProgramLimits limits{.opcodes = {opcode}, .formats = std::move(formats), .positions = positions};
    for (int i = 0; i < programs && !HasFailure(); ++i) {
      const svp::test::RandomProgram made = svp::test::random_program(random_, limits);
      SCOPED_TRACE(made.text + ", program " + std::to_string(i));
      expect_golden(made, 1 + static_cast<unsigned>(random_() % kMostCores));
    }
  }

  // All codes of DL16 as the first input; the others in `with`.
  static void expect_all_codes_golden(OneOperation& made, std::span<const Dl16> table, std::span<const Dl16> with) {
    made.add(Format::Dl16, {0}, 0, Access::Read);
    for (unsigned code = 0; code < 65536; ++code) {
      const auto dl16 = static_cast<Dl16>(code);
      std::memcpy(made.arguments[0].data() + code * sizeof dl16, &dl16, sizeof dl16);
    }
    if (!table.empty()) made.add_table(table);
    for (const Dl16 code : with) {
      made.add(Format::Dl16, {}, program::kNoDimension, Access::Read);
      std::memcpy(made.arguments.back().data(), &code, sizeof code);
    }
    made.add(Format::Dl16, {0}, 0, Access::Write);
    expect_golden(made.program(), made.arguments, {});
  }

  std::mt19937_64 random_{svp::test::program_seed()};
};

std::vector<Opcode> opcodes_of(Family family) {
  std::vector<Opcode> opcodes;
  for (const program::OpcodeRow& row : program::kOpcodes) {
    if (row.family == family) opcodes.push_back(row.opcode);
  }
  return opcodes;
}

TEST_F(EngineElementwise, PointwiseOperationsEqualGolden) {
  for (const Opcode opcode : opcodes_of(Family::Pointwise)) {
    for (const Format format : {Format::Dl16, Format::Fp32}) expect_random_golden(opcode, {format}, 12, 4096);
  }
}

TEST_F(EngineElementwise, FunctionsByTableEqualGolden) {
  for (const Opcode opcode : opcodes_of(Family::Function)) expect_random_golden(opcode, {Format::Dl16}, 6, 4096);
}

TEST_F(EngineElementwise, FunctionsOnFp32EqualGolden) {
  for (const Opcode opcode : opcodes_of(Family::Function)) expect_random_golden(opcode, {Format::Fp32}, 6, 4096);
}

TEST_F(EngineElementwise, ConversionsWithStaggeredLanesEqualGolden) {
  for (const Opcode opcode : opcodes_of(Family::Stagger)) expect_random_golden(opcode, {}, 20, 3000);
}

TEST_F(EngineElementwise, CopiesFromEveryFormatEqualGolden) {
  for (unsigned format = 0; format < program::kFormats; ++format) {
    expect_random_golden(Opcode::Copy, {static_cast<Format>(format)}, 30, 3000);
  }
}

TEST_F(EngineElementwise, RestickifyEqualsGolden) {
  for (unsigned format = 0; format < program::kFormats; ++format) {
    expect_random_golden(Opcode::Restickify, {static_cast<Format>(format)}, 8, 20000);
  }
}

TEST_F(EngineElementwise, LargeOperationsOnSeveralCoresEqualGolden) {
  for (const Opcode opcode : {Opcode::Copy, Opcode::Add, Opcode::Where, Opcode::Relu, Opcode::Restickify}) {
    expect_random_golden(opcode, {Format::Dl16}, 3, 200'000);
  }
}

TEST_F(EngineElementwise, UnaryOperationsOnAllCodesEqualGolden) {
  for (const Opcode opcode : {Opcode::Abs, Opcode::Neg, Opcode::Relu, Opcode::Floor, Opcode::Clip}) {
    SCOPED_TRACE(program::name(opcode));
    OneOperation made(opcode, {65536});
    if (opcode == Opcode::Clip) {
      made.operation.constant[0] = std::bit_cast<std::uint32_t>(-1.5F);
      made.operation.constant[1] = std::bit_cast<std::uint32_t>(200.0F);
    }
    expect_all_codes_golden(made, {}, {});
  }
}

TEST_F(EngineElementwise, Fp8OfAllCodesEqualsGolden) {
  for (const Opcode opcode : {Opcode::Dl16ToFp8, Opcode::Dl16ToFp8Weight, Opcode::Fp8ToDl16}) {
    SCOPED_TRACE(program::name(opcode));
    const bool from_fp8 = opcode == Opcode::Fp8ToDl16;
    OneOperation made(opcode, {4, 65536 / 4});
    made.add(from_fp8 ? Format::Fp8E4m3 : Format::Dl16, {0, 1}, 1, Access::Read);
    made.add(from_fp8 ? Format::Dl16 : Format::Fp8E4m3, {0, 1}, 1, Access::Write);
    if (opcode == Opcode::Dl16ToFp8Weight) {
      made.operation.reduced = 1;
      // two pairs of rows, twice as many columns of sticks
      made.operation.operand[1].stride[1] = 2 * wire::kStickBytes;
    }
    for (std::size_t i = 0; i < made.arguments[0].size(); ++i) {
      const std::size_t code = from_fp8 ? i : i / 2 >> (i % 2 == 0 ? 0 : 8);
      made.arguments[0][i] = static_cast<std::byte>(code);
    }
    expect_golden(made.program(), made.arguments, {});
  }
}

// FP32: around each DL16, on both sides of what rounds to it.
TEST_F(EngineElementwise, StaggeredFp32OfAllCodesEqualsGolden) {
  constexpr std::uint32_t kBelow[] = {0, 0x1FFF, 0x2000, 0xFFFF};
  for (const Opcode opcode : {Opcode::Dl16ToFp32, Opcode::Fp32ToDl16}) {
    SCOPED_TRACE(program::name(opcode));
    const bool from_dl16 = opcode == Opcode::Dl16ToFp32;
    OneOperation made(opcode, {4, 65536});
    made.add(from_dl16 ? Format::Dl16 : Format::Fp32, {0, 1}, 1, Access::Read);
    made.add(from_dl16 ? Format::Fp32 : Format::Dl16, {0, 1}, 1, Access::Write);
    for (std::size_t i = 0; i < 4 * 65536; ++i) {
      const auto bits = static_cast<std::uint32_t>(i % 65536 << 16 | kBelow[i / 65536]);
      const auto code = static_cast<std::uint16_t>(i);
      if (from_dl16) {
        std::memcpy(&made.arguments[0][i * sizeof code], &code, sizeof code);
      } else {
        std::memcpy(&made.arguments[0][i * sizeof bits], &bits, sizeof bits);
      }
    }
    expect_golden(made.program(), made.arguments, {});
  }
}

TEST_F(EngineElementwise, FunctionsOnAllCodesEqualGolden) {
  for (const Opcode opcode : opcodes_of(Family::Function)) {
    SCOPED_TRACE(program::name(opcode));
    OneOperation made(opcode, {65536});
    if (opcode == Opcode::Softplus) {
      made.operation.constant[0] = std::bit_cast<std::uint32_t>(1.0F);
      made.operation.constant[1] = std::bit_cast<std::uint32_t>(20.0F);
    }
    expect_all_codes_golden(made, svp::program::function_table(opcode), {});
  }
}

TEST_F(EngineElementwise, BinaryOperationsOfAllCodesWithChosenOnesEqualGolden) {
  const Dl16 chosen[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x7FFD, 0xFFFD, 0x7FFE,
                         0xFFFE, 0x7FFF, 0xFFFF, 0x3E00, 0xBE01, 0x41AB};
  for (unsigned opcode = static_cast<unsigned>(Opcode::Add); opcode <= static_cast<unsigned>(Opcode::LessEqual);
       ++opcode) {
    if (program::find_opcode(static_cast<Opcode>(opcode)) == nullptr) continue;
    for (const Dl16 code : chosen) {
      SCOPED_TRACE(testing::Message() << program::name(static_cast<Opcode>(opcode)) << " with " << std::hex << code);
      OneOperation made(static_cast<Opcode>(opcode), {65536});
      expect_all_codes_golden(made, {}, std::span(&code, 1));
      if (HasFailure()) return;
    }
  }
}

// Of numbers around 1: what rounding has to decide depends on the significands only.
TEST_F(EngineElementwise, AllPairsOfSignificandsEqualGolden) {
  constexpr std::uint32_t kSignificands = 512;
  constexpr unsigned kOne = 0x3E00;
  for (const Opcode opcode : {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div}) {
    SCOPED_TRACE(program::name(opcode));
    OneOperation made(opcode, {kSignificands, kSignificands});
    made.add(Format::Dl16, {0}, program::kNoDimension, Access::Read);
    made.add(Format::Dl16, {1}, 1, Access::Read);
    made.add(Format::Dl16, {0, 1}, 1, Access::Write);
    for (std::uint32_t i = 0; i < kSignificands; ++i) {
      const auto code = static_cast<Dl16>(kOne + i);
      std::memcpy(made.arguments[0].data() + i * wire::kStickBytes, &code, sizeof code);
      std::memcpy(made.arguments[1].data() + i * sizeof code, &code, sizeof code);
    }
    expect_golden(made.program(), made.arguments, {});
  }
}

}  // namespace
}  // namespace kernel_test
