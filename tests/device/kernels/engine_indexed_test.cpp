// SPDX-License-Identifier: Apache-2.0
// TopK, Gather and Scatter of the engine against the golden model, bit for bit; indices that lead outside.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include "tests/device/kernels/engine_golden.hpp"

namespace kernel_test {
namespace {

using program::Access;
using program::Format;
using program::kNoDimension;
using program::Opcode;
using program::Refusal;
using program::Where;

class EngineIndexed : public EngineGoldenTest {
 protected:
  // Dimensions: 0 rows, 1 searched, 2 ranks.
  Program top_k(Opcode opcode, Format format, std::initializer_list<std::uint32_t> extents, std::uint8_t input_sticks,
                std::uint8_t output_sticks) {
    Program made;
    program::Operation operation = operation_of(opcode, extents);
    operation.reduced = 2;
    const Format searched = format == Format::Int32 ? Format::Fp32 : format;  // only indices are integers
    add_argument(made, operation, {.format = searched, .stick_dim = input_sticks, .order = {0, 1}}, Access::Read,
                 random_);
    add_argument(made, operation, {.format = format, .stick_dim = output_sticks, .order = {0, 2}}, Access::Write,
                 random_);
    made.operations.push_back(operation);
    return made;
  }

  void expect_top_k(std::initializer_list<std::uint32_t> extents, std::uint8_t input_sticks, std::uint8_t output_sticks,
                    unsigned cores = 1) {
    for (const Opcode opcode : {Opcode::TopKValue, Opcode::TopKIndex}) {
      for (const Format format : {Format::Dl16, Format::Fp32, Format::Int32}) {
        if (format == Format::Int32 && opcode == Opcode::TopKValue) continue;
        SCOPED_TRACE(std::to_string(static_cast<int>(opcode)) + ", format " + std::to_string(static_cast<int>(format)));
        const Program made = top_k(opcode, format, extents, input_sticks, output_sticks);
        expect_golden(made, filled_arguments(made, 29, 30), cores);  // with many equal ones
        expect_golden(made, random_arguments(made), cores);
      }
    }
  }

  // Rows of a table by number: dimensions 0 which, 1 columns.
  Program indexed(Opcode opcode, std::uint32_t count, std::uint32_t columns, std::uint32_t rows) {
    Program made;
    program::Operation operation = operation_of(opcode, {count, columns});
    operation.page = wire::kStickBytes;
    const Layout index{.format = Format::Int32, .stick_dim = 0, .order = {0}};
    const Layout listed{.stick_dim = 1, .order = {0, 1}};
    const auto add_table = [&](Access access) {
      add_operand(operation, {.stick_dim = 1, .order = {1}});
      program::Operand& table = operation.operand[operation.operand_count - 1];
      table.base = program::Base::Argument;
      table.argument = static_cast<std::uint8_t>(made.arguments.size());
      table.stride[1] = rows * wire::kStickBytes;
      made.arguments.push_back({.bytes = (columns + 63) / 64 * table.stride[1], .access = access, .reserved = 0});
    };
    add_argument(made, operation, index, Access::Read, random_);
    if (opcode == Opcode::Gather) add_table(Access::Read);
    add_argument(made, operation, listed, opcode == Opcode::Gather ? Access::Write : Access::Read, random_);
    if (opcode == Opcode::Scatter) add_table(Access::Write);
    made.operations.push_back(operation);
    return made;
  }

  std::vector<Bytes> with_indices(const Program& made, std::uint32_t rows) {
    std::vector<Bytes> arguments = random_arguments(made);
    for (std::size_t at = 0; at < arguments[0].size(); at += 4) set_index(arguments, at, random_() % rows);
    return arguments;
  }
  static void set_index(std::vector<Bytes>& arguments, std::size_t at, std::uint64_t index) {
    const auto word = static_cast<std::uint32_t>(index);
    std::memcpy(&arguments[0][at], &word, sizeof word);
  }

