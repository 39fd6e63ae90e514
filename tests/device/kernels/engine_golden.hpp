// SPDX-License-Identifier: Apache-2.0
// Runs a device program on the bare card and by the golden model, and compares every byte of its arguments.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "host_driver/program/golden/golden.hpp"
#include "shared/dl16.hpp"
#include "tests/device/kernels/engine_fixture.hpp"
#include "tests/support/device_programs.hpp"
#include "tests/support/program_builder.hpp"

namespace kernel_test {

class EngineGoldenTest : public EngineTest {
 protected:
  static void expect_golden(const Program& executed, const std::vector<Bytes>& arguments, unsigned cores = 1) {
    Bytes bytes = executed.bytes();
    svp::test::seal(bytes);
    expect_golden(bytes, arguments, executed.workspace_bytes(), cores);
  }

  static void expect_golden(std::span<const std::byte> bytes, std::vector<Bytes> arguments, std::uint64_t workspace,
                            unsigned cores = 1) {
    std::vector<Bytes> expected = arguments;
    const std::vector<std::span<std::byte>> spans(expected.begin(), expected.end());
    svp::program::golden::run(bytes, spans);
    const RunResult result = launch(bytes, arguments, workspace, cores);
    ASSERT_TRUE(result.exited) << "cause " << result.cause << " at text + 0x" << std::hex << result.pc << ", value 0x"
                               << result.value;
    ASSERT_TRUE(result.status == 0) << describe(result.status);
    for (std::size_t i = 0; i < arguments.size(); ++i) expect_argument(i, arguments[i], expected[i]);
  }

  // `count` programs of one operation of any of the opcodes, in loops and in the workspace or without.
  static void expect_random(const std::vector<program::Opcode>& opcodes, unsigned count) {
    const std::uint64_t seed = svp::test::program_seed();
    Random random(seed);
    for (unsigned i = 0; i < count; ++i) {
      const svp::test::RandomProgram made = svp::test::random_program(
          random, {.opcodes = opcodes, .positions = 8192, .loops = i % 3 == 1, .workspace = i % 2 == 1});
      SCOPED_TRACE("SPYRE_SEED=" + std::to_string(seed) + ", program " + std::to_string(i) + ": " + made.text);
      expect_golden(made.program, made.arguments, made.workspace_bytes);
      if (HasFailure()) return;
    }
  }

  // Finite DL16 numbers of exponents low … high, one in twenty a zero; 32 bits of fp32 numbers in the same range.
  void fill(Bytes& bytes, program::Format format, int low, int high) {
    const auto exponent = [&] {
      return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1));
    };
    const bool dl16 = format == program::Format::Dl16;
    for (std::size_t at = 0; at < bytes.size(); at += dl16 ? 2 : 4) {
      const bool zero = random_() % 20 == 0;
      if (dl16) {
        auto code = static_cast<std::uint16_t>((random_() & 0x81FF) | static_cast<std::uint64_t>(exponent() << 9));
        if (zero || wire::dl16_is_nan(code)) code &= 0x8000;
        std::memcpy(&bytes[at], &code, sizeof code);
      } else {
        auto bits =
            static_cast<std::uint32_t>((random_() & 0x807FFFFF) | static_cast<std::uint64_t>(exponent() + 96) << 23);
        if (zero) bits &= 0x80000000;
        std::memcpy(&bytes[at], &bits, sizeof bits);
      }
    }
  }

  // All arguments filled: as `of` names their formats by the operands of operation 0.
  std::vector<Bytes> filled_arguments(const Program& of, int low, int high) {
    std::vector<Bytes> arguments = random_arguments(of, random_);
    const program::Operation& operation = of.operations.front();
    for (unsigned o = 0; o < operation.operand_count; ++o) {
      const program::Operand& operand = operation.operand[o];
      if (operand.base == program::Base::Argument) fill(arguments[operand.argument], operand.format, low, high);
    }
    return arguments;
  }

  Random random_{20261124};

 private:
  static void expect_argument(std::size_t i, const Bytes& got, const Bytes& expected) {
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < got.size(); at += 2) {
      if (got[at] == expected[at] && got[at + 1] == expected[at + 1]) continue;
      if (++wrong > 3) continue;
      ADD_FAILURE() << "argument " << i << ", byte " << at << std::hex << ": " << half(got, at) << ", golden "
                    << half(expected, at);
    }
    EXPECT_EQ(wrong, 0u) << "half words of " << got.size() / 2;
  }
  static unsigned half(const Bytes& bytes, std::size_t at) {
    return static_cast<unsigned>(bytes[at]) | static_cast<unsigned>(bytes[at + 1]) << 8;
  }
};

}  // namespace kernel_test
