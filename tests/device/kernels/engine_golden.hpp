// SPDX-License-Identifier: Apache-2.0
// Programs by hand (engine_layouts.hpp) and at random on the bare card, compared with the golden model.
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "shared/dl16.hpp"
#include "tests/device/kernels/engine_fixture.hpp"
#include "tests/device/kernels/engine_layouts.hpp"

namespace kernel_test {

class EngineGoldenTest : public EngineTest {
 protected:
  static void expect_golden(const Program& executed, const std::vector<Bytes>& arguments, unsigned cores = 1) {
    EngineTest::expect_golden(sealed(executed), arguments, EngineTest::Own::of(executed.header), cores);
  }
  static Bytes sealed(const Program& made) {
    Bytes bytes = made.bytes();
    svp::test::seal(bytes);
    return bytes;
  }

  // `count` programs of one operation of any of the opcodes, in loops and in the workspace or without.
  static void expect_random(const std::vector<program::Opcode>& opcodes, unsigned count) {
    Random random(svp::test::program_seed());
    for (unsigned i = 0; i < count && !HasFailure(); ++i) {
      const svp::test::RandomProgram made = svp::test::random_program(
          random, {.opcodes = opcodes, .positions = 8192, .loops = i % 3 == 1, .workspace = i % 2 == 1});
      SCOPED_TRACE(made.text + ", program " + std::to_string(i));
      EngineTest::expect_golden(made);
    }
  }

  // Any bytes.
  std::vector<Bytes> random_arguments(const Program& of) {
    std::vector<Bytes> arguments;
    for (const program::Argument& argument : of.arguments) {
      Bytes bytes(argument.bytes);
      for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {  // whole sticks
        const std::uint64_t eight = random_();
        std::memcpy(bytes.data() + at, &eight, sizeof eight);
      }
      arguments.push_back(std::move(bytes));
    }
    return arguments;
  }

  // Finite numbers of exponents low … high of DL16, one in twenty a zero. FP8_E4M3: low … high of its own.
  void fill(Bytes& bytes, program::Format format, int low, int high) {
    if (format == program::Format::Fp8E4m3) return fill_fp8(bytes, low, high);
    const bool dl16 = format == program::Format::Dl16;
    for (std::size_t at = 0; at < bytes.size(); at += dl16 ? 2 : 4) {
      const std::uint64_t exponent =
          static_cast<std::uint64_t>(low) + random_() % static_cast<std::uint64_t>(high - low + 1);
      const bool zero = random_() % 20 == 0;
      if (dl16) {
        auto code = static_cast<wire::Dl16>((random_() & 0x81FF) | exponent << 9);
        if (zero || !wire::dl16_is_finite(code)) code &= 0x8000;
        std::memcpy(&bytes[at], &code, sizeof code);
      } else {
        auto bits = static_cast<std::uint32_t>((random_() & 0x807FFFFF) | (exponent + 96) << 23);
        if (zero) bits &= 0x80000000;
        std::memcpy(&bytes[at], &bits, sizeof bits);
      }
    }
  }

  void fill_fp8(Bytes& bytes, int low, int high) {
    for (std::byte& byte : bytes) {
      const std::uint64_t exponent =
          static_cast<std::uint64_t>(low) + random_() % static_cast<std::uint64_t>(high - low + 1);
      const std::uint64_t code = (random_() & 0x87) | exponent << 3;
      const bool zero = random_() % 20 == 0 || (code & 0x7F) == 0x7F;
      byte = static_cast<std::byte>(zero ? code & 0x80 : code);
    }
  }

  // In the formats that the operands of the first operation have.
  std::vector<Bytes> filled_arguments(const Program& of, int low, int high) {
    std::vector<Bytes> arguments = random_arguments(of);
    for (const program::Operation& operation : of.operations) {
      for (unsigned o = 0; o < operation.operand_count; ++o) {
        const program::Operand& operand = operation.operand[o];
        if (operand.base == program::Base::Argument) fill(arguments[operand.argument], operand.format, low, high);
      }
    }
    return arguments;
  }

  Random random_{20261124};
};

}  // namespace kernel_test
