// SPDX-License-Identifier: Apache-2.0
// Device programs by hand whose operands have layouts of any kind: gaps, splits, dimensions in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "shared/device_program.hpp"
#include "tests/support/program_builder.hpp"

namespace kernel_test {

namespace program = wire::program;
using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

program::Header new_header();

// A program in parts. bytes() fills in the offsets of the header.
struct Program {
  program::Header header = new_header();
  std::vector<program::Argument> arguments;
  std::vector<program::Operation> operations;
  Bytes data;

  Bytes bytes() const;
};

using svp::test::operation_of;

// Adds the operand behind those that the operation has. Its dimensions follow each other in memory from the inner to
// the outer as listed in `order` (only present ones); `gap` counts units that are left free behind the innermost.
struct Layout {
  program::Format format = program::Format::Dl16;
  std::uint8_t stick_dim = program::kNoDimension;
  std::vector<unsigned> order;
  std::uint32_t gap = 0;
  std::uint8_t split[program::kMaxRank] = {1, 1, 1, 1, 1, 1, 1, 1};
  std::uint8_t split_stride[program::kMaxRank] = {};
  std::uint8_t alternates = program::kNoDimension;  // of an FP8 weight: the dimension with two positions in a stick
};
// Bytes that the operand spans from its offset (in one slice).
std::uint64_t add_operand(program::Operation& operation, const Layout& layout);

// As an argument of its own, with some sticks in front and behind.
void add_argument(Program& made, program::Operation& operation, const Layout& layout, program::Access access,
                  Random& random);

// ---- random ones

std::uint32_t below(Random& random, std::uint32_t limit);

struct Recipe {
  program::Opcode opcode;
  unsigned inputs;
  program::Format from;
  program::Format to;
  std::uint32_t largest_sticks = 600;  // of an operand
};
// One element-wise operation on arguments: any rank, order of dimensions, gaps, broadcast and masks. An input that is
// a table is not added.
Program random_elementwise(const Recipe& recipe, Random& random);

// A layout of the operation's dimensions in `present`, in any order.
Layout random_layout(const program::Operation& operation, program::Format format, std::uint8_t present,
                     std::uint8_t stick_dim, Random& random);

}  // namespace kernel_test
