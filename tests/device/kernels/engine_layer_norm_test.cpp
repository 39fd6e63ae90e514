// SPDX-License-Identifier: Apache-2.0
// Exx2, LayerNormScale and LayerNormNorm of the engine against the golden model, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>

#include "tests/device/kernels/engine_golden.hpp"

namespace kernel_test {
namespace {

using program::Access;
using program::Format;
using program::Opcode;

class EngineLayerNorm : public EngineGoldenTest {
 protected:
  // Rows and columns; the columns are normalised. Moments and scales are arguments, too, so that each step is compared.
  static Program layer_norm(Format format, std::uint32_t rows, std::uint32_t columns) {
    Program made;
    const Layout matrix{.format = format, .stick_dim = 1, .order = {0, 1}};
    const Layout of_rows{.format = format, .order = {0}};
    const Layout of_columns{.format = format, .stick_dim = 1, .order = {1}};
    const auto add = [&](Opcode opcode, float constant, std::initializer_list<std::pair<unsigned, Layout>> operands) {
      program::Operation operation = operation_of(opcode, {rows, columns});
      operation.constant[0] = std::bit_cast<std::uint32_t>(constant);
      operation.reduced = opcode == Opcode::Exx2 ? 2 : 0;
      for (const auto& [argument, layout] : operands) {
        const std::uint64_t bytes = add_operand(operation, layout);
        operation.operand[operation.operand_count - 1].base = program::Base::Argument;
        operation.operand[operation.operand_count - 1].argument = static_cast<std::uint8_t>(argument);
        made.arguments.resize(std::max<std::size_t>(made.arguments.size(), argument + 1));
        made.arguments[argument] = {.bytes = bytes, .access = Access::ReadWrite, .reserved = 0};
      }
      made.operations.push_back(operation);
    };
    enum : unsigned { kX, kMoments, kScale, kWeight, kBias, kOut };
    add(Opcode::Exx2, 1.0f / static_cast<float>(columns), {{kX, matrix}, {kMoments, of_rows}});
    add(Opcode::LayerNormScale, 1e-5f, {{kMoments, of_rows}, {kScale, of_rows}});
    add(Opcode::LayerNormNorm, 0,
        {{kX, matrix},
         {kMoments, of_rows},
         {kScale, of_rows},
         {kWeight, of_columns},
         {kBias, of_columns},
         {kOut, matrix}});
    return made;
  }

  std::vector<Bytes> numbers(const Program& made, Format format, int low, int high) {
    std::vector<Bytes> arguments = random_arguments(made);
    for (Bytes& bytes : arguments) fill(bytes, format, low, high);
    return arguments;
  }
};

TEST_F(EngineLayerNorm, AllThreeStepsEqualGolden) {
  for (const Format format : {Format::Dl16, Format::Fp32}) {
    for (const std::uint32_t columns : {1u, 64u, 100u, 768u}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(format)) + ", columns " + std::to_string(columns));
      const Program made = layer_norm(format, 37, columns);
      expect_golden(made, numbers(made, format, 26, 33));
      expect_golden(made, numbers(made, format, 0, 63));
      expect_golden(made, random_arguments(made));
    }
  }
}

// The variance is zero or, by rounding, below.
TEST_F(EngineLayerNorm, EqualColumnsEqualGolden) {
  for (const Format format : {Format::Dl16, Format::Fp32}) {
    const Program made = layer_norm(format, 5, 100);
    std::vector<Bytes> arguments = numbers(made, format, 20, 40);
    const std::size_t item = program::item_bytes(format);
    for (std::size_t at = item; at < arguments[0].size(); at += item)
      std::memcpy(&arguments[0][at], &arguments[0][0], item);
    expect_golden(made, arguments);
  }
}

TEST_F(EngineLayerNorm, RandomProgramsEqualGolden) {
  expect_random({Opcode::Exx2, Opcode::LayerNormScale, Opcode::LayerNormNorm}, 60);
}

}  // namespace
}  // namespace kernel_test