  static void expect_refused(const Program& made, std::vector<Bytes> arguments, const Refusal& refusal) {
    const RunResult result = launch(sealed(made), arguments, {});
    ASSERT_TRUE(result.exited);
    ASSERT_TRUE(program::is_refusal(result.status)) << result.status;
    EXPECT_TRUE(program::from_status(result.status) == refusal) << describe(result.status);
  }
};

TEST_F(EngineIndexed, TopKAlongTheStickEqualsGolden) {
  expect_top_k({19, 200, 20}, 1, kNoDimension);
  expect_top_k({19, 200, 70}, 1, 2);
  expect_top_k({3, 40, 40}, kNoDimension, 2);
  expect_top_k({3, 1, 1}, 1, kNoDimension);
}

TEST_F(EngineIndexed, TopKAcrossSticksEqualsGolden) { expect_top_k({100, 65, 20}, 0, 0); }

TEST_F(EngineIndexed, TopKOfManyElementsEqualsGolden) {
  const Program made = top_k(Opcode::TopKIndex, Format::Fp32, {1, 170'000, 3}, 1, kNoDimension);
  expect_golden(made, filled_arguments(made, 29, 30));
}

// FP32 has no odd number above 2^24. All elements are zero but three.
TEST_F(EngineIndexed, TopKPositionsThatFp32HasNotAreExactIntegers) {
  constexpr std::uint32_t kExact = 1 << 24;
  const Program made = top_k(Opcode::TopKIndex, Format::Int32, {1, kExact + 64, 3}, 1, kNoDimension);
  const program::Operand& input = made.operations[0].operand[0];
  const program::Operand& output = made.operations[0].operand[1];
  std::vector<Bytes> arguments;
  for (const program::Argument& argument : made.arguments) arguments.emplace_back(argument.bytes);
  const std::array<std::uint32_t, 3> positions{kExact + 1, kExact + 63, kExact - 1};
  for (std::size_t rank = 0; rank < positions.size(); ++rank) {
    const float value = 3 - static_cast<float>(rank);
    std::memcpy(&arguments[0][input.offset + positions[rank] * sizeof value], &value, sizeof value);
  }
  expect_success(launch(sealed(made), arguments, Own::of(made.header)));
  for (std::size_t rank = 0; rank < positions.size(); ++rank) {  // an element in each stick
    std::uint32_t found = 0;
    std::memcpy(&found, &arguments[1][output.offset + rank * output.stride[2]], sizeof found);
    EXPECT_EQ(found, positions[rank]) << "rank " << rank;
  }
}

TEST_F(EngineIndexed, TopKDoesNotDependOnTheNumberOfCores) {
  expect_top_k({100, 200, 5}, 1, kNoDimension, 7);
  expect_top_k({300, 65, 5}, 0, 0, 3);
}

TEST_F(EngineIndexed, GatherAndScatterEqualGolden) {
  for (const Opcode opcode : {Opcode::Gather, Opcode::Scatter}) {
    for (const unsigned cores : {1u, 3u}) {
      const Program made = indexed(opcode, 300, 100, 50);
      expect_golden(made, with_indices(made, 50), cores);
    }
  }
}

TEST_F(EngineIndexed, AnIndexThatLeadsOutsideIsRefused) {
  for (const Opcode opcode : {Opcode::Gather, Opcode::Scatter}) {
    const Program made = indexed(opcode, 40, 128, 10);
    const std::size_t at = made.operations[0].operand[0].offset + 128 + 3 * 4;  // of position 35
    // The table has 20 sticks: from the first column on, index 19 is the last that lies inside, from the second on 9.
    for (const std::uint64_t index : {10u, 20u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) {
      std::vector<Bytes> arguments = with_indices(made, 10);
      set_index(arguments, at, index);
      expect_refused(made, arguments,
                     {Where::Index, opcode == Opcode::Gather ? std::uint8_t{1} : std::uint8_t{2}, 0,
                      static_cast<std::uint32_t>(index)});
    }
  }
}

TEST_F(EngineIndexed, RandomProgramsEqualGolden) {
  expect_random({Opcode::TopKValue, Opcode::TopKIndex, Opcode::Gather, Opcode::Scatter}, 80);
}

}  // namespace
}  // namespace kernel_test
