// SPDX-License-Identifier: Apache-2.0
#include "host_driver/program/device_program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "host_driver/base/error.hpp"
#include "tests/support/program_builder.hpp"

namespace svp {
namespace {

using namespace wire::program;
using Change = std::function<void(std::span<std::byte> program)>;

constexpr std::uint32_t kSticks = 3;
constexpr std::uint64_t kBytes = kSticks * wire::kStickBytes;

Operand run(std::uint8_t argument) {
  const std::uint32_t extent[] = {kSticks * 64};
  const unsigned order[] = {0};
  Operand operand = test::dense_operand(Format::Dl16, extent, order, 0);
  operand.argument = argument;
  return operand;
}

// Two copies, from argument 0 to 1 and from 1 to 2.
std::vector<std::byte> program() {
  test::ProgramBuilder builder;
  builder.add_argument(kBytes, Access::Read);
  builder.add_argument(kBytes, Access::ReadWrite);
  builder.add_argument(kBytes, Access::Write);
  for (std::uint8_t i = 0; i < 2; ++i) {
    Operation copy = test::operation_of(Opcode::Copy, {kSticks * 64});
    copy.operand_count = 2;
    copy.source_line = 17u * i;
    copy.operand[0] = run(i);
    copy.operand[1] = run(static_cast<std::uint8_t>(i + 1));
    builder.add(copy);
  }
  builder.pool_bytes = 256;
  return builder.build();
}

std::string refused_field(const Change& change, bool sealed = true) {
  auto bytes = program();
  change(bytes);
  if (sealed) test::seal(bytes);
  try {
    (void)DeviceProgram("p", bytes);
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("device program p is refused: " + error.field()));
    EXPECT_FALSE(error.info().next_step.empty());
    return error.field();
  }
  return "accepted";
}

Change set(std::uint64_t at, std::uint8_t value) {
  return [=](std::span<std::byte> program) { program[at] = std::byte{value}; };
}

std::uint64_t operation_at(unsigned number) {
  const auto bytes = program();
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header.operations_offset + number * sizeof(Operation);
}

TEST(DevicePrograms, TellWhatALaunchNeeds) {
  auto bytes = program();
  const std::uint64_t size = bytes.size();
  bytes.resize(size + 100);
  const DeviceProgram program("p", bytes);
  EXPECT_EQ(program.name(), "p");
  EXPECT_EQ(program.bytes().size(), size) << "what stands behind it is cut off";
  ASSERT_EQ(program.arguments().size(), 3u);
  EXPECT_EQ(program.arguments()[1].access, Access::ReadWrite);
  EXPECT_EQ(program.arguments()[2].bytes, kBytes);
  EXPECT_EQ(program.workspace_bytes(), 256u);
  EXPECT_EQ(program.most_points(), kSticks * 64u);
  EXPECT_EQ(program.operation(1).source_line, 17u);
}

TEST(DevicePrograms, ARefusalNamesOperationOperandAndField) {
  const std::uint64_t second = operation_at(1);
  const std::uint64_t output = second + offsetof(Operation, operand) + sizeof(Operand);
  EXPECT_EQ(refused_field([](auto) {}), "accepted");
  EXPECT_EQ(refused_field(set(0, 0)), "header: magic");
  EXPECT_EQ(refused_field(set(offsetof(Header, version), 9)), "header: version");
  EXPECT_EQ(refused_field(set(offsetof(Header, crc32c), 1), false), "header: crc");
  EXPECT_EQ(refused_field(set(sizeof(Header) + sizeof(Argument), 1)), "argument 1: argument entry");
  EXPECT_EQ(refused_field(set(second + offsetof(Operation, opcode), 0xEE)), "operation 1 (unknown): opcode");
  EXPECT_EQ(refused_field(set(second + offsetof(Operation, rank), 9)), "operation 1 (Copy): rank");
  EXPECT_EQ(refused_field(set(output + offsetof(Operand, argument), 9)), "operation 1 (Copy), operand 1: base");
  EXPECT_EQ(refused_field(set(output + offsetof(Operand, stride), 1)), "operation 1 (Copy), operand 1: stride");
  EXPECT_THROW(DeviceProgram("p", {}), InvalidArgument);
}

TEST(DevicePrograms, DescribeWhatTheEngineRefused) {
  const DeviceProgram program("p", svp::program());
  EXPECT_EQ(program.describe({Where::Unsupported, kNoOperand, 0}), "operation 0 (Copy): unsupported");
  EXPECT_EQ(program.describe({Where::Stride, 1, 1}), "operation 1 (Copy), operand 1: stride (line 17 of its source)");
  EXPECT_EQ(program.describe({Where::Correction, kNoOperand, kWholeProgram}), "launch: correction");
  EXPECT_EQ(program.describe({Where::Rank, kNoOperand, 99}), "operation 99: rank") << "it has no such operation";
}

TEST(DevicePrograms, AnAccessIsOfTheOperandThatReachesThere) {
  const DeviceProgram program("p", svp::program());
  const auto at = [&](std::uint32_t operation, std::uint8_t argument, std::uint64_t offset, bool written) {
    return program.operand_at(operation, {Base::Argument, argument, offset}, written);
  };
  EXPECT_EQ(at(1, 1, 0, false), 0);
  EXPECT_EQ(at(1, 2, kBytes - 1, true), 1);
  EXPECT_EQ(at(1, 2, kBytes, true), std::nullopt) << "behind it";
  EXPECT_EQ(at(1, 1, 0, true), std::nullopt) << "an input is not written";
  EXPECT_EQ(at(1, 0, 0, false), std::nullopt) << "of another operation";
  EXPECT_EQ(at(99, 0, 0, false), std::nullopt);
  EXPECT_EQ(program.operand_at(1, {Base::Pool, 0, 0}, false), std::nullopt);
  EXPECT_EQ(program.describe_operation(1, 1), "operation 1 (Copy), operand 1 (line 17 of its source)");
  EXPECT_EQ(program.describe_operation(1), "operation 1 (Copy) (line 17 of its source)");
}

// Two inputs of one argument, half of it each, in a loop that steps through both.
TEST(DevicePrograms, LoopsAroundAnOperationMoveItsOperands) {
  constexpr std::uint64_t kHalf = 4 * kBytes;
  test::ProgramBuilder builder;
  builder.add_argument(2 * kHalf, Access::Read);
  builder.add_argument(kBytes, Access::Write);
  builder.begin_loop(4);
  Operation add = test::operation_of(Opcode::Add, {kSticks * 64});
  add.operand_count = 3;
  for (unsigned i = 0; i < 2; ++i) {
    add.operand[i] = run(0);
    add.operand[i].offset = i * kHalf;
    add.operand[i].loop_stride[0] = kBytes;
  }
  add.operand[2] = run(1);
  builder.add(add);
  builder.end_loop();
  const DeviceProgram program("p", builder.build());
  const auto at = [&](std::uint64_t offset) { return program.operand_at(1, {Base::Argument, 0, offset}, false); };
  EXPECT_EQ(at(0), 0);
  EXPECT_EQ(at(kHalf - 1), 0) << "in the last iteration";
  EXPECT_EQ(at(kHalf), 1);
  EXPECT_EQ(at(2 * kHalf - 1), 1);
  EXPECT_EQ(at(2 * kHalf), std::nullopt);
}

// Three rows of a table of 16, whose two columns of sticks lie 16 rows apart.
TEST(DevicePrograms, AnIndexOutsideIsNamedWithItsRows) {
  constexpr std::uint32_t kRows = 16;
  test::ProgramBuilder builder;
  builder.add_argument(128, Access::Read);
  builder.add_argument(2 * kRows * 128, Access::Read);
  builder.add_argument(std::uint64_t{2} * 3 * 128, Access::Write);
  auto gather = test::operation_of(wire::program::Opcode::Gather, {3, 128});
  const auto operand = [&](Format format, std::initializer_list<unsigned> order, std::uint8_t stick,
                           unsigned argument) {
    auto made = test::dense_operand(format, std::span(gather.extent, 2), std::span(order.begin(), order.size()), stick);
    made.base = Base::Argument;
    made.argument = static_cast<std::uint8_t>(argument);
    return made;
  };
  gather.operand_count = 3;
  gather.operand[0] = operand(Format::Int32, {0}, 0, 0);
  gather.operand[1] = operand(Format::Dl16, {1}, 1, 1);
  gather.operand[1].stride[1] = kRows * 128;
  gather.operand[2] = operand(Format::Dl16, {0, 1}, 1, 2);
  gather.page = 128;
  gather.source_line = 21;
  builder.add(gather);
  const DeviceProgram program("p", builder.build());
  EXPECT_EQ(program.rows_of(0, 1), kRows);
  EXPECT_EQ(program.rows_of(1, 1), 0u);
  EXPECT_EQ(program.rows_of(0, 3), 0u);
  const auto text = [&](std::uint32_t index, std::uint32_t operation, std::uint8_t operand) {
    return program.describe_index(
        {.where = wire::program::Where::Index, .operand = operand, .operation = operation, .index = index});
  };
  EXPECT_EQ(
      text(40, 0, 1),
      "index 40 is outside of argument 1, which has 16 rows: operation 0 (Gather), operand 1 (line 21 of its source)");
  EXPECT_THAT(text(~0u, 0, 1), testing::HasSubstr("index -1 is outside of argument 1"));
  // A card may say anything.
  EXPECT_THAT(text(7, 4095, 15), testing::HasSubstr("index 7 is outside of its table, which has 0 rows"));
}

TEST(DevicePrograms, BehindTheArgumentsStandTablesPoolAndScratchpads) {
  test::ProgramBuilder builder;
  builder.pool_bytes = 256;
  builder.slices = 2;
  builder.scratchpad_bytes = 384;
  const auto place = [&](std::size_t index, std::uint64_t offset) {
    const auto found = DeviceProgram("p", builder.build()).place_behind_arguments(index, offset);
    return std::pair(found.base, found.offset);
  };
  EXPECT_EQ(place(0, 255), std::pair(Base::Pool, std::uint64_t{255}));
  EXPECT_EQ(place(1, 0), std::pair(Base::Scratchpad, std::uint64_t{0}));
  EXPECT_EQ(place(1, wire::program::kScratchpadStride + 5), std::pair(Base::Scratchpad, std::uint64_t{5}));
  builder.flags = wire::program::kFunctionTables;
  EXPECT_EQ(place(0, 131072), std::pair(Base::Tables, std::uint64_t{131072}));
  EXPECT_EQ(place(1, 255), std::pair(Base::Pool, std::uint64_t{255}));
  EXPECT_EQ(place(2, 0), std::pair(Base::Scratchpad, std::uint64_t{0}));
  builder.pool_bytes = 0;
  EXPECT_EQ(place(1, 5), std::pair(Base::Scratchpad, std::uint64_t{5}));
  builder.flags = 0;
  EXPECT_EQ(place(0, 5), std::pair(Base::Scratchpad, std::uint64_t{5}));
}

}  // namespace
}  // namespace svp
