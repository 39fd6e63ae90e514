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

TEST(DevicePrograms, AWorkspaceIsThePoolAndThenTheScratchpads) {
  test::ProgramBuilder builder;
  builder.pool_bytes = 256;
  builder.slices = 2;
  builder.scratchpad_bytes = 384;
  const DeviceProgram program("p", builder.build());
  const auto place = [&](std::uint64_t offset) {
    const auto found = program.place_in_workspace(offset);
    return std::pair(found.base, found.offset);
  };
  EXPECT_EQ(place(255), std::pair(Base::Pool, std::uint64_t{255}));
  EXPECT_EQ(place(256), std::pair(Base::Scratchpad, std::uint64_t{0}));
  EXPECT_EQ(place(256 + 384 + 5), std::pair(Base::Scratchpad, std::uint64_t{5}));
}

}  // namespace
}  // namespace svp
